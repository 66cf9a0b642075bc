"""Groups that change their kind: the upgrade with members, and both ways without (G1, G2, G8, C28, M27)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.oracle.kits import (
    assignment,
    beat,
    beat_in,
    commit,
    consumer_describe,
    describe,
    fetch,
    heartbeat,
    join,
    protocols,
    start_join,
    subscription,
    sync,
)
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript


def offered(
    topic: str, *names: str, version: int = 1, owned: Mapping[str, Sequence[int]] | None = None
) -> list[dict[str, Any]]:
    """JoinGroup's protocols of a consumer of `topic`."""
    metadata = subscription([topic], version=version, owned=owned)
    return protocols(*(names or ("range",)), metadata=metadata)


def classic_alone(
    client: Client, group_id: str, topic: str, numbers: Sequence[int] = (0, 1), **fields: Any
) -> Any:
    """A Stable classic group of one member that owns `numbers`; its JoinGroup answer."""
    joined = join(client, group_id, protocols=offered(topic), **fields)
    static = {name: fields[name] for name in ("group_instance_id",) if name in fields}
    sync(client, group_id, joined, {joined.member_id: assignment({topic: numbers})}, **static)
    return joined


def settled(client: Client, group_id: str, member_id: str, topic: str) -> Any:
    """A member's next JoinGroup and SyncGroup in a consumer group."""
    joined = client.ask("join_group", 9, group_id=group_id, member_id=member_id, protocols=offered(topic))
    sync(client, group_id, joined)
    return joined


@transcript(rows=("A24", "G2", "G3", "G4", "G5", "G8"))
def upgrade_by_a_new_member(play: Play) -> None:
    """A Stable classic member goes on, is told to rejoin, gets its half; the newcomer gets the other."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    first = classic_alone(a, play.group(), topic)
    beat_in(b, play.group(), "m", [topic])
    describe(a, play.group(), 6)
    consumer_describe(a, play.group())
    heartbeat(a, play.group(), first)
    joined = settled(a, play.group(), first.member_id, topic)
    heartbeat(a, play.group(), joined)
    beat(b, play.group(), "m", joined.generation_id)
    consumer_describe(a, play.group())
    consumer_describe(a, play.group(), 0)


@transcript(rows=("G3", "G4", "G5"))
def cooperative_member_revokes_first(play: Play) -> None:
    """What it says that it still owns is given to nobody else."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    first = classic_alone(a, play.group(), topic)
    beat_in(b, play.group(), "m", [topic])
    fields = {"group_id": play.group(), "member_id": first.member_id}
    joined = a.ask("join_group", 9, protocols=offered(topic, owned={topic: [0, 1]}), **fields)
    sync(a, play.group(), joined)
    heartbeat(a, play.group(), joined)
    beat(b, play.group(), "m", 2)
    consumer_describe(a, play.group())
    kept = consumer_describe(a, play.group()).groups[0]
    numbers = [
        number
        for member in kept.members
        if member.member_id == first.member_id
        for assigned in member.assignment.topic_partitions
        for number in assigned.partitions
    ]
    joined = a.ask("join_group", 9, protocols=offered(topic, owned={topic: numbers}), **fields)
    sync(a, play.group(), joined)
    heartbeat(a, play.group(), joined)
    beat(b, play.group(), "m", 2)
    consumer_describe(a, play.group())


@transcript(rows=("G5", "M12"))
def waiting_member_is_told_when_all_is_free(play: Play) -> None:
    """A classic member that waits for a consumer member to let go rejoins only then."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), protocols=offered(topic))
    sync(a, play.group(), joined)
    heartbeat(a, play.group(), joined)
    owned = {"topic_id": play.topic_id(topic), "partitions": [0, 1]}
    told = beat(b, play.group(), "m", 2, topic_partitions=[owned])
    heartbeat(a, play.group(), joined)
    kept = [
        {"topic_id": t.topic_id, "partitions": list(t.partitions)} for t in told.assignment.topic_partitions
    ]
    beat(b, play.group(), "m", 2, topic_partitions=kept)
    heartbeat(a, play.group(), joined)
    joined = settled(a, play.group(), joined.member_id, topic)
    heartbeat(a, play.group(), joined)
    consumer_describe(a, play.group())


@transcript(rows=("G2", "C19"))
def parked_joins_are_sent_back(play: Play) -> None:
    """Who waits for the classic rebalance joins the consumer group instead."""
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    topic = play.topic("t", 2)
    first = classic_alone(a, play.group(), topic)
    parked, member_id = start_join(b, play.group(), protocols=offered(topic))
    beat_in(c, play.group(), "m", [topic])
    parked.collect()
    consumer_describe(a, play.group(), ignore=("target_assignment",))
    heartbeat(a, play.group(), first)
    settled(b, play.group(), member_id, topic)


@transcript(rows=("G2", "C19"))
def parked_syncs_are_sent_back(play: Play) -> None:
    """Who waits for the leader's assignment, too."""
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    topic = play.topic("t", 2)
    first = classic_alone(a, play.group(), topic)
    parked, member_id = start_join(b, play.group(), protocols=offered(topic))
    join(a, play.group(), member_id=first.member_id, protocols=offered(topic))
    parked.collect()
    waiting = b.send("sync_group", 5, group_id=play.group(), generation_id=2, member_id=member_id)
    beat_in(c, play.group(), "m", [topic])
    waiting.collect()
    consumer_describe(a, play.group(), ignore=("target_assignment",))


_UNREADABLE = {
    "subscription cut short": (b"\0\1", b""),
    "subscription empty": (b"", b""),
    "subscription of version -1": (b"\xff\xff\0\0\0\0\0\0\0\0", b""),
    "assignment cut short": (None, b"\0\1\0"),
    "assignment with user data": (None, assignment({}, user_data=b"sticky")),
}


@transcript(rows=("G2",), cases=_UNREADABLE)
def unreadable_bytes_refuse_the_upgrade(play: Play, given: tuple[bytes | None, bytes]) -> None:
    """69, and the classic group goes on."""
    metadata, assigned = given
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    offers = offered(topic) if metadata is None else [{"name": "range", "metadata": metadata}]
    joined = join(a, play.group(), protocols=offers)
    sync(a, play.group(), joined, {joined.member_id: assigned})
    beat_in(b, play.group(), "m", [topic])
    heartbeat(a, play.group(), joined)
    describe(a, play.group())


@transcript(rows=("G2",))
def user_data_of_subscriptions_and_unknown_topics_do_not_matter(play: Play) -> None:
    """An assigned topic that does not exist is dropped silently; the empty assignment is one, too."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    metadata = subscription([topic, play.unique("nowhere")], user_data=b"mine")
    joined = join(a, play.group(), protocols=protocols("range", metadata=metadata))
    sync(a, play.group(), joined, {joined.member_id: assignment({play.unique("nowhere"): [0], topic: [1]})})
    beat_in(b, play.group(), "m", [topic])
    consumer_describe(a, play.group(), unordered=("subscribed_topic_names",))


@transcript(rows=("G2", "C18"))
def member_without_an_assignment_is_upgraded(play: Play) -> None:
    """The leader forgot it: it has nothing. Which of the two partitions a member gets, its random id says."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    joined = join(a, play.group(), protocols=offered(topic))
    sync(a, play.group(), joined)
    beat_in(b, play.group(), "m", [topic], ignore=("partitions",))
    consumer_describe(a, play.group(), ignore=("partitions",))


@transcript(rows=("G2",), cases={"v0": 0, "v2": 2, "v3": 3, "newer": 7})
def every_version_of_a_subscription(play: Play, version: int) -> None:
    """The rack comes with version 3; a newer version is read as the newest known one; the assignment comes
    in the member's own."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    known = subscription([topic], version=min(version, 3), rack="east" if version >= 3 else None)
    offers = [{"name": "range", "metadata": version.to_bytes(2, "big") + known[2:]}]
    joined = join(a, play.group(), protocols=offers)
    sync(a, play.group(), joined, {joined.member_id: assignment({topic: [0, 1]})})
    beat_in(b, play.group(), "m", [topic])
    consumer_describe(a, play.group())
    joined = a.ask("join_group", 9, group_id=play.group(), member_id=joined.member_id, protocols=offers)
    sync(a, play.group(), joined)


@transcript(rows=("M27", "G2", "C29"))
def group_of_another_type_is_not_upgraded(play: Play) -> None:
    """While it has members; an empty one is converted, and starts over."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    joined = join(a, play.group(), protocol_type="connect", protocols=offered(topic))
    sync(a, play.group(), joined)
    beat_in(b, play.group(), "m", [topic])
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    beat_in(b, play.group(), "m", [topic])


@transcript(rows=("C28", "R8", "M27"))
def empty_groups_change_their_kind(play: Play) -> None:
    """Classic to consumer and back; epochs and generations start over, offsets survive both."""
    a = play.connect("a")
    topic = play.topic("t", 2)
    joined = classic_alone(a, play.group(), topic)
    offsets = {topic: {0: 7}}
    commit(a, 9, play.group(), offsets, generation_id_or_member_epoch=1, member_id=joined.member_id)
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    beat_in(a, play.group(), "m", [topic])
    fetch(a, 8, play.group(), None)
    beat(a, play.group(), "m", -1)
    classic_alone(a, play.group(), topic)
    fetch(a, 8, play.group(), None)
    describe(a, play.group())


@transcript(rows=("R8", "O1"))
def simple_groups_become_groups_of_either_kind(play: Play) -> None:
    """Offsets alone are no hindrance, and stay."""
    a = play.connect("a")
    topic = play.topic("t", 2)
    for name in ("classic", "consumer"):
        commit(a, 9, play.group(name), {topic: {0: 7}})
    classic_alone(a, play.group("classic"), topic)
    beat_in(a, play.group("consumer"), "m", [topic])
    for name in ("classic", "consumer"):
        fetch(a, 8, play.group(name), None)
