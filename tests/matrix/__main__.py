"""`python -m tests.matrix` runs every cell; with `--markdown` it writes what it found to CLIENTS.md."""

from __future__ import annotations

import argparse
import queue
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

from bench.ground.throwaway import Tier
from tests.matrix.attached import attached
from tests.matrix.cell import OFFSETS_PARTITIONS, TIER_FLAGS, Cell, Elsewhere, Servers
from tests.matrix.clients import CLIENTS, Client
from tests.matrix.page import Outcome, load, record, table, updated, write
from tests.matrix.stories import STORIES, Story, live

_printing = threading.Lock()


def main() -> int:
    asked = _arguments()
    clients = [each for each in CLIENTS if _is_named(each.title, asked.client) and not _skipped(each)]
    if asked.unexcused:
        clients = [each.unexcused() for each in clients]
    stories = [each for each in STORIES if _is_named(each.name, asked.story)]
    for client in clients:
        client.command(), client.writer()  # build what must be built before anything is timed
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for partition in range(asked.jobs):
        free.put(partition)
    with _servers(asked) as tier, ThreadPoolExecutor(asked.jobs) as pool:
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
        recorded = record(datetime.now(UTC).date().isoformat(), clients, outcomes)
        print(table(recorded))
        if not (asked.bootstrap or asked.attached or asked.calm or asked.unexcused):
            write(updated(load(), recorded) if asked.client or asked.story else recorded)
    return 1 if broken else 0


@contextmanager
def _servers(asked: argparse.Namespace) -> Iterator[Servers]:
    if asked.bootstrap:
        yield Elsewhere(asked.bootstrap)
    elif asked.attached:
        with attached() as both:
            yield both
    else:
        with Tier(*TIER_FLAGS) as tier:
            yield tier


def outcome_of(tier: Servers, free: queue.SimpleQueue[int], told: tuple[Client, Story, bool]) -> Outcome:
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
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--attached", action="store_true", help="a tier in front of a real Kafka (JDK 17, mvn)"
    )
    where.add_argument("--bootstrap", help="another server's address, say a Kafka's; without the failovers")
    parser.add_argument("--unexcused", action="store_true", help="also what clients are excused from")
    parser.add_argument(
        "--jobs", type=int, default=3, choices=range(1, OFFSETS_PARTITIONS + 1), help="cells at a time"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table, and write it to CLIENTS.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
