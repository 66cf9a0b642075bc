"""Judge what the replicas of one Raft group say of themselves. Pure: nothing here acts.

Statuses are what `status` of the actors brings. Those of one group are given by replica number, without the
replicas that do not answer; a replica whose start failed or is under way answers without a "member_id".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from actors.ground.spec import Copies
from storage.raft.members import replica_of

Status = Mapping[str, Any]


def leader_of(statuses: Iterable[Status]) -> Status | None:
    """Return the status of the replica that serves. For a moment two may say so; only one does in the newest
    term."""
    serving = [status for status in statuses if status.get("serving")]
    return max(serving, key=lambda status: status["term"], default=None)


def voters_of(status: Status) -> set[str]:
    """Return the ids of the voters, as the replica's own log says."""
    return {member["id"] for member in status.get("members", ()) if member["votes"]}


def up(statuses: Iterable[Status]) -> set[str]:
    """Return the member ids of the replicas that take part."""
    return {status["member_id"] for status in statuses if status.get("member_id") and not status["problem"]}


def target_of(copies: Copies, leader: Status, statuses: Mapping[int, Status]) -> dict[str, int] | None:
    """Return the members (id -> node id) that the group should be led to have now; None if nothing can or
    need be done.

    A replica that does not answer keeps the name by which the leader knows it. While one that should come is
    not there yet no replica leaves, except one that came back under another name: its old name cannot come
    any more. And no change begins whose outcome would have no majority of those that are up.
    """
    wanted: dict[str, int] = {}
    is_whole = True
    for replica_id, node_id in copies:
        member_id = statuses.get(replica_id, {}).get("member_id") or _known_as(leader, replica_id)
        if member_id is None:
            is_whole = False
        else:
            wanted[member_id] = node_id
    if not is_whole:
        there = {replica_of(member_id) for member_id in wanted}
        for member in leader["members"]:
            if member["votes"] and replica_of(member["id"]) not in there:
                wanted[member["id"]] = member["node_id"]
    if wanted.keys() == voters_of(leader) == {member["id"] for member in leader["members"]}:
        return None
    if not _is_majority(up(statuses.values()), set(wanted)):
        return None
    return wanted


def _known_as(leader: Status, replica_id: int) -> str | None:
    """Return the id by which the leader knows a replica. It is known twice while it gets its vote under a new
    name: the new name counts."""
    known = [member for member in leader["members"] if replica_of(member["id"]) == replica_id]
    return min(known, key=lambda member: bool(member["votes"]))["id"] if known else None


def _is_majority(some: set[str], voters: set[str]) -> bool:
    return 2 * len(some & voters) > len(voters)


def can_spare(leader: Status, statuses: Mapping[int, Status], replica_id: int) -> bool:
    """Return whether the other voters that are up are a majority of all."""
    others = [status for number, status in statuses.items() if number != replica_id]
    return _is_majority(up(others), voters_of(leader))


def has_majority(leader: Status, statuses: Mapping[int, Status]) -> bool:
    """Return whether a majority of the voters is up."""
    return _is_majority(up(statuses.values()), voters_of(leader))


def has_left(leader: Status, replica_id: int) -> bool:
    """Return whether the membership without the replica is committed: then no election can need it any
    more."""
    known = {replica_of(member["id"]) for member in leader["members"]}
    return bool(leader["members_committed"]) and replica_id not in known


def is_in_place(copies: Copies, leader: Status, statuses: Mapping[int, Status]) -> bool:
    """Return whether just the wanted replicas are members, each under its present name and with a vote."""
    ids = {statuses.get(replica_id, {}).get("member_id") for replica_id, _ in copies}
    members = {member["id"] for member in leader["members"]}
    return ids == members == voters_of(leader) and bool(leader["members_committed"])


def is_settled(copies: Copies, leader: Status) -> bool:
    """Return whether just the wanted replicas are members and vote, also those that are away now."""
    members = {replica_of(member["id"]) for member in leader["members"]}
    voters = {replica_of(member_id) for member_id in voters_of(leader)}
    return members == voters == {copy.replica_id for copy in copies} and bool(leader["members_committed"])


def can_lead(statuses: Iterable[Status]) -> bool:
    """Return whether these replicas alone can elect a leader: one of them has a membership of which a
    majority is there. A newcomer has none: its directory is new, and it waits to be called."""
    found = list(statuses)
    there = up(found)
    return any(_is_majority(there, voters) for status in found if (voters := voters_of(status)))


def has_lost(leader: Status, status: Status) -> bool:
    """Return whether a replica lacks what it had acknowledged, as the leader found: its disk was emptied, and
    it came back under its old name, under which it must not vote any more."""
    lost = {member["id"] for member in leader["members"] if member.get("has_lost")}
    return status.get("member_id") in lost


def is_newcomer(status: Status) -> bool:
    return bool(status.get("member_id")) and not status["members"]


def note_of(leader: Status | None, status: Status) -> str | None:
    """Return why a replica that is well does not count yet, in words; None if it does."""
    member_id = status.get("member_id")
    if not member_id:
        return None
    if leader is None:
        return "it is new and waits for its group's leader" if is_newcomer(status) else None
    member = next((member for member in leader["members"] if member["id"] == member_id), None)
    if member is None:
        return "it is new and waits to be admitted"
    if member.get("has_lost"):
        return "it lacks what it had acknowledged: it has to begin anew"
    if member["votes"]:
        return None
    behind = "" if member["lag"] is None else f", {member['lag']:,} behind"
    return f"built from its peers: learner{behind}"
