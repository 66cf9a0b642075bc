"""Leaving classic groups, and what is left of them: C1, C8, C9, C13, C14, C18, C23, C24."""

from __future__ import annotations

from tests.oracle.kits import describe, heartbeat, join, protocols, settle_alone, settle_two, start_join, sync
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("C9",))
def member_of_an_empty_group_is_unknown(play: Play) -> None:
    a = play.connect()
    joined = settle_alone(a, play.group())
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    join(a, play.group(), member_id=joined.member_id)
    heartbeat(a, play.group(), joined)
    sync(a, play.group(), joined)
    describe(a, play.group())


@transcript(rows=("C8", "C23"))
def pending_member_leaves_and_the_join_completes(play: Play) -> None:
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    first = settle_alone(a, play.group())
    told = c.ask("join_group", 9, group_id=play.group())
    parked_b, _ = start_join(b, play.group())
    parked_a = a.send("join_group", 9, group_id=play.group(), member_id=first.member_id)
    parked_a.expect_silence()
    c.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": told.member_id}])
    parked_a.collect()
    parked_b.collect()


@transcript(rows=("C8", "C11"))
def last_member_leaves_and_a_pending_one_is_left(play: Play) -> None:
    """The group is Empty, a generation later; the pending member makes the next one."""
    a, b = play.connect("a"), play.connect("b")
    told = a.ask("join_group", 9, group_id=play.group())
    joined = settle_alone(b, play.group())
    b.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    b.ask_until(
        lambda said: said.groups[0].group_state == "Empty", "describe_groups", 5, groups=[play.group()]
    )
    a.ask("join_group", 9, group_id=play.group(), member_id=told.member_id)


@transcript(rows=("C23", "W7"), cases={f"v{version}": version for version in range(6)})
def every_version_of_leave(play: Play, version: int) -> None:
    """Up to version 2 the one member's error is the answer's."""
    a = play.connect()
    joined = settle_alone(a, play.group())

    def leave(group_id: str, member_id: str) -> None:
        members = [{"member_id": member_id, "reason": "because"}]
        a.ask("leave_group", version, group_id=group_id, member_id=member_id, members=members)

    leave("", joined.member_id)
    leave(play.group("other"), joined.member_id)
    leave(play.group(), "")
    leave(play.group(), "made-up")
    leave(play.group(), joined.member_id)
    leave(play.group(), joined.member_id)
    describe(a, play.group())


@transcript(rows=("C23", "C14", "E7", "E11", "E13"))
def batch_of_leaves(play: Play) -> None:
    """Each has its own error, and there is one rebalance. Tools remove members so: the one wish of KIP-345's
    list for later that came true."""
    a, b = play.connect("a"), play.connect("b")
    first, second = settle_two(a, b, play.group(), of_b={"group_instance_id": "i"})
    a.ask("leave_group", 5, group_id=play.group(), members=[])
    a.ask("leave_group", 5, group_id=play.group("other"), members=[])
    a.ask("leave_group", 5, group_id=play.group("other"), members=[{"member_id": "x"}, {"member_id": "y"}])
    members = [
        {"member_id": "made-up"},
        {"member_id": ""},
        {"member_id": "", "group_instance_id": "unknown"},
        {"member_id": "made-up", "group_instance_id": "i"},
        {"member_id": first.member_id, "group_instance_id": "i"},
        {"member_id": first.member_id, "group_instance_id": "unknown"},
        {"member_id": first.member_id},
        {"member_id": first.member_id},
        {"member_id": "", "group_instance_id": "i"},
    ]
    a.ask("leave_group", 5, group_id=play.group(), members=members)
    heartbeat(b, play.group(), second)
    describe(a, play.group())


@transcript(rows=("C23",))
def parked_join_of_who_is_removed(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    settle_alone(a, play.group())
    parked, member_id = start_join(b, play.group())
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": member_id}])
    parked.collect()
    describe(a, play.group())


@transcript(rows=("C14", "C23"))
def leader_leaves_and_another_leads(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    first, second = settle_two(a, b, play.group())
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": first.member_id}])
    describe(a, play.group())
    heartbeat(b, play.group(), second)
    join(b, play.group(), member_id=second.member_id)


@transcript(rows=("C18", "C23"))
def leader_leaves_while_a_sync_is_parked(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    first = settle_alone(a, play.group())
    parked, _ = start_join(b, play.group())
    join(a, play.group(), member_id=first.member_id)
    second = parked.collect()
    waiting = b.send("sync_group", 5, group_id=play.group(), generation_id=2, member_id=second.member_id)
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": first.member_id}])
    waiting.collect()
    join(b, play.group(), member_id=second.member_id)


@transcript(rows=("C24",), cases={"short": "because", "long": "r" * 300, "empty": "", "null": None})
def reasons_change_nothing(play: Play, reason: str | None) -> None:
    a = play.connect()
    joined = join(a, play.group(), reason=reason)
    leaving = [{"member_id": joined.member_id, "reason": reason}]
    a.ask("leave_group", 5, group_id=play.group(), members=leaving)


@transcript(rows=("C1", "O13", "B10"))
def group_without_members_is_deleted(play: Play) -> None:
    a = play.connect()
    joined = settle_alone(a, play.group())
    a.ask("delete_groups", 2, groups_names=[play.group(), play.group(), play.group("other"), ""])
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    a.ask("delete_groups", 2, groups_names=[play.group(), play.group()])
    for version in (0, 1, 2):
        a.ask("delete_groups", version, groups_names=[play.group()])
    describe(a, play.group(), 6)


@transcript(rows=("C13", "C1"))
def generations_go_on_after_the_group_was_empty(play: Play) -> None:
    a = play.connect()
    joined = settle_alone(a, play.group())
    a.ask("leave_group", 5, group_id=play.group(), members=[{"member_id": joined.member_id}])
    settle_alone(a, play.group(), protocol_type="connect", protocols=protocols("other"))
    describe(a, play.group())
