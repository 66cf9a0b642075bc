"""Two chaos runs of the same schedule side by side, by kind of fault, as a tier's and Kafka's. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from bench.chaos import table
from bench.chaos.availability import Availability, read

Report = Mapping[str, Any]
"""What a run's report.json says."""

HEADINGS: Final = (
    "fault",
    "on",
    "times",
    "groups hit",
    "p50 s",
    "max s",
    "refused",
    "members lost",
    "rebalances",
)
NOTE: Final = (
    "p50 and max: time without service that one fault meant for one group, of the groups hit. "
    "Refused: requests told to come back, or lost."
)


class NotTheSame(ValueError):
    """The runs do not have the same schedule; the text says how they differ."""


class Row(NamedTuple):
    """One kind of fault on one target."""

    kind: str
    on: str
    figures: table.Row

    @property
    def cells(self) -> tuple[str, ...]:
        """The row in words, a cell for each of HEADINGS."""
        kind, *figures = table.cells(self.figures)
        return (kind, self.on, *(figures[place] for place in (0, 1, 2, 4, 5, 6, 7)))


class Comparison(NamedTuple):
    """Two runs side by side."""

    names: tuple[str, str]
    """The names of the two targets."""
    verdicts: tuple[str, str]
    rows: tuple[Row, ...]
    """Rows in the first run's order of kinds: the first run's row, then the second's."""
    remarks: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        rows = [{"on": row.on, **row.figures.plain()} for row in self.rows]
        return {
            "names": list(self.names),
            "verdicts": list(self.verdicts),
            "rows": rows,
            "remarks": list(self.remarks),
        }


def compared(a: Report, b: Report) -> Comparison:
    """Compare the kinds that both runs had, each over as many faults as came in both. Raises NotTheSame."""
    reports = (a, b)
    runs = (a["run"], b["run"])
    _require_the_same(runs)
    names = (_name(runs[0]), _name(runs[1]))
    if names[0] == names[1]:
        names = (f"A: {names[0]}", f"B: {names[1]}")
    parts = [[read(part) for part in report["parts"]] for report in reports]
    orders = [[fault.kind for part in of_run for fault in part.faults] for of_run in parts]
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*orders, strict=False)))
    is_same_list = alike == min(map(len, orders)) and alike > 0
    if is_same_list:
        parts = [list(_first(of_run, alike)) for of_run in parts]
    found = [{row.kind: row for row in table.rows(of_run)} for of_run in parts]
    both = [kind for kind in found[0] if kind in found[1] and (is_same_list or kind != table.ALL)]
    rows = [Row(kind, name, of[kind]) for kind in both for name, of in zip(names, found, strict=True)]
    verdicts = (str(a["verdict"]["summary"]), str(b["verdict"]["summary"]))
    lengths = [len(order) for order in orders]
    remarks = _of_the_same(names, lengths, alike) if is_same_list else _of_others(names, found)
    return Comparison(names, verdicts, tuple(rows), (NOTE, *remarks))


def _require_the_same(runs: Sequence[Mapping[str, Any]]) -> None:
    names, seeds = [run["scenario"]["name"] for run in runs], [run["seed"] for run in runs]
    for what, (one, other) in (("scenario", names), ("seed", seeds)):
        if one != other:
            raise NotTheSame(
                f"these runs do not have the same schedule: {what} {one} and {what} {other}; "
                "run one of them again with the other's --scenario and --seed, or with its --schedule"
            )


def _first(parts: Sequence[Availability], count: int) -> Iterator[Availability]:
    """Cut what is known of a run's parts to its first faults."""
    for part in parts:
        yield part.first(max(0, count))
        count -= len(part.faults)


def _name(run: Mapping[str, Any]) -> str:
    return str(run.get("software") or f"groupd {run['version']}").partition(",")[0]


def _of_the_same(names: Sequence[str], lengths: Sequence[int], alike: int) -> Iterator[str]:
    counts = " and ".join(f"{length} on {name}" for length, name in zip(lengths, names, strict=True))
    if len(set(lengths)) == 1:
        yield f"The same {alike} faults in the same order came on both."
    else:
        yield (
            f"The first {alike} faults, the same in the same order, are set side by side; "
            f"there were {counts}: who mends sooner meets more of them in the same time."
        )


def _of_others(names: Sequence[str], found: Sequence[Mapping[str, table.Row]]) -> Iterator[str]:
    yield (
        "Not the same faults came in the same order: only kinds that both met are set side by side. "
        "A run with --schedule FILE of the other one plays exactly its faults."
    )
    for name, mine, others in ((names[0], found[0], found[1]), (names[1], found[1], found[0])):
        if alone := [kind for kind in mine if kind not in others]:
            yield f"Only on {name}, and so left out: {', '.join(alone)}."


def markdown(comparison: Comparison) -> str:
    """Write it as Markdown, for a README."""
    lines = [HEADINGS, ("---", "---", *["---:"] * (len(HEADINGS) - 2))]
    lines += [row.cells for row in comparison.rows]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    said = [f"{name}: {said}" for name, said in zip(comparison.names, comparison.verdicts, strict=True)]
    return rows + "\n\n" + "\n".join(f"* {words}" for words in (*said, *comparison.remarks)) + "\n"
