"""Shows a swarm while it runs: a board on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from bench.swarm.rows.second import Second
from cluster.cli.tables import Table

LINE_EVERY_S: Final = 10.0
PAST_SECONDS: Final = 40
"""How many past seconds are shown as bars beside the figures."""
COURSE: Final = "course"
"""The column that a narrow terminal does without."""
BARS: Final = " ▁▂▃▄▅▆▇█"


class Head(NamedTuple):
    """What is known of a swarm before it begins."""

    scenario: str
    bootstrap: str
    seed: int
    duration_s: float
    members: int


class Screen:
    """The screen of a swarm. It is a context manager, and called with every second of the swarm."""

    def __init__(self, console: Console, head: Head) -> None:
        self._console = console
        self._head = head
        self._past: deque[Second] = deque(maxlen=PAST_SECONDS)
        self._untold: list[Second] = []
        """The seconds since the last line."""
        self._told: Second | None = None
        self._next_line_s = LINE_EVERY_S
        self._live: Live | None = None

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            # No thread refreshes it: it is called when there is something new.
            self._live = Live(waiting(self._head), console=self._console, auto_refresh=False)
            self._live.start(refresh=True)
        else:
            head = self._head
            self._console.print(
                f"{title(head)}: {head.members:,} members, {head.duration_s:g} s", soft_wrap=True
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
        elif self._untold:
            self._tell()

    def __call__(self, second: Second) -> None:
        self._past.append(second)
        if self._live is not None:
            self._live.update(board(self._head, self._past), refresh=True)
            return
        self._untold.append(second)
        if second.at_s >= self._next_line_s:
            self._next_line_s += LINE_EVERY_S
            self._tell()

    def _tell(self) -> None:
        self._console.print(line(self._untold, self._told), soft_wrap=True)
        self._told, self._untold = self._untold[-1], []


def title(head: Head) -> str:
    """The title: what runs where, and the seed that makes the same plan again."""
    return f"{head.scenario} on {head.bootstrap}, seed {head.seed}"


def line(seconds: Sequence[Second], told: Second | None = None) -> str:
    """A line about the seconds since the line before, which ended with `told`. Counts are those since the
    start; rates and the worst latency are those since that line, so that nothing between two lines is
    lost."""
    now = seconds[-1]
    before = told or now._replace(at_s=0.0, requests=0, errors=0, commits=0)
    took_s = max(now.at_s - before.at_s, 1e-3)

    def counted(name: str) -> str:
        count = getattr(now, name)
        return f"{count:,} {name} (+{(count - getattr(before, name)) / took_s:,.0f}/s)"

    fewest = min(second.groups_stable for second in seconds)
    worst_ms = max(second.p99_ms for second in seconds)
    return (
        f"{int(now.at_s)} s: {counted('requests')}, {counted('errors')}, {counted('commits')}; "
        f"p50 {now.p50_ms:.1f} ms, p99 {worst_ms:.1f} ms in the worst second; "
        f"members: {states(now)}; {now.groups_stable:,} of {now.groups:,} groups stable"
        + (f" (at times {fewest:,})" if fewest < now.groups_stable and told else "")
        + f"; {now.moved_partitions:,} partitions moved since groups had started"
        + ("" if now.lag is None else f"; groups {now.lag:,} records behind")
    )


def waiting(head: Head) -> RenderableType:
    """The screen before the first second is over."""
    return Group(Text(title(head), style="bold"), Text("connects"))


def board(head: Head, past: Iterable[Second]) -> RenderableType:
    """The board: the figures of the last second, and those of the seconds before as bars."""
    past = list(past)
    now = past[-1]
    errors = Text(f"{now.errors_s:,.0f} ({now.errors:,} in all)", style="red" if now.errors else "")
    groups = Text(
        f"{now.groups_stable:,} of {now.groups:,} stable",
        style="yellow" if now.groups_stable < now.groups else "green",
    )
    rows: list[tuple[str, str | Text, Iterable[float]]] = [
        (
            "requests/s",
            f"{now.requests_s:,.0f} ({now.requests:,} in all)",
            (second.requests_s for second in past),
        ),
        ("errors/s", errors, (second.errors_s for second in past)),
        (
            "commits/s",
            f"{now.commits_s:,.0f} ({now.commits:,} in all)",
            (second.commits_s for second in past),
        ),
        ("p50", f"{now.p50_ms:.1f} ms", (second.p50_ms for second in past)),
        ("p99", f"{now.p99_ms:.1f} ms", (second.p99_ms for second in past)),
        ("groups", groups, (second.groups_stable for second in past)),
        ("moved since start", f"{now.moved_partitions:,}", (second.moved_partitions for second in past)),
        ("members", states(now), ()),
    ]
    if now.lag is not None:
        rows.append(("lag", f"{now.lag:,} records", (second.lag or 0 for second in past)))
    table = Table("", "", COURSE, spare=(COURSE,), is_live=True, show_header=False)
    table.columns[0].style = "dim"
    table.columns[2].style, table.columns[2].no_wrap = "cyan", True
    for name, figure, course in rows:
        table.add_row(name, figure, bars(course))
    return Group(Text(title(head), style="bold"), _clock(head, now.at_s), table)


def bars(values: Iterable[float]) -> str:
    """A bar for each value, the highest one full."""
    values = list(values)
    most = max(values, default=0.0)
    if most <= 0:
        return ""
    return "".join(BARS[round(max(0.0, value) / most * (len(BARS) - 1))] for value in values)


def states(second: Second) -> str:
    """How many members are in which state, the most first."""
    by_count = sorted(second.members_by_state.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {state}" for state, count in by_count if count) or "none"


def _clock(head: Head, at_s: float) -> RenderableType:
    row = Table(COURSE, "", spare=(COURSE,), is_live=True, show_header=False)
    done_s = min(at_s, head.duration_s)
    row.add_row(
        ProgressBar(total=head.duration_s, completed=done_s, width=PAST_SECONDS),
        f"{_minutes(at_s)} of {_minutes(head.duration_s)}",
    )
    return row


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
