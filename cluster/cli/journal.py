"""`groupd journal`: look into the journals and snapshots on this machine's disk, without changing them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import msgpack
import typer

from actors.ground.records import RECORD_TYPES as COORDINATOR_TYPES
from actors.metadata.shard import RECORD_TYPES as METADATA_TYPES
from actors.replica.log_level import READABLE_VERSIONS
from cluster.cli.common import EXIT_FAILED, JsonOption, console, examples, fail, print_json
from cluster.cli.tables import Table
from storage.raft import inspect as disk
from storage.raft.errors import REBUILD
from storage.raft.members import Members

BYTES_SHOWN = 16
RECORDS_LIMIT = 100

commands = typer.Typer(
    no_args_is_help=True,
    help="Look into journals and snapshots on disk.",
    rich_markup_mode="rich",
    epilog=examples(
        "groupd journal verify groupd-data", "groupd journal inspect groupd-data/node-1/controller-0"
    ),
)

DirectoryArgument = Annotated[
    Path,
    typer.Argument(
        help="The directory of a replica or of a node, or a whole data directory.",
        exists=True,
        file_okay=False,
    ),
]


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="journal")


@commands.callback()
def journal() -> None:
    """Look into journals and snapshots on disk."""


@commands.command(epilog=examples("groupd journal verify groupd-data", "groupd journal verify DIR --json"))
def verify(directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Check every byte of the replicas in a directory: exit code 0 if all are sound, 1 if not.

    One line per problem. Reads only, and takes no lock: replicas may run meanwhile.
    """
    with _readable(directory):
        reports = [disk.check(place) for place in _places(directory)]
    damaged = [report for report in reports if report.problems]
    if as_json:
        print_json([_plain(asdict(report)) for report in reports])
    else:
        for report in reports:
            for problem in report.problems:
                typer.echo(problem)
            for note in report.notes:
                typer.echo(f"note: {note}")
            if report.running_pid is not None:
                typer.echo(f"note: {report.path} seems to be in use by process {report.running_pid}")
        typer.echo(
            f"{len(damaged)} of {len(reports)} replicas damaged: {REBUILD}"
            if damaged
            else f"{len(reports)} replicas, all sound."
        )
    if damaged:
        raise typer.Exit(EXIT_FAILED)


@commands.command(
    epilog=examples(
        "groupd journal inspect groupd-data/node-1",
        "groupd journal inspect groupd-data/node-1/partition-0-0 --records --from 1000 --limit 20",
    )
)
def inspect(
    directory: DirectoryArgument,
    records: Annotated[bool, typer.Option("--records", help="List the records, in readable form.")] = False,
    from_index: Annotated[
        int, typer.Option("--from", help="The index of the first entry to list.", min=0)
    ] = 0,
    limit: Annotated[int, typer.Option(help="How many records are listed.", min=1)] = RECORDS_LIMIT,
    as_json: JsonOption = False,
) -> None:
    """Show segments, terms, votes, members, snapshot and damage of the replicas in a directory."""
    shown = []
    with _readable(directory):
        places = _places(directory)
        if records and len(places) > 1:
            fail(f"{directory} holds {len(places)} replicas: --records takes the directory of one")
        for place in places:
            report = disk.check(place)
            segments = [] if place.journal is None else list(disk.segments(place.journal))
            if not as_json:
                _show(report, segments)
            listed = _records(place, from_index, limit) if records else None
            if not as_json:
                for line in _lines(listed or ()):
                    typer.echo(line)
            shown.append(
                {
                    **_plain(asdict(report)),
                    "segments": [each if isinstance(each, str) else asdict(each) for each in segments],
                    **({} if listed is None else {"records": _plain([asdict(each) for each in listed])}),
                }
            )
    if as_json:
        print_json(shown)


@contextmanager
def _readable(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fail(f"{directory} cannot be read: {error}")


def _places(directory: Path) -> list[disk.Place]:
    return disk.places(str(directory)) or fail(f"{directory} holds no journal and no snapshot")


def _records(place: disk.Place, from_index: int, limit: int) -> list[disk.RecordView]:
    return [] if place.journal is None else list(disk.records(place.journal, from_index, limit, decode))


def decode(replica_id: str, command: bytes) -> dict[str, Any]:
    """Return what an entry of a coordinator or a controller says, as `actors/replica/replica.py` packs it.
    Raises ValueError."""
    types: Any = METADATA_TYPES if replica_id.startswith("controller") else COORDINATOR_TYPES
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(command)
    try:
        version, term = unpacker.unpack()
        if version not in READABLE_VERSIONS:
            raise ValueError(f"format version {version}, this release reads {sorted(READABLE_VERSIONS)}")
        return {"decided_in": term, "records": [_record(types, key, value) for key, value in unpacker]}
    except (msgpack.UnpackException, TypeError, IndexError) as error:
        raise ValueError(f"{len(command)} bytes that no replica packs: {error!r}") from None


def _record(types: Any, key: tuple[Any, ...], value: tuple[Any, ...] | None) -> dict[str, Any]:
    if key[0] not in types:
        return {"type": key[0], "key": key, "value": value}
    key_type, value_type = types[key[0]]
    named = key_type(*key)._asdict()
    del named["kind"]
    return {
        "type": value_type.__name__.removesuffix("Value"),
        "key": named,
        "value": None if value is None else value_type(*value)._asdict(),
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; bytes become hex."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


# -- text -------------------------------------------------------------------------------------------


def _show(report: disk.Report, segments: Iterable[disk.SegmentView | str]) -> None:
    console.print(f"[bold]{report.path}[/bold]")
    if report.identity is not None:
        console.print(f"replica {report.identity.replica_id} of tier {report.identity.tier_id}")
    if report.incarnation is not None:
        console.print(f"incarnation {report.incarnation}, founders {_members(report.founders)}")
    columns = ("segment", "format", "bytes", "entries", "first", "last", "terms", "term", "vote", "state")
    table = Table(*columns)
    for each in segments:
        if isinstance(each, disk.SegmentView):
            table.add_row(*_cells(each))
    console.print(table)
    snapshot = report.snapshot
    if snapshot is None:
        console.print("no snapshot")
    else:
        console.print(
            f"snapshot at entry {snapshot.index} of term {snapshot.term}, {snapshot.size_bytes:,} bytes, "
            f"members {_members(snapshot.members)}"
        )
    if report.running_pid is not None:
        console.print(f"seems to be in use by process {report.running_pid}")
    for problem in report.problems:
        console.print(f"damaged: {problem}", style="red", markup=False, soft_wrap=True)
    for note in report.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)


def _cells(segment: disk.SegmentView) -> tuple[str, ...]:
    terms = segment.terms
    span = "-" if not terms else str(terms[0]) if len(terms) == 1 else f"{terms[0]} to {terms[-1]}"
    cells = (
        segment.sequence,
        segment.version,
        f"{segment.size_bytes:,}",
        segment.entries,
        segment.first_index,
        segment.last_index,
        span,
        segment.term,
        segment.vote,
        segment.state,
    )
    return tuple("-" if cell is None else str(cell) for cell in cells)


def _members(members: Members | None) -> str:
    if members is None:
        return "unknown (format version 1)"
    named = (
        f"{each.member_id} on node {each.node_id}{'' if each.votes else ' (learns)'}" for each in members
    )
    return ", ".join(named) or "none"


def _lines(records: Iterable[disk.RecordView]) -> Iterator[str]:
    for record in records:
        head = f"{'-' if record.index is None else record.index:>10}  term {record.term}  "
        content = record.content
        if isinstance(content, dict) and "records" in content:
            for each in content["records"]:
                value = "deleted" if each["value"] is None else _text(each["value"])
                yield f"{head}{each['type']}  {_text(each['key'])}: {value}"
        else:
            yield head + record.kind + ("" if content is None else f"  {_text(content)}")


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_text(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bytes):
        more = f".. ({len(value)} bytes)" if len(value) > BYTES_SHOWN else ""
        return f"{value[:BYTES_SHOWN].hex()}{more}"
    return "-" if value is None else str(value)
