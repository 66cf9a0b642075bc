"""Classic groups of limited size: C5, C7, C28."""

from __future__ import annotations

from tests.oracle.kits import beat_in, describe, heartbeat, join, settle_alone, settle_two, start_join
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("C5",), profile="small")
def full_group_refuses_a_third_member(play: Play) -> None:
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    first, second = settle_two(a, b, play.group())
    c.ask("join_group", 9, group_id=play.group())
    c.ask("join_group", 3, group_id=play.group())
    c.ask("join_group", 9, group_id=play.group(), group_instance_id="i")
    c.ask("join_group", 9, group_id=play.group(), member_id="made-up")
    heartbeat(a, play.group(), first)
    join(b, play.group(), member_id=second.member_id)
    describe(a, play.group())


@transcript(rows=("C5", "C2"), profile="small")
def size_is_checked_before_protocols(play: Play) -> None:
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    settle_two(a, b, play.group())
    c.ask("join_group", 9, group_id=play.group(), protocols=[])
    c.ask("join_group", 9, group_id=play.group(), session_timeout=1)


@transcript(rows=("C5",), profile="small")
def third_member_comes_in_while_two_are_parked(play: Play) -> None:
    """A group that prepares counts who waits. Two newcomers fill it: the member that was there first is
    refused when it rejoins, and the newcomers go on without it."""
    a, b, c, d = (play.connect(name) for name in "abcd")
    first = settle_alone(a, play.group(), rebalance_timeout=1_000)
    parked_b, _ = start_join(b, play.group(), rebalance_timeout=1_000)
    parked_c, _ = start_join(c, play.group(), rebalance_timeout=1_000)
    d.ask("join_group", 9, group_id=play.group())
    a.ask("join_group", 9, group_id=play.group(), member_id=first.member_id)
    second = parked_b.collect(ignore=("members", "leader"))
    third = parked_c.collect(ignore=("members", "leader"))
    play.note("members", len(second.members) + len(third.members))
    heartbeat(a, play.group(), first)


@transcript(rows=("C5",), profile="small")
def pending_members_are_not_counted(play: Play) -> None:
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    told = [client.ask("join_group", 9, group_id=play.group()) for client in (a, b, c)]
    a.ask("join_group", 9, group_id=play.group(), member_id=told[0].member_id)
    parked = b.send("join_group", 9, group_id=play.group(), member_id=told[1].member_id)
    c.ask("join_group", 9, group_id=play.group("h"))
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": told[2].member_id}])
    a.ask("join_group", 9, group_id=play.group(), member_id=told[0].member_id)
    parked.collect()
    c.ask("join_group", 9, group_id=play.group(), member_id=told[2].member_id)


@transcript(rows=("C28", "G1"), profile="small")
def consumer_group_refuses_classic_members(play: Play) -> None:
    """The migration policy is "disabled"."""
    a, b = play.connect("a"), play.connect("b")
    beat_in(a, play.group(), "m", [])
    b.ask("join_group", 9, group_id=play.group())
    b.ask("join_group", 9, group_id=play.group(), member_id="made-up")
    b.ask("join_group", 9, group_id=play.group(), group_instance_id="i")
    b.ask("join_group", 2, group_id=play.group())
