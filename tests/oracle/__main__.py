"""`python -m tests.oracle`: record what Kafka says, replay against any server, run both in lockstep."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.oracle import rows, servers
from tests.oracle.generator.choosing import KINDS
from tests.oracle.generator.running import Generator
from tests.oracle.play import Address
from tests.oracle.profiles import PROFILES
from tests.oracle.registry import Transcript, chosen
from tests.oracle.run import as_text, difference, golden_path, is_whole, read_golden, run, told, write_golden


def main() -> int:
    arguments = _parser().parse_args()
    return int(arguments.command(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, command, text in (
        ("record", record, "ask a real Kafka and write the golden files"),
        ("replay", replay, "play against a server and compare with the golden files"),
        ("list", show, "the transcripts, their rows and profiles"),
    ):
        sub = commands.add_parser(name, help=text)
        sub.add_argument("names", nargs="*", help="parts of transcripts' names; all when there are none")
        sub.add_argument("--bootstrap", help="a running server; the profile's own one is started without it")
        sub.add_argument("-v", "--verbose", action="store_true", help="print what was said")
        sub.add_argument("--brief", action="store_true", help="of a difference only what differs")
        sub.set_defaults(command=command)
    sub = commands.add_parser("rows", help="which tests prove which rule")
    sub.add_argument("--markdown", action="store_true", help="the whole table, not only what is missing")
    sub.set_defaults(command=show_rows)
    sub = commands.add_parser("generate", help="random sequences against a real Kafka and a tier")
    sub.add_argument("--seeds", type=int, default=100)
    sub.add_argument("--from", dest="first", type=int, default=0)
    sub.add_argument("--operations", type=int, default=40, help="of each seed")
    sub.add_argument("--kinds", default=",".join(KINDS), help="of groups, in turn")
    sub.add_argument("--jobs", type=int, default=4, help="sequences at a time")
    sub.add_argument("--keep", help="of one seed's operations, only these indexes")
    sub.add_argument("--profile", default="base")
    sub.add_argument("--bootstrap", help="a running tier; one is started without it")
    sub.add_argument("--against", help="a running Kafka; one is started without it")
    sub.set_defaults(command=generate)
    return parser


def _grouped(transcripts: list[Transcript]) -> dict[str, list[Transcript]]:
    found: dict[str, list[Transcript]] = {}
    for transcript in transcripts:
        found.setdefault(transcript.profile, []).append(transcript)
    return found


@contextmanager
def _server(kind: str, profile: str, bootstrap: str | None) -> Iterator[Address]:
    if bootstrap is not None:
        server = Address.of(kind, bootstrap, PROFILES[profile].login)
        servers.wait_until_ready(server)
        yield server
        return
    with (servers.kafka if kind == "kafka" else servers.tier)(profile) as server:
        yield server


def record(arguments: argparse.Namespace) -> int:
    """Refuses what did not come to its end, and what another run answers differently."""
    failed = 0
    for profile, transcripts in _grouped(chosen(arguments.names)).items():
        with _server("kafka", profile, arguments.bootstrap) as server:
            for transcript in transcripts:
                failed += not _recorded(transcript, server, arguments.verbose)
    return 1 if failed else 0


def _recorded(transcript: Transcript, server: Address, verbose: bool) -> bool:
    steps, again = run(transcript, server), run(transcript, server)
    unsteady = difference(transcript, steps, again, ("first run", "second run"))
    if not is_whole(steps) or unsteady:
        print(f"NOT RECORDED {transcript.name}\n{unsteady or as_text(steps)}")
        return False
    changed = read_golden(transcript) != steps
    if changed:
        write_golden(transcript, steps)
    print(f"{'recorded ' if changed else 'unchanged'} {transcript.name}")
    if verbose:
        print(as_text(steps))
    return True


def replay(arguments: argparse.Namespace) -> int:
    failed = 0
    for profile, transcripts in _grouped(chosen(arguments.names)).items():
        with _server("groupd", profile, arguments.bootstrap) as server:
            for transcript in transcripts:
                failed += not _replayed(transcript, server, arguments)
    return 1 if failed else 0


def _replayed(transcript: Transcript, server: Address, arguments: argparse.Namespace) -> bool:
    golden, steps = read_golden(transcript), run(transcript, server)
    if arguments.verbose:
        print(as_text(steps))
    if golden is None:
        print(f"NO GOLDEN {golden_path(transcript)}: record it first")
        return False
    found = difference(transcript, golden, steps, ("kafka", server.name), brief=arguments.brief)
    print(f"DIFFERS {found}\n" if found else f"equal   {transcript.name}")
    return found is None


def show_rows(arguments: argparse.Namespace) -> int:
    """Exit code 1 when a rule has no test."""
    missing = rows.unproved()
    if arguments.markdown:
        print(rows.markdown(), end="")
    else:
        print(f"{len(rows.rules()) - len(missing)} of {len(rows.rules())} rules have tests")
        for row in missing:
            print(f"without: {row}, {rows.rules()[row].says}")
    return 1 if missing else 0


def generate(arguments: argparse.Namespace) -> int:
    """Exit code 1 when there was a difference that is not explained."""
    with (
        _server("kafka", arguments.profile, arguments.against) as kafka,
        _server("groupd", arguments.profile, arguments.bootstrap) as ours,
    ):
        generator = Generator(kafka, ours, arguments.operations, arguments.kinds.split(","))
        if arguments.keep is not None:
            keep = [int(index) for index in arguments.keep.split(",")]
            outcome = generator.play(arguments.first, keep)
            last = len(outcome.steps[1]) - 1
            print("\n".join(told(*outcome.steps, last, ("kafka", "groupd"))))
            return int(outcome.differs)
        tally = generator.run(range(arguments.first, arguments.first + arguments.seeds), arguments.jobs)
    print(f"{tally.seeds} seeds, {tally.operations} operations, {len(tally.differences)} differences")
    for kind, (seeds, operations) in sorted(tally.by_kind.items()):
        print(f"{kind}: {seeds} seeds, {operations} operations")
    print(f"{tally.unsteady} came once and not again")
    for reason, times in tally.explained.most_common():
        print(f"{times} times explained: {reason}")
    return 1 if tally.differences else 0


def show(arguments: argparse.Namespace) -> int:
    for transcript in chosen(arguments.names):
        state = "recorded" if golden_path(transcript).exists() else "NOT RECORDED"
        print(f"{transcript.name:60} {transcript.profile:8} {state:12} {' '.join(transcript.rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
