"""Members of the classic protocol in consumer groups, and such groups' way back (G1, G3 to G7)."""

from __future__ import annotations

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
    sync,
)
from tests.oracle.play import Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.migration import classic_alone, offered, settled


@transcript(rows=("G3",), cases={f"v{version}": version for version in range(10)})
def every_version_of_join(play: Play, version: int) -> None:
    """A consumer group tells a classic member its id first from version 4 on; nobody leads."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = a.ask("join_group", version, group_id=play.group(), protocols=offered(topic))
    a.ask("join_group", version, group_id=play.group(), member_id=joined.member_id, protocols=offered(topic))


@transcript(rows=("G3",))
def joins_that_a_consumer_group_refuses(play: Play) -> None:
    """Every error carries member id ""; a made-up id is taken."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    known = {"group_id": play.group(), "protocols": offered(topic)}
    a.ask("join_group", 9, **known, session_timeout=1)
    a.ask("join_group", 9, **known, protocol_type="connect")
    a.ask("join_group", 9, **{**known, "protocols": []}, member_id="x")
    a.ask("join_group", 9, **{**known, "protocols": [{"name": "range", "metadata": b"\0"}]}, member_id="x")
    a.ask("join_group", 9, **{**known, "protocols": [{"name": "range", "metadata": b""}]}, member_id="x")
    a.ask("join_group", 9, **known, member_id="x", group_instance_id="i")
    a.ask("join_group", 9, **known, member_id="made-up")
    a.ask("join_group", 9, group_id=play.group(), protocols=offered(topic, "sticky"), member_id="other")
    a.ask(
        "join_group", 9, group_id=play.group(), protocols=offered(topic, "sticky", "range"), member_id="other"
    )
    consumer_describe(a, play.group())


@transcript(rows=("G4",))
def syncs_that_a_consumer_group_refuses(play: Play) -> None:
    """25, 82, 22, 23, 27; what version 5 must name comes first."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), protocols=offered(topic), group_instance_id="i")
    known = {"group_id": play.group(), "generation_id": joined.generation_id, "member_id": joined.member_id}
    a.ask("sync_group", 5, **known, protocol_type=None)
    a.ask("sync_group", 5, **{**known, "member_id": "x"})
    a.ask("sync_group", 5, **{**known, "member_id": "m"})
    a.ask("sync_group", 5, **{**known, "member_id": ""})
    a.ask("sync_group", 5, **{**known, "member_id": "x"}, group_instance_id="i")
    a.ask("sync_group", 5, **known, group_instance_id="unknown")
    a.ask("sync_group", 5, **{**known, "generation_id": 1})
    a.ask("sync_group", 5, **known, protocol_name="sticky")
    a.ask("sync_group", 5, **known, protocol_type="connect")
    a.ask("sync_group", 4, **known)
    a.ask("sync_group", 0, **known)
    beat_in(b, play.group(), "n", [topic])
    a.ask("sync_group", 5, **known)


@transcript(rows=("G5", "C20"))
def heartbeats_that_a_consumer_group_refuses(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), protocols=offered(topic), group_instance_id="i")
    heartbeat(a, play.group(), joined)
    heartbeat(a, play.group(), joined, group_instance_id="i")
    heartbeat(a, play.group(), joined, group_instance_id="unknown")
    heartbeat(a, play.group(), joined, member_id="m")
    heartbeat(a, play.group(), joined, member_id="x")
    heartbeat(a, play.group(), joined, member_id="x", group_instance_id="i")
    heartbeat(a, play.group(), joined, generation_id=1)
    heartbeat(a, play.group(), joined, generation_id=9)
    heartbeat(a, play.group(), joined, generation_id=-1)


@transcript(rows=("G3",))
def member_that_does_not_sync_is_removed(play: Play) -> None:
    """The member is removed after its rebalance timeout."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    join(a, play.group(), protocols=offered(topic), rebalance_timeout=300)
    play.until(
        lambda: len(a.quietly("consumer_group_describe", 1, group_ids=[play.group()]).groups[0].members) == 1
    )
    consumer_describe(a, play.group())


@transcript(rows=("G3", "G5"))
def member_that_does_not_rejoin_is_removed(play: Play) -> None:
    """The member is removed after its rebalance timeout, counted from when it was told to rejoin."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), protocols=offered(topic), rebalance_timeout=300)
    sync(a, play.group(), joined)
    beat_in(b, play.group(), "n", [topic])
    heartbeat(a, play.group(), joined)
    play.until(
        lambda: len(a.quietly("consumer_group_describe", 1, group_ids=[play.group()]).groups[0].members) == 2
    )
    heartbeat(a, play.group(), joined)


@transcript(rows=("G3", "M17"))
def silent_classic_member_is_removed(play: Play) -> None:
    """The member's session is its own, much shorter than a consumer member's."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), protocols=offered(topic), session_timeout=300)
    sync(a, play.group(), joined)
    play.until(
        lambda: len(a.quietly("consumer_group_describe", 1, group_ids=[play.group()]).groups[0].members) == 1
    )
    heartbeat(a, play.group(), joined)


@transcript(rows=("G6", "E7"))
def batch_of_leaves_in_a_consumer_group(play: Play) -> None:
    """Members of both protocols, by member id and by instance id; one epoch for all."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    beat_in(b, play.group(), "static", [topic], instance_id="i")
    beat_in(b, play.group(), "kept", [topic])
    joined = join(a, play.group(), protocols=offered(topic))
    a.ask("leave_group", 5, group_id=play.group(), members=[])
    members = [
        {"member_id": "x"},
        {"member_id": ""},
        {"member_id": "", "group_instance_id": "unknown"},
        {"member_id": "m", "group_instance_id": "i"},
        {"member_id": joined.member_id},
        {"member_id": joined.member_id},
        {"member_id": "", "group_instance_id": "i"},
        {"member_id": "m"},
    ]
    a.ask("leave_group", 5, group_id=play.group(), members=members)
    consumer_describe(a, play.group())
    a.ask("leave_group", 2, group_id=play.group(), member_id="m")
    a.ask("leave_group", 2, group_id=play.group(), member_id="kept")
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": "kept"}])
    consumer_describe(a, play.group())


@transcript(rows=("G7",))
def downgrade_when_the_last_consumer_member_leaves(play: Play) -> None:
    """PreparingRebalance; the generation goes on from the group epoch."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), protocols=offered(topic))
    sync(a, play.group(), joined)
    beat(b, play.group(), "m", -1)
    describe(a, play.group(), 6)
    consumer_describe(a, play.group())
    heartbeat(a, play.group(), joined)
    again = join(a, play.group(), member_id=joined.member_id, protocols=offered(topic))
    sync(a, play.group(), again, {again.member_id: assignment({topic: [0, 1]})})
    heartbeat(a, play.group(), again)
    describe(a, play.group(), 6)


@transcript(rows=("G7", "G6"))
def downgrade_when_the_last_consumer_member_is_removed(play: Play) -> None:
    """An administrator removes it by LeaveGroup."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), protocols=offered(topic))
    sync(a, play.group(), joined)
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": "m"}])
    beat(b, play.group(), "m", 2)
    describe(a, play.group(), 6)
    join(a, play.group(), member_id=joined.member_id, protocols=offered(topic))


@transcript(rows=("G7", "M17"))
def downgrade_when_all_consumer_members_leave_at_once(play: Play) -> None:
    """One batch with a classic member in it; those who stay rebalance."""
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    beat_in(b, play.group(), "n", [topic])
    joined = join(a, play.group(), protocols=offered(topic))
    gone = join(c, play.group(), protocols=offered(topic))
    members = [{"member_id": "m"}, {"member_id": "n"}, {"member_id": gone.member_id}]
    a.ask("leave_group", 5, group_id=play.group(), members=members)
    describe(a, play.group(), 6)
    join(a, play.group(), member_id=joined.member_id, protocols=offered(topic))


@transcript(rows=("G7", "G6"))
def group_that_everybody_leaves_stays_a_consumer_group(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), protocols=offered(topic))
    a.ask(
        "leave_group", 5, group_id=play.group(), members=[{"member_id": "m"}, {"member_id": joined.member_id}]
    )
    consumer_describe(a, play.group())


@transcript(rows=("G2", "M21", "E3"))
def static_member_upgrades_by_restarting(play: Play) -> None:
    """The instance comes back with the consumer protocol: same partitions, nobody else is disturbed."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    joined = classic_alone(a, play.group(), topic, group_instance_id="i")
    beat_in(b, play.group(), "m", [topic], instance_id="i")
    consumer_describe(a, play.group())
    heartbeat(a, play.group(), joined, group_instance_id="i")
    heartbeat(a, play.group(), joined)
    beat(b, play.group(), "m", 1, instance_id="i")


@transcript(rows=("G7", "M21"))
def static_member_downgrades_by_restarting(play: Play) -> None:
    """Same subscription: it takes over, in the group's generation, without a rebalance (KAFKA-19546)."""
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic], instance_id="i")
    joined = join(a, play.group(), protocols=offered(topic))
    sync(a, play.group(), joined)
    beat(b, play.group(), "m", 2, topic_partitions=[], instance_id="i")
    joined = settled(a, play.group(), joined.member_id, topic)
    beat(b, play.group(), "m", joined.generation_id, instance_id="i")
    consumer_describe(a, play.group())
    back = join(c, play.group(), protocols=offered(topic), group_instance_id="i")
    describe(a, play.group(), 6)
    sync(c, play.group(), back, group_instance_id="i")
    heartbeat(c, play.group(), back, group_instance_id="i")
    heartbeat(a, play.group(), joined)
    beat(b, play.group(), "m", joined.generation_id, instance_id="i")


@transcript(rows=("G3", "M21"))
def static_member_changes_protocol_in_a_mixed_group(play: Play) -> None:
    """While others of the consumer protocol are there: no downgrade, no -2 needed, same partitions."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "other", [play.topic("u", 1)])
    beat_in(b, play.group(), "m", [topic], instance_id="i")
    joined = join(a, play.group(), protocols=offered(topic), group_instance_id="i")
    sync(a, play.group(), joined, group_instance_id="i")
    heartbeat(a, play.group(), joined, group_instance_id="i")
    beat(b, play.group(), "m", 3, instance_id="i")
    beat_in(b, play.group(), "n", [topic], instance_id="i")
    heartbeat(a, play.group(), joined, group_instance_id="i")
    consumer_describe(a, play.group())


@transcript(rows=("G3",))
def dynamic_member_changes_protocol_under_its_own_id(play: Play) -> None:
    """A member id of either protocol may go on with the other."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "other", [play.topic("u", 1)])
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), member_id="m", protocols=offered(topic))
    sync(a, play.group(), joined)
    consumer_describe(a, play.group())
    beat_in(b, play.group(), "m", [topic])
    heartbeat(a, play.group(), joined)
    consumer_describe(a, play.group())


@transcript(rows=("O6", "O11", "G3"))
def classic_members_commit_in_a_consumer_group(play: Play) -> None:
    """They commit by their generation, in old versions too; 22 where a consumer member would hear 113."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    joined = join(a, play.group(), protocols=offered(topic))
    sync(a, play.group(), joined)
    offsets = {topic: {0: 7}}
    known = {"member_id": joined.member_id}
    for version in (5, 7, 9):
        for generation in (joined.generation_id, joined.generation_id + 1, -1):
            commit(a, version, play.group(), offsets, generation_id_or_member_epoch=generation, **known)
    commit(a, 7, play.group(), offsets, generation_id_or_member_epoch=2, member_id="m")
    fetch(a, 9, play.group(), None, member_epoch=joined.generation_id, **known)
    fetch(a, 9, play.group(), None, member_epoch=1, **known)
    fetch(a, 7, play.group(), None)


@transcript(rows=("G1", "G7"), profile="expiry")
def downgrade_is_not_allowed(play: Play) -> None:
    """Policy "upgrade": the group stays a consumer group, of classic members only."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    classic = classic_alone(a, play.group(), topic)
    beat_in(b, play.group(), "m", [topic])
    joined = settled(a, play.group(), classic.member_id, topic)
    beat(b, play.group(), "m", -1)
    describe(a, play.group(), 6)
    consumer_describe(a, play.group())
    settled(a, play.group(), joined.member_id, topic)
    consumer_describe(a, play.group())


@transcript(rows=("G1", "G2"), profile="downgrade")
def upgrade_is_not_allowed(play: Play) -> None:
    """Policy "downgrade": a classic group with members takes none of the consumer protocol and goes on."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    classic = classic_alone(a, play.group(), topic)
    beat_in(b, play.group(), "m", [topic])
    heartbeat(a, play.group(), classic)
    describe(a, play.group(), 6)
    consumer_describe(a, play.group())


@transcript(rows=("G1", "G7"), profile="downgrade")
def downgrade_is_what_is_allowed(play: Play) -> None:
    """Policy "downgrade": the last consumer member leaves, the classic one stays in a classic group."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(b, play.group(), "m", [topic])
    first = join(a, play.group(), protocols=offered(topic))
    beat(b, play.group(), "m", -1)
    describe(a, play.group(), 6)
    consumer_describe(a, play.group())
    heartbeat(a, play.group(), first)


@transcript(rows=("G1", "C28", "M27"), profile="small")
def migration_is_disabled(play: Play) -> None:
    """Policy "disabled": neither kind takes members of the other protocol; empty groups change their kind."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    classic = classic_alone(a, play.group("classic"), topic)
    beat_in(b, play.group("classic"), "m", [topic])
    heartbeat(a, play.group("classic"), classic)
    beat_in(b, play.group("consumer"), "m", [topic])
    a.ask("join_group", 9, group_id=play.group("consumer"), protocols=offered(topic))
    a.ask("join_group", 9, group_id=play.group("consumer"), member_id="m", protocols=offered(topic))
    a.ask("leave_group", 5, group_id=play.group("classic"), members=[{"member_id": classic.member_id}])
    beat(b, play.group("consumer"), "m", -1)
    beat_in(b, play.group("classic"), "m", [topic])
    join(a, play.group("consumer"), protocols=offered(topic))
