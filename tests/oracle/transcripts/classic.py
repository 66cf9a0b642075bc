"""Classic groups: joining, settling, rebalancing, leaving (C1 to C29)."""

from __future__ import annotations

from typing import Any

from tests.oracle.kits import (
    describe,
    heartbeat,
    join,
    protocols,
    settle_alone,
    settle_two,
    start_join,
    subscription,
    sync,
)
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("C3", "C7"), cases={f"v{version}": version for version in range(10)})
def joining_without_an_id(play: Play, version: int) -> None:
    """A dynamic member is told its id first from version 4 on; before, it is in at once."""
    a = play.connect()
    told = a.ask("join_group", version, group_id=play.group())
    if version >= 4:
        a.ask("join_group", version, group_id=play.group(), member_id=told.member_id)
    describe(a, play.group())


@transcript(rows=("C7",), cases={"null": None, "letters": "ä b-c", "long": "x" * 300})
def member_id_begins_with_the_client_id(play: Play, client_id: str | None) -> None:
    a = play.connect("a", client_id)
    a.ask("join_group", 9, group_id=play.group())
    a.ask("join_group", 3, group_id=play.group("h"))
    a.ask("join_group", 9, group_id=play.group("static"), group_instance_id="i")


@transcript(rows=("C3", "B2"))
def group_is_not_made_by_a_member_with_an_id(play: Play) -> None:
    a = play.connect()
    a.ask("join_group", 9, group_id=play.group(), member_id="made-up")
    a.ask("join_group", 9, group_id=play.group(), member_id="made-up", group_instance_id="i")
    a.ask("join_group", 0, group_id=play.group(), member_id="made-up")
    describe(a, play.group(), 6)


@transcript(rows=("C3", "C7"))
def pending_member_makes_the_group(play: Play) -> None:
    """Who was only told an id has made an Empty group, which can be seen and deleted."""
    a = play.connect()
    a.ask("join_group", 9, group_id=play.group())
    describe(a, play.group(), 6)
    a.ask("delete_groups", 2, groups_names=[play.group()])
    describe(a, play.group(), 6)


@transcript(rows=("C1", "C17", "C18", "C20", "C25", "B5"))
def one_member_settles(play: Play) -> None:
    a = play.connect()
    joined = join(a, play.group())
    heartbeat(a, play.group(), joined)
    describe(a, play.group())
    sync(a, play.group(), joined, {joined.member_id: b"mine"})
    heartbeat(a, play.group(), joined)
    describe(a, play.group())


@transcript(rows=("C2",))
def joins_that_are_refused_at_the_door(play: Play) -> None:
    """Group id, then session timeout, then protocols."""
    a = play.connect()
    for fields in (
        {"group_id": ""},
        {"group_id": "", "session_timeout": 99},
        {"session_timeout": 99},
        {"session_timeout": 1_800_001},
        {"session_timeout": 0},
        {"session_timeout": -1},
        {"session_timeout": 99, "member_id": "made-up"},
        {"session_timeout": 99, "protocols": []},
        {"protocols": []},
        {"protocol_type": ""},
        {"protocol_type": "", "protocols": [], "member_id": "made-up"},
    ):
        a.ask("join_group", 9, **{"group_id": play.group(), **fields})
        a.ask("join_group", 2, **{"group_id": play.group(), **fields})
    a.ask("join_group", 9, group_id=play.group(), session_timeout=100)
    a.ask("join_group", 9, group_id=play.group(), session_timeout=1_800_000)
    describe(a, play.group(), 6)


@transcript(rows=("C9", "C19", "C20", "C25", "B4", "B6", "B11"))
def second_member_waits_for_the_first(play: Play) -> None:
    """The barrier: who comes later is parked until the leader has rejoined; only the leader gets the list."""
    a, b = play.connect("a"), play.connect("b")
    first = settle_alone(a, play.group())
    parked, member_id = start_join(b, play.group())
    parked.expect_silence()
    describe(a, play.group())
    heartbeat(a, play.group(), first)
    heartbeat(a, play.group(), first, member_id=member_id)
    sync(a, play.group(), first)
    again = join(a, play.group(), member_id=first.member_id)
    second = parked.collect()
    heartbeat(a, play.group(), first)
    waiting = b.send("sync_group", 5, group_id=play.group(), generation_id=2, member_id=second.member_id)
    waiting.expect_silence()
    describe(a, play.group())
    sync(a, play.group(), again, {again.member_id: b"of a", second.member_id: b"of b"})
    waiting.collect()
    describe(a, play.group())


@transcript(rows=("C18",))
def member_that_the_leader_forgot_gets_nothing(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    first = settle_alone(a, play.group())
    parked, _ = start_join(b, play.group())
    again = join(a, play.group(), member_id=first.member_id)
    second = parked.collect()
    sync(a, play.group(), again, {again.member_id: b"of a", "made-up": b"of nobody"})
    sync(b, play.group(), second)
    sync(a, play.group(), again)
    describe(a, play.group())


@transcript(rows=("C17", "C18"))
def followers_assignments_are_not_taken(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    first = settle_alone(a, play.group())
    parked, _ = start_join(b, play.group())
    again = join(a, play.group(), member_id=first.member_id)
    second = parked.collect()
    waiting = b.send(
        "sync_group",
        5,
        group_id=play.group(),
        generation_id=2,
        member_id=second.member_id,
        assignments=[{"member_id": second.member_id, "assignment": b"stolen"}],
    )
    waiting.expect_silence()
    sync(a, play.group(), again)
    waiting.collect()
    sync(a, play.group(), again, {again.member_id: b"too late"})
    describe(a, play.group())


@transcript(rows=("C9", "E1"))
def stable_group_is_rebalanced_by_its_leader(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    first, second = settle_two(a, b, play.group())
    parked = a.send("join_group", 9, group_id=play.group(), member_id=first.member_id)
    parked.expect_silence()
    heartbeat(b, play.group(), second)
    join(b, play.group(), member_id=second.member_id)
    parked.collect()


@transcript(rows=("C9",))
def follower_of_a_stable_group_rejoins_unchanged(play: Play) -> None:
    """It is told the current generation and nobody is bothered; with another subscription all are."""
    a, b = play.connect("a"), play.connect("b")
    first, second = settle_two(a, b, play.group())
    join(b, play.group(), member_id=second.member_id)
    heartbeat(a, play.group(), first)
    changed = protocols("range", metadata=subscription(["other"]))
    parked = b.send("join_group", 9, group_id=play.group(), member_id=second.member_id, protocols=changed)
    parked.expect_silence()
    heartbeat(a, play.group(), first)
    join(a, play.group(), member_id=first.member_id)
    parked.collect()


@transcript(rows=("C9", "C19"))
def rejoining_while_the_leader_assigns(play: Play) -> None:
    """CompletingRebalance: the same metadata gets the same generation again, other metadata starts anew and
    sends away who waits for its assignment."""
    a, b = play.connect("a"), play.connect("b")
    first = settle_alone(a, play.group())
    parked, _ = start_join(b, play.group())
    again = join(a, play.group(), member_id=first.member_id)
    second = parked.collect()
    join(a, play.group(), member_id=first.member_id)
    join(b, play.group(), member_id=second.member_id)
    waiting = b.send("sync_group", 5, group_id=play.group(), generation_id=2, member_id=second.member_id)
    waiting.expect_silence()
    changed = protocols("range", metadata=subscription(["other"]))
    parked = a.send("join_group", 9, group_id=play.group(), member_id=again.member_id, protocols=changed)
    waiting.collect()
    join(b, play.group(), member_id=second.member_id)
    parked.collect()


@transcript(rows=("C6",))
def protocols_that_do_not_fit(play: Play) -> None:
    """Another type, or no protocol that all have: 23, and the member is not in."""
    a, b = play.connect("a"), play.connect("b")
    joined = settle_alone(a, play.group(), protocols=protocols("range", "roundrobin"))
    for fields in (
        {"protocol_type": "connect"},
        {"protocols": protocols("sticky")},
        {"protocols": []},
        {"protocol_type": ""},
        {"protocol_type": "connect", "protocols": protocols("sticky"), "member_id": "made-up"},
    ):
        b.ask("join_group", 9, group_id=play.group(), **fields)
    heartbeat(a, play.group(), joined)
    describe(a, play.group())


@transcript(rows=("C6", "C21"))
def sole_member_cannot_change_its_protocol(play: Play) -> None:
    a = play.connect()
    joined = settle_alone(a, play.group(), protocols=protocols("range"))
    join(a, play.group(), member_id=joined.member_id, protocols=protocols("sticky"))
    join(a, play.group(), member_id=joined.member_id, protocol_type="connect")
    heartbeat(a, play.group(), joined)
    join(a, play.group(), member_id=joined.member_id, protocols=protocols("sticky", "range"))


_VOTES: dict[str, tuple[list[str], list[str]]] = {
    "first choice of one": (["range", "roundrobin"], ["roundrobin", "range"]),
    "tie turned": (["roundrobin", "range"], ["range", "roundrobin"]),
    "common one only": (["sticky", "range"], ["roundrobin", "range"]),
    "cooperative": (["cooperative-sticky", "range"], ["range", "cooperative-sticky"]),
    "sticky": (["sticky", "range"], ["range", "sticky"]),
    "ab": (["a", "b"], ["b", "a"]),
    "named twice": (["a", "a", "b"], ["a", "b"]),
}


@transcript(rows=("C15", "B4"), cases=_VOTES)
def members_vote_for_a_protocol(play: Play, names: tuple[list[str], list[str]]) -> None:
    a, b = play.connect("a"), play.connect("b")
    settle_two(a, b, play.group(), protocols=protocols(*names[0]), of_b={"protocols": protocols(*names[1])})
    describe(a, play.group())


@transcript(rows=("C8",))
def pending_member_holds_the_join_back(play: Play) -> None:
    """Who was told its id is waited for; it comes, and all are answered."""
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    first = settle_alone(a, play.group())
    told = c.ask("join_group", 9, group_id=play.group())
    parked_b, _ = start_join(b, play.group())
    parked_a = a.send("join_group", 9, group_id=play.group(), member_id=first.member_id)
    parked_a.expect_silence()
    c.ask("join_group", 9, group_id=play.group(), member_id=told.member_id)
    parked_a.collect()
    parked_b.collect()


@transcript(rows=("C8",))
def pending_member_expires_and_the_join_completes(play: Play) -> None:
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    first = settle_alone(a, play.group())
    told = c.ask("join_group", 9, group_id=play.group(), session_timeout=900)
    parked_b, _ = start_join(b, play.group())
    parked_a = a.send("join_group", 9, group_id=play.group(), member_id=first.member_id)
    parked_a.collect()
    parked_b.collect()
    c.ask("join_group", 9, group_id=play.group(), member_id=told.member_id)


@transcript(rows=("C8",))
def pending_members_do_not_hold_back_the_first_join(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    told = a.ask("join_group", 9, group_id=play.group())
    b.ask("join_group", 9, group_id=play.group())
    a.ask("join_group", 9, group_id=play.group(), member_id=told.member_id)


@transcript(rows=("C11", "C13", "B8"))
def member_that_does_not_rejoin_is_left_behind(play: Play) -> None:
    """After the rebalance timeout the others go on; the next leader is one of them."""
    a, b = play.connect("a"), play.connect("b")
    first = settle_alone(a, play.group(), rebalance_timeout=700)
    parked, _ = start_join(b, play.group(), rebalance_timeout=100)
    second = parked.collect()
    heartbeat(a, play.group(), first)
    sync(b, play.group(), second, {second.member_id: b"all"})
    describe(b, play.group())


@transcript(rows=("C16",))
def member_that_never_syncs_is_removed(play: Play) -> None:
    """Even when the leader's assignment has made the group Stable."""
    a, b = play.connect("a"), play.connect("b")
    first = settle_alone(a, play.group(), rebalance_timeout=800)
    parked, _ = start_join(b, play.group(), rebalance_timeout=800)
    again = join(a, play.group(), member_id=first.member_id, rebalance_timeout=800)
    second = parked.collect()
    sync(a, play.group(), again, {again.member_id: b"of a", second.member_id: b"of b"})
    fields = {"generation_id": 2, "member_id": again.member_id}
    a.ask_until(lambda said: said.error_code.value, "heartbeat", 4, group_id=play.group(), **fields)
    heartbeat(b, play.group(), second)
    join(a, play.group(), member_id=first.member_id, rebalance_timeout=800)


@transcript(rows=("C16", "C18"))
def leader_that_never_syncs_is_removed(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    first = settle_alone(a, play.group(), rebalance_timeout=800)
    parked, _ = start_join(b, play.group(), rebalance_timeout=800)
    join(a, play.group(), member_id=first.member_id, rebalance_timeout=800)
    second = parked.collect()
    waiting = b.send("sync_group", 5, group_id=play.group(), generation_id=2, member_id=second.member_id)
    waiting.collect()
    heartbeat(a, play.group(), first, generation_id=2)
    join(b, play.group(), member_id=second.member_id, rebalance_timeout=800)


@transcript(rows=("C11",), cases={"zero": 0, "minus one": -1})
def rebalance_timeout_is_taken_as_it_is(play: Play, timeout_ms: int) -> None:
    """Nothing to wait: the member that has just joined has not synced in time."""
    a = play.connect()
    joined = join(a, play.group(), rebalance_timeout=timeout_ms)
    a.ask_until(
        lambda said: said.error_code.value == 25,
        "heartbeat",
        4,
        group_id=play.group(),
        generation_id=1,
        member_id=joined.member_id,
    )
    sync(a, play.group(), joined)
    describe(a, play.group())


@transcript(rows=("C17",))
def syncs_that_are_refused(play: Play) -> None:
    a = play.connect()
    joined = settle_alone(a, play.group())
    right: dict[str, Any] = {"group_id": play.group(), "generation_id": 1, "member_id": joined.member_id}
    for fields in (
        {"group_id": ""},
        {"group_id": play.group("other")},
        {"member_id": ""},
        {"member_id": "made-up"},
        {"generation_id": 0},
        {"generation_id": 2},
        {"generation_id": -1},
        {"group_instance_id": "i"},
        {"protocol_type": "connect"},
        {"protocol_name": "sticky"},
        {"protocol_type": None},
        {"protocol_name": None},
        {"protocol_type": None, "protocol_name": None, "group_id": ""},
        {"protocol_type": "connect", "generation_id": 2},
        {"protocol_type": "connect", "member_id": "made-up"},
    ):
        a.ask("sync_group", 5, **{**right, **fields})
        a.ask("sync_group", 3, **{**right, **fields})
    a.ask("sync_group", 5, **right)


@transcript(rows=("C17",), cases={f"v{version}": version for version in range(6)})
def every_version_of_sync(play: Play, version: int) -> None:
    a = play.connect()
    joined = join(a, play.group())
    data = [{"member_id": joined.member_id, "assignment": b"mine"}]
    fields = {"group_id": play.group(), "generation_id": 1, "member_id": joined.member_id}
    a.ask("sync_group", version, assignments=data, **fields)
    a.ask("sync_group", version, **fields)
    a.ask("sync_group", version, **{**fields, "generation_id": 9})


@transcript(rows=("C20", "E5", "E6"))
def heartbeats_that_are_refused(play: Play) -> None:
    a = play.connect()
    joined = settle_alone(a, play.group())
    for fields in (
        {"generation_id": 2},
        {"generation_id": -1},
        {"member_id": "made-up"},
        {"member_id": ""},
        {"group_id": ""},
        {"group_id": play.group("other")},
        {"group_instance_id": "i"},
        {"group_instance_id": "i", "generation_id": 2},
    ):
        right = {"group_id": play.group(), "generation_id": 1, "member_id": joined.member_id}
        for version in range(5):
            a.ask("heartbeat", version, **{**right, **fields})


@transcript(rows=("C20",))
def silent_member_is_removed(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    joined = settle_alone(a, play.group(), session_timeout=700)
    b.ask_until(
        lambda said: said.groups[0].group_state == "Empty", "describe_groups", 5, groups=[play.group()]
    )
    heartbeat(a, play.group(), joined)


@transcript(rows=("C29", "B7"), cases={"connect": "connect", "sr": "sr", "custom": "ä b"})
def other_protocol_types_are_opaque(play: Play, protocol_type: str) -> None:
    """Bytes that no consumer would read pass through as they are."""
    a, b = play.connect("a"), play.connect("b")
    own = [{"name": "v0", "metadata": b"\xff\xfe\x00"}, {"name": "v1", "metadata": b""}]
    settle_two(a, b, play.group(), protocol_type=protocol_type, protocols=own)
    describe(a, play.group())
    a.ask("list_groups", 5, states_filter=[], types_filter=[])


@transcript(rows=("C29",), cases={"empty": b"", "one": b"\0", "two": b"\0\1"})
def short_subscription_is_tolerated(play: Play, metadata: bytes) -> None:
    a = play.connect()
    settle_alone(a, play.group(), protocols=[{"name": "range", "metadata": metadata}])
    describe(a, play.group())


ABSURD = {
    "more topics than bytes": b"\0\0\x7f\xff\xff\xff",
    "fewer topics than none": b"\0\0\xff\xff\xff\xff",
    "a name longer than the rest": b"\0\0\0\0\0\1\x7f\xff",
    "a version below 0": b"\xff\xff\0\0\0\0",
}


@transcript(rows=("C29",), cases=ABSURD)
def absurd_subscription_is_tolerated(play: Play, metadata: bytes) -> None:
    """The member settles, joins again with other bytes, and leaves."""
    a = play.connect()
    joined = settle_alone(a, play.group(), protocols=[{"name": "range", "metadata": metadata}])
    changed = [{"name": "range", "metadata": metadata + b"z"}]
    again = a.ask("join_group", 9, group_id=play.group(), member_id=joined.member_id, protocols=changed)
    sync(a, play.group(), again)
    describe(a, play.group())
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    describe(a, play.group())


@transcript(rows=("C25", "A12", "W12"), cases={f"v{version}": version for version in range(7)})
def every_version_of_describe(play: Play, version: int) -> None:
    """Only version 6 says of an unknown group that it is not there."""
    a = play.connect()
    settle_alone(a, play.group(), group_instance_id="i")
    groups = [play.group(), play.group("other")]
    a.ask("describe_groups", version, groups=groups)
    a.ask("describe_groups", version, groups=groups, include_authorized_operations=True)
    a.ask("describe_groups", version, groups=[""])
    a.ask("describe_groups", version, groups=[])
    a.ask("describe_groups", version, groups=[play.group(), play.group()])
