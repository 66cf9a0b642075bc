"""Two chaos runs of the same schedule side by side, by kind of fault, as a tier's and Kafka's. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.chaos.table import ALL, seconds

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
    """The runs do not have the same schedule; says how they differ."""


class Row(NamedTuple):
    """One kind of fault on one target."""

    kind: str
    on: str
    figures: Mapping[str, Any]
    """As report.json has them."""

    @property
    def cells(self) -> tuple[str, ...]:
        """In words, as HEADINGS."""
        found, without = self.figures, self.figures["without"]
        return (
            self.kind,
            self.on,
            f"{found['faults']:,}",
            f"{found['groups_hit']:,} of {found['groups']:,}",
            seconds(without["p50_ms"], found["never"]),
            seconds(without["max_ms"], found["never"]),
            f"{found['refused']:,}",
            f"{found['members_lost']:,}",
            f"{found['rebalances']:,}",
        )


class Comparison(NamedTuple):
    """Of two runs."""

    names: tuple[str, str]
    """What was attacked."""
    verdicts: tuple[str, str]
    rows: tuple[Row, ...]
    """By kind, as the first run has them: the first run's row, then the second's."""
    remarks: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        rows = [{"kind": row.kind, "on": row.on, **row.figures} for row in self.rows]
        return {
            "names": list(self.names),
            "verdicts": list(self.verdicts),
            "rows": rows,
            "remarks": list(self.remarks),
        }


def compared(a: Report, b: Report) -> Comparison:
    """Only kinds that both met are set side by side. Raises NotTheSame."""
    runs = (a["run"], b["run"])
    for what, values in (
        ("scenario", [run["scenario"]["name"] for run in runs]),
        ("seed", [run["seed"] for run in runs]),
    ):
        if values[0] != values[1]:
            raise NotTheSame(
                f"these runs do not have the same schedule: {what} {values[0]} and {what} {values[1]}; "
                "run one of them again with the other's --scenario and --seed, or with its --schedule"
            )
    names = (_name(runs[0]), _name(runs[1]))
    if names[0] == names[1]:
        names = (f"A: {names[0]}", f"B: {names[1]}")
    found = [{row["kind"]: row for row in report["availability"] if row["kind"] != ALL} for report in (a, b)]
    both = [kind for kind in found[0] if kind in found[1]]
    rows = [Row(kind, name, of[kind]) for kind in both for name, of in zip(names, found, strict=True)]
    return Comparison(
        names,
        (str(a["verdict"]["summary"]), str(b["verdict"]["summary"])),
        tuple(rows),
        tuple(_remarks(runs, names, found)),
    )


def _name(run: Mapping[str, Any]) -> str:
    return str(run.get("software") or f"groupd {run['version']}").partition(",")[0]


def _remarks(
    runs: Sequence[Mapping[str, Any]], names: Sequence[str], found: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    yield NOTE
    played = [[fault["kind"] for fault in run.get("played", ())] for run in runs]
    alike = next(
        (n for n, (one, other) in enumerate(zip(*played, strict=False)) if one != other),
        min(map(len, played)),
    )
    if alike < max(map(len, played)):
        counts = " and ".join(f"{len(of)} on {name}" for of, name in zip(played, names, strict=True))
        yield (
            f"Not every fault came on both: {counts}, of which the first {alike} are the same. "
            "A run with --schedule FILE of the other one plays exactly its faults."
        )
    for name, mine, others in ((names[0], found[0], found[1]), (names[1], found[1], found[0])):
        if alone := [kind for kind in mine if kind not in others]:
            yield f"Only on {name}, and so left out: {', '.join(alone)}."


def markdown(comparison: Comparison) -> str:
    """As a README takes it."""
    lines = [HEADINGS, ("---", "---", *["---:"] * (len(HEADINGS) - 2))]
    lines += [row.cells for row in comparison.rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    said = [f"{name}: {said}" for name, said in zip(comparison.names, comparison.verdicts, strict=True)]
    return table + "\n\n" + "\n".join(f"* {words}" for words in (*said, *comparison.remarks)) + "\n"
