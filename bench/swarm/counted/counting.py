"""Finds the figures of a run in the rows of its history alone.

PURE, so that an interrupted run, or one on another machine, is reported as any other.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from bench.swarm.counted.columns import GIVEN_UP, OUTCOMES, Columns, Integers, Mask, columns_of, spread
from bench.swarm.counted.figures import ApiFigures, Figures, GroupFigures, Totals
from bench.swarm.counted.gaps import gaps
from bench.swarm.counted.histogram import buckets
from bench.swarm.counted.life import GroupLife, Rebalance
from bench.swarm.counted.lives import lives_of
from bench.swarm.counted.observed import Observed
from bench.swarm.counted.seconds import NO_STEPS_MAX, Seconds, seconds_of
from bench.swarm.counted.wall import Wall
from bench.swarm.wire.errors import NEWS, error_name
from storage.history.calls import READER, Fault, History


def figures_of(history: History, began_us: int | None = None, wall_us: int | None = None) -> Figures:
    """Count the figures of a history. `began_us` is the run's beginning; None: its first row counts as such.
    `wall_us` is the Unix time when the history's clock was zero; None: it is not known."""
    history = _of_members(history)
    if began_us is None:
        began_us = history.calls[0].sent_us if history.calls else history.ended_us
    columns = columns_of(history)
    observed = Observed(columns, lives_of(history), gaps(columns), began_us, max(history.ended_us, began_us))
    lives, found = observed.lives, observed.gaps
    rebalances = [each for life in lives.groups for each in life.rebalances]
    failed_us = np.sort(columns.ended_us[columns.lost | columns.refused])
    groups = _groups(observed)
    seconds = seconds_of(observed)
    return Figures(
        began_us=began_us,
        ended_us=observed.ended_us,
        totals=_totals(history, observed, groups, seconds),
        stable=spread([life.stable_us for life in lives.groups if life.stable_us is not None]),
        rebalance=spread(settled_lengths_us(rebalances)),
        without_coordinator=spread([gap.length_us for gap in found]),
        apis=_apis(columns),
        errors=_errors(columns, columns.answered),
        groups=groups,
        seconds=seconds,
        rebalances=rebalances,
        gaps=found,
        losses=lives.losses,
        failed_us=failed_us,
        faults=_once(history.faults),
        wall=Wall(began_us, wall_us),
        by_second=seconds if seconds.step_s == 1 else seconds_of(observed, NO_STEPS_MAX),
    )


def _of_members(history: History) -> History:
    """The history without the calls of the final reader, which are its end, and without topics that the
    reader found to be gone."""
    calls = len(history.calls)
    while calls and history.calls[calls - 1].client == READER:
        calls -= 1
    topics = tuple(topic for topic in history.topics if topic.partitions)
    return history._replace(calls=history.calls[:calls], topics=topics)


def _once(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """The faults, each once: one may be written down when it begins, and again, with its true end, when it
    has ended."""
    latest = {(fault.kind, fault.target, fault.began_us): fault for fault in faults}
    return tuple(sorted(latest.values(), key=lambda fault: fault.began_us))


def settled_lengths_us(rebalances: Iterable[Rebalance]) -> list[int]:
    """The lengths of the rebalances that came to an end."""
    return [length_us for each in rebalances if (length_us := each.length_us) is not None]


def _apis(columns: Columns) -> list[ApiFigures]:
    found = []
    for place, api in enumerate(columns.apis):
        of_api = columns.api == place
        answered = of_api & columns.answered
        served = answered & ~columns.refused
        took_us = columns.ended_us[served] - columns.sent_us[served]
        found.append(
            ApiFigures(
                api,
                requests=int(of_api.sum()),
                refused=int((of_api & columns.refused).sum()),
                lost=int((of_api & columns.lost).sum()),
                latency=spread(took_us),
                errors=_errors(columns, answered),
                histogram=buckets(took_us),
            )
        )
    return sorted(found, key=lambda each: -each.requests)


def _errors(columns: Columns, mask: Mask) -> dict[str, int]:
    codes, counts = np.unique(columns.error_code[mask], return_counts=True)
    by_name = {
        error_name(code): count for code, count in zip(codes.tolist(), counts.tolist(), strict=True) if code
    }
    return dict(sorted(by_name.items(), key=lambda item: -item[1]))


def _groups(observed: Observed) -> list[GroupFigures]:
    columns, lives = observed.columns, observed.lives

    def counts(mask: Mask | bool) -> Integers:
        groups = columns.group[mask & (columns.group >= 0)]
        return np.bincount(groups, minlength=len(columns.groups))

    acknowledged = columns.of({"OffsetCommit"}) & columns.answered & (columns.error_code == 0)
    requests, commits = counts(True), counts(acknowledged)
    refused, lost = counts(columns.refused), counts(columns.lost)
    gaps_us: dict[str, list[int]] = {}
    for gap in observed.gaps:
        gaps_us.setdefault(gap.group_id, []).append(gap.length_us)
    losses = Counter(loss.group_id for loss in lives.losses)
    by_group = {life.group_id: life for life in lives.groups}
    groups = []
    for place, group_id in enumerate(columns.groups):
        life = by_group.get(group_id) or GroupLife(group_id, "", 0, 0, [], None, [], [])
        lengths_us = settled_lengths_us(life.rebalances)
        groups.append(
            GroupFigures(
                group_id,
                life.protocol,
                life.members,
                life.clients,
                requests=int(requests[place]),
                refused=int(refused[place]),
                lost=int(lost[place]),
                rebalances=len(life.rebalances),
                rebalance=spread(lengths_us),
                unsettled=len(life.rebalances) - len(lengths_us),
                stable_ms=None if life.stable_us is None else life.stable_us / 1e3,
                moved=life.moved,
                commits=int(commits[place]),
                commits_s=round(int(commits[place]) / observed.duration_s, 3),
                members_lost=losses[group_id],
                without_coordinator=spread(gaps_us.get(group_id, [])),
            )
        )
    return sorted(groups, key=lambda group: group.badness, reverse=True)


def _totals(history: History, observed: Observed, groups: Sequence[GroupFigures], seconds: Seconds) -> Totals:
    columns, duration_s = observed.columns, observed.duration_s
    requests = len(history.calls)
    answered, refused, lost = (int(mask.sum()) for mask in (columns.answered, columns.refused, columns.lost))
    given_up = int((columns.outcome == OUTCOMES.index(GIVEN_UP)).sum())
    commits = sum(group.commits for group in groups)
    return Totals(
        duration_s=round(duration_s, 3),
        groups=len(groups),
        members=sum(group.members for group in groups),
        clients=sum(group.clients for group in groups),
        requests=requests,
        requests_s=round(requests / duration_s, 1),
        answered=answered,
        news=int((columns.answered & np.isin(columns.error_code, list(NEWS))).sum()),
        refused=refused,
        lost=lost,
        given_up=given_up,
        open=requests - answered - lost - given_up,
        rebalances=sum(group.rebalances for group in groups),
        unsettled=sum(group.unsettled for group in groups),
        rebalancing_mean=round(statistics.fmean(seconds.rebalancing), 2),
        moved=sum(group.moved for group in groups),
        commits=commits,
        commits_s=round(commits / duration_s, 1),
        offsets=sum(
            len(call.offsets) for call in history.calls if call.api == "OffsetCommit" and call.is_fine
        ),
        members_lost=sum(group.members_lost for group in groups),
        never_stable=sum(group.stable_ms is None and group.clients > 0 for group in groups),
        unserved=sum(not gap.is_served_again for gap in observed.gaps),
    )
