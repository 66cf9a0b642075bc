"""Judges one probe of a search: whether the coordinator carried the load, and if not, whether the swarm
itself failed to send it. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.swarm.load.busy import FULL
from bench.swarm.planning import thresholds
from bench.swarm.planning.scenario import Scenario
from bench.swarm.planning.scenario_errors import BadScenario
from bench.swarm.planning.tables import GroupsTable
from bench.swarm.planning.thresholds import Checked, Threshold
from bench.swarm.runs.bisection import Tried
from bench.swarm.told.comparison import Report, at
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN

MEMBERS: Final = "members"
COMMITS: Final = "commits"
UNITS: Final[Mapping[str, str]] = {MEMBERS: "members", COMMITS: "commits/s"}
FAILED: Final = "failed"
SENT_SHARE: Final = 0.9
"""The share of the planned commits per second that has to be acknowledged, else the load was not there."""
THERE_SHARE: Final = 0.95
"""The share of the members that have to be settled before commits are counted."""
TOGETHER_S: Final = 3
"""The seconds for which they have to be settled together."""
DEFAULTS: Final = ("errors <= 0",)
COMMITS_DEFAULT: Final = "p99(OffsetCommit) < 100ms"
"""The default threshold where members commit. There is none for heartbeats: a server may hold their answers
on purpose."""


class Load(NamedTuple):
    """The load of a probe, as flags of `run`."""

    value: int
    """The number of members, or of commits per second."""
    flags: Mapping[str, int]


class Probe(NamedTuple):
    """The result of a probe."""

    name: str
    """The name of the probe's directory."""
    load: int
    status: str
    """The status: KEPT, FAILED or NOT_SHOWN."""
    because: str
    checked: tuple[Checked, ...] = ()
    is_certain: bool = False
    """Whether a promise was broken, which is no noise."""
    requests_s: float | None = None
    commits_s: float | None = None
    """The acknowledged commits per second, once the members were there; None: the run was too short to
    say."""
    busy: float | None = None
    """The share of a core that the swarm's busiest process needed over the whole run."""

    @property
    def tried(self) -> Tried:
        return Tried(self.load, self.status == KEPT, self.because, self.is_certain)

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for search.json."""
        return {**self._asdict(), "checked": thresholds.plain(self.checked)}


def default_thresholds(scenario: Scenario) -> list[str]:
    """The thresholds of a scenario if none are given."""
    return [*DEFAULTS, *([COMMITS_DEFAULT] if _committing(scenario) else [])]


def load_of(scenario: Scenario, by: str, wanted: int, groups: int | None) -> Load:
    """The possible load next to the one that is wanted. In a search by commits the members stay, and all that
    commit do so more often. Raises BadScenario if no member commits and commits are counted."""
    if by == MEMBERS:
        members = scenario.scaled(groups=groups, members=wanted).members
        return Load(members, {MEMBERS: wanted})
    committing = _committing(scenario)
    if not committing:
        raise BadScenario(f"{scenario.name}: nobody commits: there is nothing to search --by commits")
    interval_ms = max(1, round(1_000 * committing / wanted))
    return Load(round(1_000 * committing / interval_ms), {"commit_interval_ms": interval_ms})


def _committing(scenario: Scenario) -> int:
    """The members that commit when all are there: one without a partition has nothing to commit."""
    return sum(table.count * _owners(table) for table in scenario.groups if table.commit_interval_ms)


def _owners(table: GroupsTable) -> int:
    return min(table.members, table.topics.count * table.topics.partitions)


def probed(name: str, load: int, by: str, report: Report, limits: Sequence[Threshold]) -> Probe:
    """Judge a probe by its report: its promises, whether the load was there at all, then the thresholds."""
    checked = tuple(thresholds.check(limits, report))
    busy = at(report, "run", "busy") or ()
    commits_s = _commits_s(report)
    status, because, is_certain = _status(load, by, report, checked, commits_s)
    return Probe(
        name,
        load,
        status,
        because,
        checked,
        is_certain,
        at(report, "figures", "totals", "requests_s"),
        commits_s,
        max((each["mean"] for each in busy), default=None),
    )


def _status(
    load: int, by: str, report: Report, checked: Sequence[Checked], commits_s: float | None
) -> tuple[str, str, bool]:
    """The status of a probe, why it is so, and whether it is certain."""
    verdict = at(report, "verdict", "status")
    summary = str(at(report, "verdict", "summary") or "it was not judged")
    if verdict == BROKEN:
        return FAILED, summary, True
    too_slow = _too_slow(report, "mean")
    if too_slow:
        return NOT_SHOWN, too_slow, False
    if verdict != KEPT:
        return NOT_SHOWN, summary, False
    missed = [f"{each.text}: {each.because}" for each in checked if each.status == BROKEN]
    if by == COMMITS and commits_s is None:
        return NOT_SHOWN, f"the members were not there for {TOGETHER_S} s: more --seconds show more", False
    if by == COMMITS and commits_s is not None and commits_s < SENT_SHARE * load:
        missed.append(f"{commits_s:,.0f} of {load:,} commits a second were acknowledged")
    if missed:
        # Seconds in which the swarm had no processor time spoil a p99 as well as a slow server does.
        peak = _too_slow(report, "most")
        return (NOT_SHOWN, f"{missed[0]}; {peak}", False) if peak else (FAILED, "; ".join(missed), False)
    unseen = [f"{each.text}: {each.because}" for each in checked if each.status == NOT_SHOWN]
    return (NOT_SHOWN, unseen[0], False) if unseen else (KEPT, "", False)


def _too_slow(report: Report, figure: str) -> str:
    """Why the swarm itself was the bottleneck; empty if it was not."""
    busy: Sequence[Mapping[str, float]] = at(report, "run", "busy") or ()
    share = max((each[figure] for each in busy), default=0.0)
    if share < FULL:
        return ""
    when = "all the time" if figure == "mean" else "for seconds"
    return (
        f"the swarm could not send what was planned: a process of its own was busy {share:.0%} {when}; "
        f"--processes {len(busy) + 1} or more"
    )


def _commits_s(report: Report) -> float | None:
    """The mean of commits per second from when the members were there for the first time until the last whole
    second of the plan: after it come the final reads, and no commits. If they never were there it is that of
    the second half."""
    step_s = at(report, "figures", "seconds", "step_s") or 1
    by_second = at(report, "figures", "seconds", "commits_s") or ()
    settled = at(report, "figures", "seconds", "settled") or ()
    needed = THERE_SHARE * (at(report, "run", "plan", "members") or 0)
    there = next((place for place, members in enumerate(settled) if members >= needed), len(by_second) // 2)
    steps = int((at(report, "run", "plan", "duration_s") or len(by_second) * step_s) // step_s)
    counted = by_second[there + 1 : steps - 1]
    enough = len(counted) * step_s >= TOGETHER_S
    return round(sum(counted) / len(counted), 1) if enough else None
