"""Rule 5: after the last fault every group is stable within a bound, and all of its partitions are owned.

A group is quiet from the last fault, join, leave or crash on. If it is quiet for long enough before the
history ends, then at that end all its live members have been answered well at one generation or epoch, and
together they hold every partition of what they subscribe to, each once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from storage.history.calls import CONSUMER, NEVER, OF_CLIENTS, Call, Fault, History
from storage.history.judge.findings import (
    ERRORS_OF_MOVING,
    MEMBERSHIP,
    Findings,
    Limits,
    Violation,
    leaves,
    story,
    when,
)
from storage.history.judge.holds import Partition, flat

COMES_BACK: Final = -2
"""The epoch with which a static member leaves that will come back."""


class Standing(NamedTuple):
    """The state of a member that is alive at the end."""

    client: str
    last: Call
    """The last call that was answered to it as a member."""
    epoch: int
    held: frozenset[Partition] | None
    """The partitions that it holds; None if it was never told, or its assignment cannot be read."""
    subscribed: tuple[str, ...]


def judge_recovery(history: History, limits: Limits, without: Container[str] = ()) -> Findings:
    """Judge every group that has members at the end and was quiet for long enough, but not groups that
    were `without` service by then: they showed nothing. How a history ended that is not whole is not
    known."""
    is_required = any(fault.kind not in OF_CLIENTS for fault in history.faults)
    if not history.is_whole:
        unseen = "how the history ended is not known: a part of it is missing"
        return Findings([], {"recovered groups": 0}, unseen=unseen, is_required=is_required)
    faults_end_us = max((fault.ended_us for fault in history.faults), default=NEVER)
    topics = {row.topic: row.partitions for row in history.topics}
    grown_us = max((row.at_us for row in history.topics if row.partitions), default=NEVER)
    by_group: dict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        if call.api in MEMBERSHIP:
            by_group[call.group_id].append(call)
    gone = {row.client: row.at_us for row in history.gone}
    of_the_tier = (fault for fault in history.faults if fault.kind not in OF_CLIENTS)
    faults = sorted(of_the_tier, key=lambda fault: fault.began_us)
    violations: list[Violation] = []
    judged = 0
    for group_id, calls in by_group.items():
        members = _members(calls, gone)
        quiet_us = max(faults_end_us, grown_us, _last_change_us(calls, gone, faults))
        if not members or group_id in without or history.ended_us - quiet_us < limits.recovery_ms * 1_000:
            continue
        judged += 1
        violations += _unstable(group_id, members, quiet_us)
        violations += _unowned(group_id, members, topics, quiet_us)
    quiet = f"quiet for the last {limits.recovery_ms / 1000:g} s"
    return Findings(
        violations,
        {"recovered groups": judged},
        seen=f"{judged:,} of {len(by_group):,} groups, which were {quiet}",
        unseen="" if judged else f"no group with members was served and {quiet}",
        is_required=is_required,
    )


def _members(calls: Sequence[Call], gone: Mapping[str, int]) -> list[Standing]:
    by_client: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_client[call.client].append(call)
    return [
        standing
        for client, of_client in by_client.items()
        if client not in gone and not _has_left(of_client) and (standing := _standing(client, of_client))
    ]


def _has_left(calls: Sequence[Call]) -> bool:
    """Whether a client has left and not joined again. A heartbeat may still be sent while it leaves."""
    turns = [call for call in calls if leaves(call) or _joins(call)]
    return bool(turns) and leaves(turns[-1])


def _joins(call: Call) -> bool:
    """A first join, not one that a rebalance asks of every member."""
    if call.protocol == CONSUMER:
        return call.epoch == 0
    return call.api == "JoinGroup" and call.epoch == NEVER and not call.member_id


def _standing(client: str, calls: Sequence[Call]) -> Standing | None:
    answered = [call for call in calls if call.is_answered]
    if not answered:
        return None
    held: frozenset[Partition] | None = None
    epoch = NEVER
    subscribed: tuple[str, ...] = ()
    for call in answered:
        subscribed = call.subscribed or subscribed
        if call.is_fine:
            epoch = max(call.epoch, call.told_epoch) if call.protocol != CONSUMER else call.told_epoch
            if call.assigned is not None:
                held = frozenset(flat(call.assigned))
    return Standing(client, max(answered, key=lambda call: call.ended_us), epoch, held, subscribed)


def _last_change_us(calls: Sequence[Call], gone: Mapping[str, int], faults: Sequence[Fault]) -> int:
    """A member that crashed counts until its session has ended; so does one whose leaving the coordinator may
    not have heard of, and a static one that will be back (KIP-848: epoch -2)."""
    last = NEVER
    silences: set[tuple[int, int]] = set()
    """The beginnings and lengths of silences that were looked at: all calls of a member have the same."""
    for call in calls:
        if _joins(call) or leaves(call):
            last = max(last, call.sent_us)
        if call.client in gone:
            silences.add((gone[call.client], call.session_timeout_ms))
        elif leaves(call) and (
            not call.is_answered or call.error_code in ERRORS_OF_MOVING or call.epoch == COMES_BACK
        ):
            silences.add((call.sent_us, call.session_timeout_ms))
    ends = (_session_end_us(silent_us, session_ms, faults) for silent_us, session_ms in silences)
    return max(last, max(ends, default=NEVER))


def _session_end_us(silent_us: int, session_ms: int, faults: Sequence[Fault]) -> int:
    """When the session of a member ends that is silent from then on. A new leader, which faults of the tier
    (by their beginning) bring, begins all sessions anew; a client's own fault brings none."""
    session_us = session_ms * 1_000
    end_us = silent_us + session_us
    for fault in faults:
        if fault.began_us > end_us:
            break
        if fault.ended_us >= silent_us:
            end_us = max(end_us, fault.ended_us + session_us)
    return end_us


def _unstable(group_id: str, members: Sequence[Standing], quiet_us: int) -> Iterator[Violation]:
    newest = max(member.epoch for member in members)
    for member in members:
        if member.last.error_code != 0 or member.epoch != newest:
            yield Violation(
                "not stable again",
                group_id,
                f"quiet since {when(quiet_us)}, at epoch {newest}; {member.client} is at {member.epoch}: "
                f"{story(member.last)}",
            )


def _unowned(
    group_id: str, members: Sequence[Standing], topics: Mapping[str, int], quiet_us: int
) -> Iterator[Violation]:
    if any(member.held is None for member in members):
        return
    wanted = {
        (topic, number)
        for member in members
        for topic in member.subscribed
        for number in range(topics.get(topic, 0))
    }
    owned = Counter(partition for member in members for partition in member.held or ())
    missing = sorted(wanted - owned.keys())
    twice = sorted(partition for partition, owners in owned.items() if owners > 1)
    if missing:
        yield Violation(
            "without an owner", group_id, f"quiet since {when(quiet_us)}; {len(missing)}: {missing[:5]}"
        )
    if twice:
        yield Violation(
            "two owners in the end", group_id, f"quiet since {when(quiet_us)}; {len(twice)}: {twice[:5]}"
        )
