"""`groupd offsets`: committed offsets and whole dumps of groups, out and in, in Kafka's bytes or as JSON."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.cli.common import (
    DATA_DIR_DEFAULT,
    BootstrapOption,
    DataDirOption,
    JsonOption,
    errors,
    examples,
    leave,
    print_json,
)
from cluster.cli.groups import AllGroupsOption, named_groups
from cluster.cli.kafka import CommandConfigOption, with_kafka
from cluster.tier_file import TierError

if TYPE_CHECKING:
    from actors.coordinator.kafka_records.codec import KafkaRecord
    from cluster.groups.connection import Kafka
    from cluster.groups.transfer import Imported

commands = typer.Typer(
    no_args_is_help=True,
    help="Export and import committed offsets, and whole dumps of groups.",
    rich_markup_mode="rich",
    epilog=examples(
        "groupd offsets export billing.offsets --group billing", "groupd offsets import billing.offsets"
    ),
)
WholeOption = Annotated[
    bool, typer.Option("--whole", help="Export every record of every group, not committed offsets alone.")
]


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="offsets")


@commands.command(
    epilog=examples(
        "groupd offsets export billing.json --group billing --format json",
        "groupd offsets export old.dump --whole --bootstrap old-kafka:9092",
    )
)
def export(
    file: Annotated[Path, typer.Argument(help="The file to make; it must not exist.", metavar="FILE")],
    group: Annotated[list[str] | None, typer.Option(help="Export only this group.")] = None,
    all_groups: AllGroupsOption = False,
    whole: WholeOption = False,
    form: Annotated[
        str,
        typer.Option(
            "--format", help="The file's form: kafka (Kafka's bytes) or json (a line for each record)."
        ),
    ] = "kafka",
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what groups have committed into a file, in the records of `__consumer_offsets`.

    With --whole it is every record of classic and consumer groups: of the tier's partitions, or of the
    `__consumer_offsets` of another Kafka.
    """
    from cluster.kafka_records.dump import FORMATS, write_dump

    left_out: Counter[int] = Counter()

    async def work(kafka: Kafka) -> list[KafkaRecord]:
        from cluster.groups.transfer import export_committed

        return await export_committed(kafka, await named_groups(kafka, group, all_groups=all_groups))

    with errors():
        if form not in FORMATS:
            raise TierError(f"--format {form}: {' or '.join(FORMATS)} is expected")
        if whole:
            if group or all_groups:
                raise TierError("--whole takes all groups: leave --group and --all-groups out")
            records = _whole(bootstrap, command_config, data_dir, left_out)
        else:
            records = with_kafka(bootstrap, command_config, data_dir, work)
        count = write_dump(file, records, form)
    if as_json:
        print_json({"file": str(file), "format": form, "records": count, "left_out": _plain(left_out)})
    else:
        typer.echo(f"{file} holds {count} records.{_left_out(left_out)}")
    if whole:
        leave()


def _whole(
    bootstrap: str | None, command_config: Path | None, data_dir: Path, left_out: Counter[int]
) -> list[KafkaRecord]:
    from cluster.cli.leaders import attached
    from cluster.groups import whole
    from cluster.groups.properties import names_bootstrap, properties
    from cluster.kafka_records.dump import latest

    if bootstrap is None and not names_bootstrap(command_config):
        return list(whole.records_of_tier(attached(data_dir), left_out))
    return latest(whole.records_of_topic(properties(bootstrap, command_config), left_out))


@commands.command(
    "import",
    epilog=examples(
        "groupd offsets import billing.offsets --dry-run",
        "groupd offsets import billing.offsets --bootstrap kafka:9092",
        "groupd offsets import old.dump --whole --skip-missing",
    ),
)
def import_(
    file: Annotated[Path, typer.Argument(help="What groupd offsets export, or Kafka's formatters, wrote.")],
    group: Annotated[list[str] | None, typer.Option(help="Import only this group.")] = None,
    whole: WholeOption = False,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out offsets of topics that are not there.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, write nothing.")] = False,
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: BootstrapOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Commit the offsets of a file for groups without members.

    Everything is checked before the first is committed. With --whole, into a tier: groups that are not there
    come with their generations and epochs too, without their members.
    """
    left_out: Counter[int] = Counter()
    with errors():
        from cluster.kafka_records.dump import latest, read_dump

        records = latest(read_dump(file, left_out))
        if whole:
            report = _import_whole(records, group, bootstrap, data_dir, (skip_missing, not dry_run))
        else:
            report = _import_committed(
                records, group, (bootstrap, command_config, data_dir), (skip_missing, not dry_run)
            )
    _show_import(report, left_out, dry_run=dry_run, as_json=as_json)
    if whole:
        leave()


def _import_committed(
    records: list[KafkaRecord],
    group: list[str] | None,
    where: tuple[str | None, Path | None, Path],
    how: tuple[bool, bool],
) -> Imported:
    from cluster.groups import transfer

    offsets = transfer.only(transfer.committed_in(records), group)
    skip_missing, is_executed = how

    async def work(kafka: Kafka) -> Imported:
        return await transfer.import_committed(
            kafka, offsets, skip_missing=skip_missing, is_executed=is_executed
        )

    bootstrap, command_config, data_dir = where
    return with_kafka(bootstrap, command_config, data_dir, work)


def _import_whole(
    records: list[KafkaRecord],
    group: list[str] | None,
    bootstrap: str | None,
    data_dir: Path,
    how: tuple[bool, bool],
) -> Imported:
    from cluster.cli.leaders import attached
    from cluster.groups.whole import import_whole

    if bootstrap is not None:
        raise TierError(
            "--whole goes into a tier, by --data-dir; another Kafka takes committed offsets alone"
        )
    if group:
        raise TierError("--whole takes all groups of the file: leave --group out")
    skip_missing, is_executed = how
    return import_whole(attached(data_dir), records, skip_missing=skip_missing, is_executed=is_executed)


def _show_import(report: Imported, left_out: Counter[int], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "groups": report.groups,
                "offsets": report.offsets,
                "missing": report.left_out,
                "left_out": _plain(left_out),
                "executed": not dry_run,
            }
        )
        return
    for text in report.left_out:
        typer.echo(f"left out: {text}", err=True)
    done = "would be imported" if dry_run else "are imported"
    typer.echo(f"{report.offsets} offsets of {report.groups} groups {done}.{_left_out(left_out)}")


def _left_out(left_out: Counter[int]) -> str:
    """Return how many records were none of classic or consumer groups, by type."""
    if not left_out:
        return ""
    kinds = ", ".join(f"{count} of type {kind}" for kind, count in sorted(left_out.items()))
    return f" Left out, as no records of classic or consumer groups: {kinds}."


def _plain(left_out: Counter[int]) -> dict[str, int]:
    return {str(kind): count for kind, count in sorted(left_out.items())}
