"""`groupd groups reset-offsets`: Kafka's scenarios, shown first and done with --execute."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    BootstrapOption,
    DataDirOption,
    JsonOption,
    errors,
    examples,
    print_json,
)
from cluster.cli.kafka import CommandConfigOption, print_table, with_kafka
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from cluster.groups.connection import Kafka
    from cluster.groups.reset import Reset, Scenario

SCENARIOS = (
    "to_offset",
    "to_earliest",
    "to_latest",
    "to_current",
    "shift_by",
    "to_datetime",
    "by_duration",
    "from_file",
)


def register(groups: typer.Typer) -> None:
    groups.command(
        "reset-offsets",
        epilog=examples(
            "groupd groups reset-offsets billing --topic orders --to-earliest",
            "groupd groups reset-offsets billing --topic orders:0,1 --shift-by -100 --execute",
            "groupd groups reset-offsets billing --all-topics --by-duration PT1H --execute",
            "groupd groups reset-offsets billing --all-topics --to-current --export csv > offsets.csv",
        ),
    )(reset_offsets)


def reset_offsets(
    groups: Annotated[list[str], typer.Argument(help="The group ids.", metavar="GROUP...")],
    topic: Annotated[
        list[str] | None, typer.Option(help="A topic, or partitions of it: TOPIC:0,1,2.")
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Reset all topics with a committed offset.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option(help="Reset to this offset.")] = None,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Reset to where the log begins.")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Reset to where the log ends.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="Keep what is committed (to export it).")
    ] = False,
    shift_by: Annotated[int | None, typer.Option(help="Move by so many records; back if negative.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option(help="Reset to a time: YYYY-MM-DDThh:mm:ss.sss, UTC unless a zone is given.")
    ] = None,
    by_duration: Annotated[str | None, typer.Option(help="Reset to a time so long ago: PnDTnHnMnS.")] = None,
    from_file: Annotated[
        Path | None, typer.Option(help="Reset to the offsets that --export csv printed.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Commit the new offsets, or only show them.")
    ] = False,
    export: Annotated[str, typer.Option(help="csv: print the offsets as CSV.")] = "",
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reset the committed offsets of groups without members. Without --execute it is only shown."""
    given = {
        "to_offset": to_offset,
        "to_earliest": to_earliest or None,
        "to_latest": to_latest or None,
        "to_current": to_current or None,
        "shift_by": shift_by,
        "to_datetime": to_datetime,
        "by_duration": by_duration,
        "from_file": from_file,
    }
    with errors():
        if export not in ("", "csv"):
            raise TierError(f"--export {export}: csv is expected")
        scope = _scope(topic, all_topics=all_topics, from_file=from_file)
        scenario = _scenario({name: value for name, value in given.items() if value is not None}, groups)
        resets = _reset(groups, scenario, scope, execute, (bootstrap, command_config, data_dir))
    _show(resets, export=export, as_json=as_json, executed=execute)


def _scope(topic: list[str] | None, *, all_topics: bool, from_file: Path | None) -> list[str] | None:
    """Return the topics that are reset; None for all. Raises TierError."""
    if from_file is not None and not topic and not all_topics:
        return None
    if bool(topic) == all_topics or from_file is not None:
        raise TierError("one of --topic, --all-topics and --from-file says which partitions are reset")
    return topic


def _scenario(given: dict[str, Any], groups: list[str]) -> Scenario:
    from cluster.groups.reset import Scenario, from_csv, parse_datetime, parse_duration

    if len(given) != 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in SCENARIOS)
        raise TierError(f"one of {names} is expected")
    ((name, value),) = given.items()
    if name == "to_datetime":
        return Scenario(to_datetime_ms=parse_datetime(value))
    if name == "by_duration":
        now_ms = time.time_ns() // 1_000_000
        return Scenario(to_datetime_ms=now_ms - round(parse_duration(value).total_seconds() * 1000))
    if name == "from_file":
        try:
            text = value.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise TierError(f"--from-file {value} cannot be read: {error}") from None
        return Scenario(from_file=from_csv(text, groups))
    return Scenario(**{name: value})


def _reset(
    groups: list[str],
    scenario: Scenario,
    scope: list[str] | None,
    is_executed: bool,
    where: tuple[str | None, Path | None, Path],
) -> list[Reset]:
    async def work(kafka: Kafka) -> list[Reset]:
        from cluster.groups import reset

        # The offsets of all groups are chosen before the first is carried out.
        resets = [await reset.plan_reset(kafka, group_id, scenario, scope) for group_id in groups]
        if is_executed:
            for each in resets:
                await reset.execute(kafka, each)
        return resets

    bootstrap, command_config, data_dir = where
    return with_kafka(bootstrap, command_config, data_dir, work)


def _show(resets: list[Reset], *, export: str, as_json: bool, executed: bool) -> None:
    from cluster.groups.reset import to_csv

    for reset in resets:
        for warning in reset.warnings:
            typer.echo(f"groupd: {warning}", err=True)
    rows = [
        (reset.group, place.topic, place.partition, offset)
        for reset in resets
        for place, offset in sorted(reset.offsets.items())
    ]
    if as_json:
        names = ("group", "topic", "partition", "new_offset")
        shown = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"executed": executed, "offsets": shown})
    elif export:
        typer.echo(to_csv(resets), nl=False)
    else:
        print_table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows)
        if not executed:
            typer.echo("Nothing was written: --execute does it.", err=True)
