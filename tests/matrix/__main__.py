"""`python -m tests.matrix --markdown` runs every cell and writes the README's table."""

from __future__ import annotations

import argparse
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from bench.ground.throwaway import Tier
from cluster.child_process import ROOT
from tests.matrix.cell import OFFSETS_PARTITIONS, TIER_FLAGS, Cell, Elsewhere
from tests.matrix.clients import CLIENTS, Client
from tests.matrix.stories import STORIES, Story, live

BEGIN = "<!-- matrix -->"
END = "<!-- /matrix -->"
README = ROOT / "README.md"
_printing = threading.Lock()


class Outcome(NamedTuple):
    """Of one cell, undisturbed or with a failover in the middle."""

    client: Client
    story: Story
    fails_over: bool
    broken: str
    """"" if everything held."""
    seconds: float


def main() -> int:
    asked = _arguments()
    clients = [each for each in CLIENTS if _is_named(each.title, asked.client) and not _skipped(each)]
    if asked.unexcused:
        clients = [each.unexcused() for each in clients]
    stories = [each for each in STORIES if _is_named(each.name, asked.story)]
    for client in clients:
        client.command()  # build what must be built before anything is timed
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for partition in range(asked.jobs):
        free.put(partition)
    with _servers(asked.bootstrap) as tier, ThreadPoolExecutor(asked.jobs) as pool:
        running = [
            pool.submit(outcome_of, tier, free, (client, story, fails_over))
            for fails_over in ((False,) if asked.calm or asked.bootstrap else (False, True))
            for story in stories
            for client in clients
            if not story.why_not(client)
        ]
        outcomes = [future.result() for future in running]
    broken = [outcome for outcome in outcomes if outcome.broken]
    for outcome in broken:
        print(f"\n{_title(outcome)}\n{outcome.broken}")
    print(f"{len(outcomes) - len(broken)} of {len(outcomes)} cells are green")
    if asked.markdown:
        text = table(clients, stories, outcomes)
        print(text)
        if not (asked.client or asked.story or asked.bootstrap):
            write(text)
    return 1 if broken else 0


@contextmanager
def _servers(bootstrap: str | None) -> Iterator[Tier | Elsewhere]:
    if bootstrap:
        yield Elsewhere(bootstrap)
    else:
        with Tier(*TIER_FLAGS) as tier:
            yield tier


def outcome_of(
    tier: Tier | Elsewhere, free: queue.SimpleQueue[int], told: tuple[Client, Story, bool]
) -> Outcome:
    """Live one cell, in one of the `free` partitions of the offsets topic."""
    client, story, fails_over = told
    began_at, broken, partition = time.monotonic(), "", free.get()
    try:
        with Cell(tier, client, partition=partition, fails_over=fails_over, settings=story.settings) as cell:
            live(cell, story)
    except AssertionError as error:
        broken = str(error) or "an assertion failed"
    except Exception as error:
        broken = repr(error)
    finally:
        free.put(partition)
    outcome = Outcome(client, story, fails_over, broken, time.monotonic() - began_at)
    with _printing:
        print(f"{'BROKEN' if broken else 'green '}  {outcome.seconds:5.1f} s  {_title(outcome)}", flush=True)
    return outcome


def table(clients: Iterable[Client], stories: Iterable[Story], outcomes: Iterable[Outcome]) -> str:
    """Markdown: a row a client, a column a story."""
    by_cell: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        by_cell.setdefault((outcome.client.title, outcome.story.name), []).append(outcome)
    stories = list(stories)
    lines = [
        "| client | version | protocol | " + " | ".join(story.name for story in stories) + " |",
        "|---" * (3 + len(stories)) + "|",
    ]
    notes: dict[str, str] = {}
    for client in clients:
        cells = [_shown(client, story, by_cell, notes) for story in stories]
        lines.append(f"| {client.name} | {client.version()} | {client.protocol} | {' | '.join(cells)} |")
    lines += [f"\n{number} {why}" for why, number in notes.items()]
    return "\n".join(lines)


def write(text: str) -> None:
    """Put the table between the README's markers."""
    readme = README.read_text(encoding="utf-8")
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md has no {BEGIN} ... {END} to write between")
    day = datetime.now(UTC).date().isoformat()
    marks = "✓ undisturbed, ⚡ with the leader killed midway, ✗ broken"
    said = f"`python -m tests.matrix --markdown`, {day}: {marks}."
    README.write_text(f"{before}{BEGIN}\n{text}\n\n{said}\n{END}{after}", encoding="utf-8")


def _shown(
    client: Client, story: Story, by_cell: dict[tuple[str, str], list[Outcome]], notes: dict[str, str]
) -> str:
    why_not, eased = story.why_not(client), story.eased(client)
    note = notes.setdefault(why_not or eased, _raised(len(notes) + 1)) if why_not or eased else ""
    if why_not:
        return "-" + note
    marks = {False: "✓", True: "⚡"}
    found = by_cell.get((client.title, story.name), [])
    shown = " ".join("✗" if each.broken else marks[each.fails_over] for each in found) or "?"
    return shown + note


def _raised(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _title(outcome: Outcome) -> str:
    return f"{outcome.client.title}: {outcome.story.name}{', failover' if outcome.fails_over else ''}"


def _is_named(name: str, part: str | None) -> bool:
    return part is None or part in name


def _skipped(client: Client) -> bool:
    if client.missing:
        print(f"left out: {client.title}: {client.missing}")
    return bool(client.missing)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--client", help='only clients whose title has this in it ("Java, consumer")')
    parser.add_argument("--story", help="only stories whose name has this in it")
    parser.add_argument("--calm", action="store_true", help="without the failovers")
    parser.add_argument("--bootstrap", help="another server's address, say a Kafka's; without the failovers")
    parser.add_argument("--unexcused", action="store_true", help="also what clients are excused from")
    parser.add_argument(
        "--jobs", type=int, default=3, choices=range(1, OFFSETS_PARTITIONS + 1), help="cells at a time"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table; if whole, into the README")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
