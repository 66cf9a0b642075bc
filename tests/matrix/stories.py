"""What groups live through. Each story is told once, for every client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from kio.schema.errors import ErrorCode

from tests.matrix.cell import Cell
from tests.matrix.clients import Client

OVERSLEPT_MS = 9_000
"""How long a member that oversleeps does so: longer than max.poll.interval.ms and a session."""
ASLEEP_MS = 120_000
"""How long a member sleeps at most that is woken before."""
STATIC = {"session_timeout_ms": 45_000, "max_poll_interval_ms": 60_000}
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}
DIGESTED = {"tell_digests": "true"}
SIZES = (1, 1_000, 100_000)
LARGE_UNTIL_COMPRESSED = 3_000_000
"""Within message.max.bytes when it is compressed, and only then."""
LARGEST_VALUE_BYTES = 1_048_588 - 61 - 11
"""A value that fills message.max.bytes as it is by default: a batch's header has 61 bytes, a record's own
fields have 11."""
OVERSLEEPING = {"session_timeout_ms": 6_000, "max_poll_interval_ms": 7_000}


@dataclass(frozen=True, slots=True)
class Story:
    """What a client has to live through: one column of the matrix."""

    name: str
    tell: Callable[[Cell], None]
    settings: dict[str, Any] = field(default_factory=dict)
    why_not: Callable[[Client], str] = lambda client: ""
    """Why a client cannot live it; "" if it can."""
    eased: Callable[[Client], str] = lambda client: ""
    """What a client does not have to live through, and why; it is "" if that is nothing."""


def join(cell: Cell) -> None:
    """Two members come one after the other; each record is seen, whoever owns its partition."""
    cell.produce()
    cell.start()
    cell.shared_out()
    cell.aim()
    cell.start()
    cell.strike()
    cell.shared_out()


def scale(cell: Cell) -> None:
    """Out to three members at once, and in to one, while records come."""
    cell.start()
    cell.shared_out()
    cell.aim()
    cell.start()
    cell.start()
    cell.strike()
    cell.produce(2)
    cell.shared_out()
    for member in cell.members[:2]:
        member.close()
        cell.produce()
    cell.shared_out()


def rolling_restart(cell: Cell) -> None:
    """Each of two members is closed and another takes its place, while records come."""
    for _ in range(2):
        cell.start()
    cell.shared_out()
    cell.aim()
    for number, member in enumerate(list(cell.members)):
        member.close()
        cell.produce()
        cell.start()
        if number == 0:
            cell.strike()
        cell.shared_out()


def static_restart(cell: Cell) -> None:
    """A member with an instance id is closed and comes back within its session: it has its partitions again,
    and the other member notices nothing."""
    first = cell.start(group_instance_id="one")
    second = cell.start(group_instance_id="two")
    cell.shared_out()
    before, moves = set(second.owned), len(second.told("revoked"))
    cell.aim()
    second.close()
    cell.strike()
    again = cell.start(group_instance_id="two")
    if cell.client.says_no_farewell:
        cell.shared_out()
        return
    cell.wait(lambda: again.owned == before, "the partitions of before are assigned again")
    assert not first.told("lost")
    if not cell.fails_over:
        assert len(first.told("revoked")) <= moves + 1, f"the other member was disturbed\n{cell.story()}"


def cooperative(cell: Cell) -> None:
    """A member that stays keeps the partitions that it keeps: only what moves is revoked."""
    cell.produce()
    first = cell.start()
    cell.shared_out()
    owned = set(first.owned)
    cell.aim()
    second = cell.start()
    cell.strike()
    cell.shared_out()
    revoked = {partition for event in first.told("revoked") for partition in event["partitions"]}
    if not first.told("lost"):
        assert revoked == set(second.owned), f"of {owned}, {revoked} were revoked\n{cell.story()}"


def commit_while_rebalancing(cell: Cell) -> None:
    """Members come and go while every poll is committed: nothing that was acknowledged is lost."""
    steady = cell.start()
    cell.shared_out()
    cell.aim()
    for number in range(3):
        passer_by = cell.start()
        cell.produce()
        cell.wait(lambda member=passer_by: member.owned, "the new member owns something")
        if number == 1:
            cell.strike()
        cell.produce()
        passer_by.close()
    assert steady.lives
    cell.shared_out()


def regex(cell: Cell) -> None:
    """A pattern matches a topic that is there, and one that is created later."""
    pattern = f"pattern:{cell.topic}(-more)?"
    cell.produce()
    for _ in range(2):
        cell.start(pattern)
    cell.shared_out()
    cell.aim()
    if not cell.client.blind_to_new_topics:
        cell.create_topic(f"{cell.topic}-more")
    if cell.client.finds_one_at_a_time:
        cell.shared_out()
    cell.strike()
    cell.produce()
    cell.shared_out()


def long_processing(cell: Cell) -> None:
    """A member that does not poll for too long leaves; another has its partitions; it comes back."""
    first = cell.start()
    second = cell.start()
    cell.shared_out()
    cell.produce()
    cell.all_seen()
    second.tell(f"nap {OVERSLEPT_MS if cell.client.stays_when_idle else ASLEEP_MS}")
    cell.produce()
    if not cell.client.stays_when_idle:
        cell.wait(lambda: len(first.owned) == len(cell.partitions), "the other member has it all")
        second.tell("wake")
    cell.aim()
    cell.wait(lambda: second.told("napped"), "it wakes")
    cell.strike()
    cell.shared_out()


def compression(cell: Cell) -> None:
    """The client writes with each of its codecs, small records and large ones, and reads what it wrote."""
    cell.start()
    cell.start()
    cell.shared_out()
    writer = cell.start_writer()
    cell.aim()
    for number, codec in enumerate(cell.client.codecs):
        for size in SIZES if codec == "none" else (*SIZES, LARGE_UNTIL_COMPRESSED):
            cell.write(writer, codec, size)
        if number == len(cell.client.codecs) // 2:
            cell.strike()
    cell.all_seen()


def record_sizes(cell: Cell) -> None:
    """Records up to message.max.bytes are taken and read; one byte more is refused, and harms nothing."""
    cell.start()
    cell.start()
    cell.shared_out()
    writer = cell.start_writer()
    cell.aim()
    for size in (*SIZES, LARGEST_VALUE_BYTES):
        cell.write(writer, "none", size)
    cell.strike()
    for size in (LARGEST_VALUE_BYTES + 1, 2 * LARGEST_VALUE_BYTES):
        cell.write_in_vain(writer, "none", size, ErrorCode.message_too_large)
        if cell.client.stuck_when_refused:
            writer = cell.start_writer()
        cell.write(writer, "none", 1_000)
    cell.write(writer, "none", LARGEST_VALUE_BYTES)
    cell.all_seen()


def _not_cooperative(client: Client) -> str:
    able = client.protocol == "consumer" or "cooperative-sticky" in client.assignors
    return "" if able else f"{client.name} has no cooperative assignor."


def _of_new_topics(client: Client) -> str:
    return client.blind_to_new_topics or client.finds_one_at_a_time


STORIES = (
    Story("join", join),
    Story("scale out, in", scale),
    Story("rolling restart", rolling_restart),
    Story(
        "static restart",
        static_restart,
        STATIC,
        why_not=attrgetter("never_static"),
        eased=attrgetter("says_no_farewell"),
    ),
    Story("cooperative", cooperative, COOPERATIVE, why_not=_not_cooperative),
    Story("commit while rebalancing", commit_while_rebalancing),
    Story("regex", regex, why_not=attrgetter("no_patterns"), eased=_of_new_topics),
    Story("long processing", long_processing, OVERSLEEPING, eased=attrgetter("stays_when_idle")),
    Story("compression", compression, DIGESTED, eased=attrgetter("lacks_codecs")),
    Story("record sizes", record_sizes, DIGESTED, eased=attrgetter("stuck_when_refused")),
)


def live(cell: Cell, story: Story) -> None:
    """The story and its end. Raises Broken or AssertionError."""
    story.tell(cell)
    cell.finish()
