"""Show the tables of `groupd groups describe`, with the columns of Kafka's own tool (B10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cluster.cli.kafka import print_table

if TYPE_CHECKING:
    from cluster.groups.describe import Group, Member, OffsetRow

REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


def remark(group: Group) -> str | None:
    """Return what there is to say about a group besides its table; None if nothing."""
    if group.state == "Empty":
        return f"Group {group.group} has no active members."
    return f"Group {group.group} is rebalancing." if group.state in REBALANCING else None


def show_offsets(group: Group, rows: Sequence[OffsetRow], *, verbose: bool) -> None:
    columns = ["GROUP", "TOPIC", "PARTITION"] + ["LEADER-EPOCH"] * verbose
    columns += ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    cells = []
    for row in rows:
        member = row.member
        who = [None] * 3 if member is None else [member.member_id, member.host, member.client_id]
        epoch = [row.leader_epoch] * verbose
        cells.append([group.group, row.topic, row.partition, *epoch, row.committed, row.end, row.lag, *who])
    print_table(columns, cells)


def show_members(group: Group, *, verbose: bool) -> None:
    from cluster.groups.describe import assignment_text

    is_static = any(member.instance_id for member in group.members)
    # If members speak both protocols, a column says which of them have been upgraded.
    is_mixed = {member.is_upgraded for member in group.members} >= {True, False}
    columns = ["GROUP", "CONSUMER-ID"] + ["GROUP-INSTANCE-ID"] * is_static
    columns += ["HOST", "CLIENT-ID", "#PARTITIONS"]
    if verbose:
        columns += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        columns += ["UPGRADED"] * is_mixed
    cells = []
    for member in group.members:
        row: list[Any] = [group.group, member.member_id, *[member.instance_id] * is_static]
        row += [member.host, member.client_id, len(member.assignment)]
        if verbose:
            row += [member.member_epoch, assignment_text(member.assignment)]
            row += [group.assignment_epoch, assignment_text(member.target)]
            row += [str(member.is_upgraded).lower()] * is_mixed
        cells.append(row)
    print_table(columns, cells)


def show_state(group: Group, *, verbose: bool) -> None:
    columns = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row: list[Any] = [group.group, group.coordinator, group.assignor, group.state]
    if verbose:
        columns += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [group.group_epoch, group.assignment_epoch]
    print_table([*columns, "#MEMBERS"], [[*row, len(group.members)]])


def plain(group: Group, rows: Sequence[OffsetRow] | None) -> dict[str, Any]:
    """Return everything as JSON has it: partitions as [topic, partition]."""
    described = asdict(group) | {"members": [_plain_member(member) for member in group.members]}
    if rows is not None:
        described["offsets"] = [
            {
                "topic": row.topic,
                "partition": row.partition,
                "leader_epoch": row.leader_epoch,
                "committed": row.committed,
                "end": row.end,
                "lag": row.lag,
                "member_id": None if row.member is None else row.member.member_id,
            }
            for row in rows
        ]
    return described


def _plain_member(member: Member) -> dict[str, Any]:
    return asdict(member) | {
        "assignment": [list(place) for place in member.assignment],
        "target": [list(place) for place in member.target],
    }
