"""`groupd backup` and `groupd restore`: offsets, groups and topics of a running tier, out and in again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from cluster import backup as taking
from cluster import backup_manifest
from cluster import restore as restoring
from cluster.backup_manifest import Manifest, Progress
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
from cluster.cli.leaders import attached
from cluster.cli.reach import NodeOption, reach
from cluster.cli.tables import Table
from cluster.restore import Report

LEFT_OUT = (
    "Restored groups are empty: their offsets, generations and epochs are kept, their members join anew. "
    "Messages are in no backup: restored topics are empty and begin at the highest offset committed for them."
)


def register(app: typer.Typer) -> None:
    app.command("backup", epilog=examples("groupd backup monday", "groupd backup /backups/1 --json"))(backup)
    app.command(
        "restore", epilog=examples("groupd up --data-dir new", "groupd restore monday --data-dir new")
    )(restore)


def backup(
    directory: Annotated[
        Path, typer.Argument(help="The directory to make; it must not exist.", metavar="DIR")
    ],
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    bootstrap: NodeOption = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy what a running tier has committed into a new directory.

    Topics, groups, offsets and all configs, those of nodes among them, are copied, each partition as of one
    commit index; messages are not. Nothing is stopped. If a partition has no leader, nothing is written.
    """
    with errors(), _shown(as_json) as progress:
        leaders = reach(data_dir, bootstrap, command_config).leaders
        manifest = taking.take(leaders, directory, progress)
    if as_json:
        print_json({"directory": str(directory.resolve()), **backup_manifest.plain(manifest)})
    else:
        _show_backup(directory, manifest)
    leave()


def restore(
    directory: Annotated[Path, typer.Argument(help="A directory made by groupd backup.", metavar="DIR")],
    data_dir: DataDirOption = DATA_DIR_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Bring a backup into a running tier that has no topics and no groups.

    The tier may have another number of partitions. Restored groups are empty: offsets, generations and epochs
    are kept, members are not. Let clients come when this has ended.
    """
    with errors(), _shown(as_json) as progress:
        # Damage is told even if no tier runs.
        backup_manifest.read(directory)
        report = restoring.restore(attached(data_dir), directory, progress)
    if as_json:
        print_json(
            {
                "directory": str(directory.resolve()),
                "backup_of": report.manifest.tier_id,
                "topics": report.topics,
                "groups": report.groups,
                "records": report.records,
                "records_in_backup": report.manifest.records,
                "transactional_ids": report.transactional_ids,
                "member_records_left_out": report.members_left_out,
                "offsets_of_deleted_topics_left_out": report.offsets_left_out,
                "nodes_left_out": report.nodes_left_out,
                "verified": True,
            }
        )
    else:
        _show_restored(report)
    leave()


@contextmanager
def _shown(as_json: bool) -> Iterator[Progress]:
    """Show a progress bar that goes away; show nothing if nobody looks."""
    if as_json or not console.is_terminal:
        yield lambda *_: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _show_backup(directory: Path, manifest: Manifest) -> None:
    table = Table("file", "records", "bytes", "commit index", "term")
    for header in manifest.files:
        cells = (header.records, header.file_bytes, header.commit_index, header.term)
        table.add_row(header.file_name, *(str(cell) for cell in cells))
    console.print(table)
    typer.echo(f"{directory} holds {manifest.records} records of tier {manifest.tier_id}.")


def _show_restored(report: Report) -> None:
    table = Table("partition", "records")
    for partition, records in enumerate(report.records):
        table.add_row(str(partition), str(records))
    console.print(table)
    typer.echo(
        f"{report.topics} topics, {report.groups} groups and {report.transactional_ids} transactional ids "
        "are restored and were read back: of "
        f"{report.manifest.records} records, {sum(report.records)} of groups; {report.members_left_out} of "
        f"members and {report.offsets_left_out} offsets of deleted topics are left out."
    )
    if report.nodes_left_out:
        typer.echo(f"Settings of nodes that are not here are left out: {', '.join(report.nodes_left_out)}.")
    typer.echo(LEFT_OUT)
