"""Say in words what `groupd explain` shows: lines made of a leader's answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from storage.history.report.words import duration, moment, plural
from storage.history.rules import told as told_rule

_OF_COMPUTING = frozenset({"assigned", "assignment_refused"})
NAMED_MAX = 10
"""How many members, or ways of partitions, are listed; of more the number is told."""

Row = Mapping[str, Any]


def state_lines(told: Row) -> Iterator[str]:
    """Yield lines about the group as it is."""
    now, now_ms = told["now"], told["now_ms"]
    group_id = told["group_id"]
    if now is None:
        yield f"Group {group_id} is not there any more."
        yield from (f"  {event_line(each)}" for each in told["events"] if each["kind"] == "group_deleted")
    else:
        yield _sentence(now, now_ms)
        if now["cause"]:
            yield f"  It rebalances because of: {_cause(now)}."
        waited = now["waited_for"]
        if waited:
            yield f"  It waits for {now['waiting']} of its members:"
        yield from (f"    {_waited(each, now_ms)}" for each in waited[:NAMED_MAX])
        if now["waiting"] > NAMED_MAX:
            yield f"    and {now['waiting'] - NAMED_MAX} more"
        yield f"  Offsets: {_offsets(told, now)}."
    yield (
        f"  Coordinator: node {told['node_id']}, offsets partition {told['offsets_partition']}, which it "
        f"leads since {_time(told['leads_since_ms'])} (term {told['term']})."
    )


def _sentence(now: Row, now_ms: int) -> str:
    members = "no members" if not now["members"] else plural(now["members"], "member")
    epoch = f"generation {now['group_epoch']}"
    if now["group_type"] == "consumer":
        epoch = f"group epoch {now['group_epoch']}, assignment epoch {now['assignment_epoch']}"
    state, since_ms = now["state"], now["since_ms"]
    stands = f"is {state}" if since_ms is None else f"has been {state} for {duration(now_ms - since_ms)}"
    return f"Group {now['group_id']} ({now['group_type']}, {epoch}, {members}) {stands}: {now['says']}."


def _cause(row: Row) -> str:
    rule = f" ({told_rule(row['rule'])})" if row.get("rule") else ""
    member = f", member {row['member_id']}" if row.get("member_id") else ""
    reason = f', in its own words "{row["reason"]}"' if row.get("reason") else ""
    return f"{row.get('cause')}{rule}{member}{reason}"


def _waited(each: Row, now_ms: int) -> str:
    client = "client not known yet"
    if each["client_id"] is not None:
        client = f"client {each['client_id']} at {each['client_host']}"
    static = f", instance {each['group_instance_id']}" if each["group_instance_id"] else ""
    until = ""
    if each["deadline_ms"] is not None:
        left = duration(max(each["deadline_ms"] - now_ms, 0))
        until = f"; removed in {left}, at {_time(each['deadline_ms'])}"
    return f"{each['member_id']} ({client}{static}) has not yet {each['what']}{until}"


def _offsets(told: Row, now: Row) -> str:
    if not now["offsets"]:
        return "none committed"
    last = told["last_commit_ms"]
    ago = "" if last is None else f", the last commit {duration(told['now_ms'] - last)} ago"
    return f"{plural(now['offsets'], 'partition')} committed{ago}"


def rebalance_lines(told: Row, last: int) -> Iterator[str]:
    """Yield lines about the last rebalances, newest first."""
    rows = list(told["rebalances"])
    if not rows:
        yield f"No rebalance ended since this leader began, at {_time(told['leads_since_ms'])}."
        return
    if not last:
        return
    shown = rows[: -last - 1 : -1]
    yield f"The last {plural(len(shown), 'rebalance')}, newest first:"
    for row in shown:
        yield f"  {rebalance_line(row)}"
        yield from (f"    {line}" for line in _computed(row, told["events"]))
        yield from (f"    {line}" for line in _moves(row))


def rebalance_line(row: Row) -> str:
    """Return a line about a rebalance that ended, without its moves."""
    phases = [
        f"{duration(row[name])} {word}"
        for name, word in (("joining_ms", "joining"), ("syncing_ms", "syncing"), ("revoking_ms", "revoking"))
        if row.get(name) is not None
    ]
    phased = f" ({', '.join(phases)})" if phases else ""
    late = row.get("waited_for") or ()
    waited = f"; waited for {_some(late)}" if late else ""
    return (
        f"{_time(row['at_ms'])} epoch {row['group_epoch']}, {row['state']} with "
        f"{plural(row['members'], 'member')} after {duration(row['duration_ms'])}{phased}: "
        f"{_cause(row)}{waited}"
    )


def _computed(row: Row, events: Sequence[Row]) -> Iterator[str]:
    """Yield lines about the members that were asked to compute a rebalance's assignment (A11)."""
    for each in events:
        if each["kind"] not in _OF_COMPUTING or each["group_epoch"] != row["group_epoch"]:
            continue
        member_id, assignor = each.get("member_id"), each["assignor"]
        if each["kind"] == "assigned" and member_id:
            took = duration(each["duration_us"] // 1_000)
            yield f"{member_id} computed the assignment with {assignor} in {took}"
        elif each["kind"] == "assignment_refused":
            who = (
                f"{member_id} did not compute it after {duration(each['duration_ms'])}: " if member_id else ""
            )
            yield f"{who}{each['cause']}"


def _moves(row: Row) -> Iterator[str]:
    """Yield lines about what moved from which member to which, summed up by pair."""
    moved = row.get("moved")
    if moved is None:
        yield f"what moved is not known: {_why_unknown(row)}"
        return
    total = row.get("partitions") or 0
    yield f"{moved} partitions moved, of {total} assigned"
    moves = row.get("moves") or ()
    ways: Counter[tuple[Any, Any]] = Counter((each["from_member"], each["to_member"]) for each in moves)
    for (before, after), number in ways.most_common(NAMED_MAX):
        yield f"{plural(number, 'partition')} from {before or 'nobody'} to {after or 'nobody'}"
    if len(ways) > NAMED_MAX:
        yield f"and {len(ways) - NAMED_MAX} more ways"


def _why_unknown(row: Row) -> str:
    """Return why nobody compared a rebalance's moves. The assigned partitions of a consumer group are told as
    soon as it has a target, so if they are not, nothing was assigned yet."""
    if row.get("group_type") != "consumer":
        return "too many partitions to compare, or their assignment is not in consumers' format"
    if row.get("partitions") is not None:
        return "too many partitions to compare"
    if row["state"] == "Stable":
        return "they were assigned under an earlier leader"
    return f"epoch {row['group_epoch']} was overtaken by the next one before anything was assigned"


_WORDS = {
    "member_joined": "joined",
    "member_left": "left",
    "member_expired": "was removed",
    "member_fenced": "was fenced",
    "member_reconciled": "has its target",
}


def event_line(row: Row) -> str:
    """Return any event of a group as one line."""
    kind, at = row["kind"], _time(row["at_ms"])
    if kind == "rebalance_ended":
        return rebalance_line(row)
    if kind in _WORDS:
        why = f": {_cause({**row, 'member_id': None})}" if row.get("cause") else ""
        client = f" (client {row['client_id']} at {row['client_host']})" if row.get("client_id") else ""
        software = f", {row['client_software']}" if row.get("client_software") else ""
        return f"{at} {row['member_id']}{client}{software} {_WORDS[kind]}{why}"
    if kind == "rebalance_began":
        return f"{at} a rebalance began, {plural(row['members'], 'member')}: {_cause(row)}"
    if kind == "rebalance_delayed":
        return f"{at} a rebalance waits up to {duration(row['duration_ms'])} for more: {_cause(row)}"
    if kind == "state_changed":
        return f"{at} {row['previous_state']} -> {row['state']}"
    if kind == "commit_regressed":
        return (
            f"{at} the offset of {row['topic']}-{row['partition']} went back from {row['end_offset']} to "
            f"{row['committed_offset']}, by {row.get('member_id') or 'nobody in the group'}"
        )
    if kind == "group_deleted":
        return f"{at} it was deleted: {_cause(row)}"
    if kind == "offsets_expiring":
        what = plural(row["count"], "committed offset")
        return f"{at} {what} will expire unless committed again, the first on {moment(row['first_ms'])} UTC"
    skipped = ("at_ms", "offsets_partition", "node_id", "term", "sequence", "kind", "version", "moves")
    rest = " ".join(f"{name}={value}" for name, value in row.items() if name not in (*skipped, "group_id"))
    return f"{at} {kind.replace('_', ' ')} {rest}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _time(at_ms: int | None) -> str:
    """Return the time of the day in UTC, as in the actors' logs."""
    return "-" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
