"""The initial rebalance delay of classic groups: C10, C12, B3."""

from __future__ import annotations

from tests.oracle.kits import describe, start_join
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("C10", "B3"), profile="delay")
def members_of_a_new_group_are_waited_for(play: Play) -> None:
    """Nobody is answered before the delay is over, though all have joined; then all are together."""
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    parked_a, _ = start_join(a, play.group())
    parked_b, _ = start_join(b, play.group())
    parked_a.expect_silence(1.0)
    describe(c, play.group())
    first = parked_a.collect(ignore=("members",))
    second = parked_b.collect()
    play.note("members", len(first.members))
    play.note("leader", first.leader == first.member_id == second.leader)


@transcript(rows=("C10",), profile="delay")
def delay_is_extended_by_new_members(play: Play) -> None:
    """Who comes within the delay starts another; the first then waits longer than one."""
    a, b = play.connect("a"), play.connect("b")
    parked_a, _ = start_join(a, play.group())
    play.wait(1.0)
    parked_b, _ = start_join(b, play.group())
    parked_a.expect_silence(1.0)
    play.note("members", len(parked_a.collect(ignore=("members",)).members))
    parked_b.collect()


@transcript(rows=("C10", "C11"), profile="delay")
def delay_ends_with_the_rebalance_timeout(play: Play) -> None:
    """However many come: the whole wait is no longer than the largest rebalance timeout."""
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    parked_a, _ = start_join(a, play.group(), rebalance_timeout=1_800)
    play.wait(0.8)
    parked_b, _ = start_join(b, play.group(), rebalance_timeout=1_800)
    parked_a.expect_silence(0.8)
    first = parked_a.collect(ignore=("members",))
    parked_b.collect()
    play.note("members", len(first.members))
    del c


@transcript(rows=("C10",), profile="delay")
def lone_member_leaves_during_the_delay(play: Play) -> None:
    """PreparingRebalance without a member, until the delay is over."""
    a, b = play.connect("a"), play.connect("b")
    parked, member_id = start_join(a, play.group())
    b.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": member_id}])
    parked.collect()
    describe(b, play.group())
    b.ask_until(
        lambda said: said.groups[0].group_state == "Empty", "describe_groups", 5, groups=[play.group()]
    )


@transcript(rows=("C10", "E8"), profile="delay")
def only_an_empty_group_waits(play: Play) -> None:
    """A second member of a living group is answered as soon as the first rejoins."""
    a, b = play.connect("a"), play.connect("b")
    parked, member_id = start_join(a, play.group())
    joined = parked.collect()
    data = [{"member_id": member_id, "assignment": b"mine"}]
    names = {"protocol_type": "consumer", "protocol_name": "range"}
    a.ask(
        "sync_group",
        5,
        group_id=play.group(),
        generation_id=1,
        member_id=member_id,
        assignments=data,
        **names,
    )
    other, _ = start_join(b, play.group())
    a.ask("join_group", 9, group_id=play.group(), member_id=joined.member_id)
    other.collect(deadline_s=1.0)


@transcript(rows=("C8", "C10"), profile="delay")
def pending_member_does_not_prolong_the_delay(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    b.ask("join_group", 9, group_id=play.group())
    parked, _ = start_join(a, play.group())
    parked.expect_silence(1.0)
    parked.collect(deadline_s=1.0)


@transcript(rows=("C12",), profile="delay")
def parked_newcomer_outlives_its_session(play: Play) -> None:
    """While its first join is parked its session timeout does not count."""
    a = play.connect()
    parked, _ = start_join(a, play.group(), session_timeout=200)
    parked.collect()
