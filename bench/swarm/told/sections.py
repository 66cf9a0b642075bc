"""Makes the parts of a run's page, and the lines for a terminal. PURE, but for the plots' library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bench.swarm.counted.figures import Figures, GroupFigures, Totals
from bench.swarm.counted.results import shapes_ms
from bench.swarm.told import charts
from bench.swarm.told.charts import Band, Line
from bench.swarm.told.page import Section, Tile, duration, note, number, plots, table, tiles
from storage.history.judge.verdict import Verdict

GROUPS_MAX: Final = 50
"""How many groups the page has; report.json has all."""
FAULTS_MAX: Final = 30
HISTOGRAMS_MAX: Final = 8
ERRORS_MAX: Final = 4
"""How many errors of one API are shown."""


def lines(figures: Figures) -> Iterator[str]:
    """The lines for a terminal above the verdict."""
    totals, gaps = figures.totals, figures.without_coordinator
    yield (
        f"{totals.requests:,} requests in {number(totals.duration_s)} s ({number(totals.requests_s)}/s): "
        f"{totals.refused:,} refused, {totals.lost:,} lost"
    )
    yield (
        f"{totals.groups:,} groups, {totals.members:,} members{_lives(totals)}: stable after "
        f"{duration(figures.stable.p50_ms)} (the last: {duration(figures.stable.max_ms)}), "
        f"{totals.rebalances:,} rebalances ({_counted(totals)}), "
        f"{totals.moved:,} partitions moved (those of the groups' starts among them), "
        f"{totals.members_lost:,} memberships lost, {totals.commits:,} commits"
    )
    yield (
        f"without coordinator: {gaps.values:,} times; p50 {duration(gaps.p50_ms)}, "
        f"p99 {duration(gaps.p99_ms)}, max {duration(gaps.max_ms)}"
        if gaps.values
        else "without coordinator: never"
    )
    if totals.never_stable:
        yield f"never stable: {totals.never_stable:,} groups"


def sections(
    figures: Figures, verdict: Verdict, about: Mapping[str, str], behind: Sequence[Band]
) -> Iterator[Section]:
    """The sections in the order of the page. `about` describes the run, name by value; `behind` are the bands
    of the plots."""
    yield Section("In figures", tiles(_tiles(figures)))
    yield Section("Over time", plots(_plots(figures, behind)))
    if figures.faults:
        yield Section("Faults", _faults(figures))
    yield Section("Requests", _apis(figures))
    yield Section("Groups, worst first", _groups(figures))
    yield Section("What the judge found", _judged(verdict))
    yield Section("The run", table(("", ""), about.items(), text=(1,)))


def _tiles(figures: Figures) -> Iterator[Tile]:
    totals, gaps = figures.totals, figures.without_coordinator
    yield Tile(
        duration(figures.stable.p50_ms),
        f"until a group is stable (the last: {duration(figures.stable.max_ms)})",
    )
    yield Tile(
        number(totals.rebalances),
        f"rebalances ({_counted(totals)}); p50 {duration(figures.rebalance.p50_ms)} each",
    )
    yield Tile(
        number(totals.moved), "partitions moved to another member, those of the groups' starts among them"
    )
    yield Tile(
        duration(gaps.max_ms),
        f"longest without coordinator (p50 {duration(gaps.p50_ms)}, {gaps.values:,} times)",
    )
    yield Tile(number(totals.members_lost), "memberships lost")
    yield Tile(f"{number(totals.requests_s)}/s", f"requests; {totals.requests:,} in all")
    yield Tile(f"{number(totals.commits_s)}/s", f"commits; {totals.commits:,} acknowledged")
    yield Tile(number(totals.refused), "requests refused")
    yield Tile(number(totals.lost), "requests lost: closed or timed out")
    yield Tile(number(totals.members), f"members in {totals.groups:,} groups{_lives(totals)}")


def _counted(totals: Totals) -> str:
    """A note on what counts as a rebalance here; the server's history counts those that it began and
    ended."""
    overtaken = f"; {totals.unsettled:,} overtaken by the next" if totals.unsettled else ""
    return f"generations and epochs that members learned of{overtaken}"


def _lives(totals: Totals) -> str:
    """A note on lives: a swarm of 60 members that were all restarted once has 120."""
    return f" ({totals.clients:,} lives: restarts)" if totals.clients != totals.members else ""


def bands(figures: Figures) -> list[Band]:
    """The faults as bands, in seconds from the beginning."""
    return [
        Band(fault.kind, *((at_us - figures.began_us) / 1e6 for at_us in (fault.began_us, fault.ended_us)))
        for fault in figures.faults
    ]


def _plots(figures: Figures, behind: Sequence[Band]) -> Iterator[str]:
    told = figures.seconds

    def over_time(title: str, *drawn: Line) -> str:
        return charts.over_time(title, drawn, told.step_s, behind, figures.wall)

    blue, red, orange, green, purple = charts.BLUE, charts.RED, charts.ORANGE, charts.GREEN, charts.PURPLE
    yield over_time(
        "Requests a second", Line("requests", told.requests_s, blue), Line("commits", told.commits_s, green)
    )
    yield over_time(
        "Requests refused and lost, a second",
        Line("refused", told.refused_s, orange, is_peak=True),
        Line("lost", told.lost_s, red, is_peak=True),
    )
    yield over_time(
        "Members",
        Line("settled", told.settled, green),
        Line("in a rebalance", told.rebalancing, orange, is_peak=True),
    )
    yield over_time("Rebalances begun", Line("rebalances", told.rebalances, purple, is_peak=True))
    yield over_time("Groups without coordinator", Line("groups", told.without_coordinator, red, is_peak=True))
    yield over_time(
        "Latency in ms, joins and syncs left out",
        Line("p50", told.p50_ms, blue),
        Line("p99", told.p99_ms, orange, is_peak=True),
    )
    names = {
        "rebalance": ("How long rebalances took", purple),
        "without_coordinator": ("How long groups had no coordinator", red),
    }
    for name, shape_ms in shapes_ms(figures).items():
        if shape_ms and name in names:
            title, colour = names[name]
            yield charts.distribution(title, [(name, shape_ms, colour)])


def _faults(figures: Figures) -> str:
    counts = Counter(fault.kind for fault in figures.faults)
    lasted = {kind: max(f.ended_us - f.began_us for f in figures.faults if f.kind == kind) for kind in counts}
    tell = figures.wall.tell
    rows = []
    for kind, times in counts.most_common(FAULTS_MAX):
        begun = [tell(fault.began_us) for fault in figures.faults if fault.kind == kind]
        rows.append((kind, number(times), duration(lasted[kind] / 1e3), begun[0], begun[-1]))
    return table(("fault", "times", "longest", "first", "last"), rows)


def _apis(figures: Figures) -> str:
    headings = ("API", "requests", "refused", "lost", "p50", "p90", "p99", "p99.9", "max", "errors")
    rows = []
    for api in figures.apis:
        took = api.latency
        latencies = (took.p50_ms, took.p90_ms, took.p99_ms, took.p999_ms, took.max_ms)
        counts = (number(api.requests), number(api.refused), number(api.lost))
        rows.append((api.api, *counts, *map(duration, latencies), _errors(api.errors)))
    small = (
        "Latency of what was answered and not refused. JoinGroup and SyncGroup wait for the other "
        "members, and a heartbeat may be held until there is news. REBALANCE_IN_PROGRESS and "
        "MEMBER_ID_REQUIRED are news, not refusals."
    )
    return table(headings, rows, text=(9,)) + note(small) + plots(_histograms(figures))


def _histograms(figures: Figures) -> Iterator[str]:
    """The plots of the most frequent APIs; report.json has all."""
    told = [api for api in figures.apis if api.histogram]
    for api in told[:HISTOGRAMS_MAX]:
        yield charts.histogram(f"{api.api}: how many took how long", api.histogram)


def _errors(errors: Mapping[str, int]) -> str:
    told = [f"{name} {count:,}" for name, count in list(errors.items())[:ERRORS_MAX]]
    if len(errors) > ERRORS_MAX:
        told.append(f"{len(errors) - ERRORS_MAX} more")
    return ", ".join(told) or "-"


def _groups(figures: Figures) -> str:
    headings = (
        *("group", "protocol", "members", "lives", "gaps", "longest gap", "lost members", "stable after"),
        *("rebalances", "p50", "longest", "moved", "commits/s", "requests", "refused", "lost"),
    )
    text = table(headings, [_group(group) for group in figures.groups[:GROUPS_MAX]])
    small = (
        "Lives: a member that was restarted once has two. Gaps: times without coordinator. Rebalances: "
        "generations and epochs that members learned of, those that the next one overtook among them; one "
        "that no member heard of is in the server's history alone, which counts a rebalance that began "
        "anew before it ended as one."
    )
    if len(figures.groups) > GROUPS_MAX:
        small += f" {len(figures.groups) - GROUPS_MAX:,} more groups are in report.json."
    return text + note(small)


def _group(group: GroupFigures) -> tuple[str, ...]:
    stable = duration(group.stable_ms) if group.stable_ms is not None else "never"
    return (
        group.group_id,
        group.protocol,
        number(group.members),
        number(group.clients),
        number(group.without_coordinator.values),
        duration(group.without_coordinator.max_ms),
        number(group.members_lost),
        stable,
        number(group.rebalances),
        duration(group.rebalance.p50_ms),
        duration(group.rebalance.max_ms),
        number(group.moved),
        number(group.commits_s),
        number(group.requests),
        number(group.refused),
        number(group.lost),
    )


def _judged(verdict: Verdict) -> str:
    judged = table(
        ("looked at", "how many"), [(what, number(count)) for what, count in verdict.judged.items()]
    )
    if not verdict.by_rule:
        return judged
    rules = table(
        ("broken promise", "times"), [(rule, number(count)) for rule, count in verdict.by_rule.items()]
    )
    stories = [(each.rule, each.group_id, each.text) for each in verdict.violations]
    more = sum(verdict.by_rule.values()) - len(stories)
    told = table(("broken promise", "group", "who, what and when"), stories, text=(2,))
    return rules + told + (note(f"{more:,} more are counted only.") if more else "") + judged


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({', '.join(f'{name} {_told(each)}' for name, each in value.items())})"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def about(run: Mapping[str, Any], machine: str) -> dict[str, str]:
    """The description of a run by run.json. `machine` is where the report was made."""
    plan = run.get("plan") or {}
    counts = ", ".join(f"{name} {_told(value)}" for name, value in plan.items())
    told = {
        "scenario": run.get("scenario"),
        "plan": counts,
        "seed": run.get("seed"),
        "server": run.get("software"),
        "bootstrap": run.get("bootstrap"),
        "command": run.get("command"),
        "processes": run.get("processes"),
        "began": run.get("began_at"),
        "run id": run.get("run_id"),
        "machine": machine,
    }
    return {name: str(value) for name, value in told.items() if value not in (None, "")}
