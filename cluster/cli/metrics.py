"""`groupd metrics`: what the tier's actors count, added up."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from actors.ground.spec import CONTROLLER_GROUP, TierSpec
from actors.metrics.families import FAMILIES, PREFIX
from actors.metrics.histogram import quantile_ns
from actors.metrics.numbers import Numbers, merged
from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    DataDirOption,
    JsonOption,
    console,
    errors,
    examples,
    leave,
    print_json,
)
from cluster.cli.kafka import CommandConfigOption
from cluster.cli.reach import NodeOption, reach
from cluster.cli.tables import print_table
from cluster.sight import call, look_at
from cluster.tier_actors import actors_of

TextOption = Annotated[bool, typer.Option("--prometheus", help="Print Prometheus' text form.")]
ListOption = Annotated[
    bool, typer.Option("--list", help="Print every metric's meaning, and what Kafka calls it.")
]


def register(app: typer.Typer) -> None:
    lines = ("groupd metrics", "groupd metrics --prometheus", "groupd metrics --list")
    app.command("metrics", epilog=examples(*lines))(metrics)


def metrics(
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
    as_text: TextOption = False,
    only_list: ListOption = False,
) -> None:
    """Show what the tier counts: groups by state, offsets, rebalances, requests and errors, times.

    Counters began when their actor began. The same numbers of a single node are at its HTTP endpoint, if
    metrics.port is set.
    """
    if only_list:
        print_table(console, None, _meanings())
        return
    with errors():
        numbers = asyncio.run(_gathered(reach(data_dir, bootstrap, command_config).spec))
        if as_text:
            from actors.metrics.exposition import exposition

            typer.echo(exposition(numbers).decode(), nl=False)
        elif as_json:
            print_json([_plain(*key, value) for key, value in sorted(numbers.items())])
        else:
            print_table(console, None, _rows(numbers))
        leave()


async def _gathered(spec: TierSpec) -> Numbers:
    actors = [actor for actor in actors_of(spec) if not actor.name.startswith(CONTROLLER_GROUP)]
    sight = await look_at(spec, actors)
    answers = await asyncio.gather(*(call(look.handle, "metrics") for look in sight.looks.values()))
    silent = len(actors) - sum(rows is not None for rows in answers)
    rows: list[Any] = [row for rows in answers for row in rows or ()]
    if silent:
        rows.append(("num_partitions", ("failed",), silent))
    return merged(rows)


def _plain(name: str, labels: tuple[str, ...], value: Any) -> dict[str, Any]:
    family = FAMILIES[name]
    row: dict[str, Any] = {"name": PREFIX + name, "labels": dict(zip(family.labels, labels, strict=True))}
    return row | (_quantiles(value) if family.kind == "summary" else {"value": value})


def _quantiles(value: tuple[int, dict[int, int]]) -> dict[str, float]:
    _, counts = value
    named = {"p50_s": 0.5, "p99_s": 0.99, "max_s": 1.0}
    return {"count": sum(counts.values())} | {
        name: quantile_ns(counts, quantile) / 1e9 for name, quantile in named.items()
    }


def _rows(numbers: Numbers) -> list[tuple[str, ...]]:
    """Return name, labels and value of each number, in the order of the families."""
    places = {name: place for place, name in enumerate(FAMILIES)}
    rows = sorted(numbers.items(), key=lambda row: (places[row[0][0]], row[0][1]))
    return [(name, " ".join(labels), _shown(name, value)) for (name, labels), value in rows]


def _shown(name: str, value: Any) -> str:
    if FAMILIES[name].kind == "summary":
        times = _quantiles(value)
        shown = (f"{label[:-2]} {seconds * 1e3:.2f}" for label, seconds in times.items() if label != "count")
        return f"{', '.join(shown)} ms of {times['count']:,}"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def _meanings() -> list[tuple[str, ...]]:
    return [
        (
            PREFIX + family.name + ("_total" if family.kind == "counter" else ""),
            ",".join(family.labels),
            family.meaning + (f" Kafka: {family.kafka}" if family.kafka else ""),
        )
        for family in FAMILIES.values()
    ]
