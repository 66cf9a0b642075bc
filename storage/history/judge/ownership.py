"""Rule 2: no partition belongs to two members of a group at once.

Two members must not be told the same partition for one generation or epoch, and must not hold it at one
time. When a member definitely holds a partition `classic_holds` and `consumer_holds` say; where a member may
have been removed without its knowing, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from storage.history.calls import CONSUMER, Call, History
from storage.history.judge.classic_holds import classic_holds
from storage.history.judge.consumer_holds import consumer_holds
from storage.history.judge.findings import Findings, Limits, Violation, has_members, story, when
from storage.history.judge.holds import Hold, Partition, flat, owner_of
from storage.history.judge.loading import Loading


def judge_ownership(history: History, limits: Limits) -> Findings:
    """Judge every assignment that a member was told."""
    told = list(_told(history.calls))
    holds = consumer_holds(history)
    loading = Loading(history.faults, limits.loading_grace_ms * 1_000)
    for key, of_partition in classic_holds(history, loading).items():
        holds[key] += of_partition
    count = sum(map(len, holds.values()))
    violations = [*_twice_at_one_epoch(told), *_twice_at_one_time(holds, limits.clock_skew_us)]
    return Findings(
        violations,
        {"assignments": len(told), "holds": count},
        seen=f"{len(told):,} assignments, {count:,} times in which a partition was held",
        unseen="" if told else "no member was told what it owns",
        is_required=has_members(history.calls),
    )


def _told(calls: Iterable[Call]) -> Iterator[Call]:
    for call in calls:
        if call.assigned is not None and call.is_fine and call.api in ("SyncGroup", "ConsumerGroupHeartbeat"):
            yield call


def _twice_at_one_epoch(told: Iterable[Call]) -> Iterator[Violation]:
    owners: dict[tuple[str, int, Partition], Call] = {}
    for call in told:
        epoch = call.told_epoch if call.protocol == CONSUMER else call.epoch
        for partition in flat(call.assigned or ()):
            first = owners.setdefault((call.group_id, epoch, partition), call)
            if owner_of(first) != owner_of(call):
                yield Violation(
                    "two owners at one epoch",
                    call.group_id,
                    f"{partition[0]}-{partition[1]} at {epoch}: {story(first)}, and {story(call)}",
                )


def _twice_at_one_time(
    holds: dict[tuple[str, Partition], list[Hold]], clock_skew_us: int
) -> Iterator[Violation]:
    for (group_id, (topic, partition)), of_partition in holds.items():
        longest: Hold | None = None
        for hold in sorted(of_partition, key=lambda hold: hold.since_us):
            if longest and longest.owner != hold.owner and hold.since_us + clock_skew_us < longest.until_us:
                yield Violation(
                    "two owners at one time",
                    group_id,
                    f"{topic}-{partition}: {longest.owner} holds it from {when(longest.since_us)} to "
                    f"{when(longest.until_us)}, {hold.owner} from {when(hold.since_us)}: "
                    f"{story(longest.told)}, and {story(hold.told)}",
                )
            if longest is None or hold.until_us > longest.until_us:
                longest = hold
