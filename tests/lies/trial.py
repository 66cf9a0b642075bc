"""One swarm that is lied to, and what the judge made of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.ground.throwaway import Tier
from bench.swarm.load.driver import run_swarm
from bench.swarm.told.report import report
from storage.history.judge.findings import Limits
from storage.history.judge.verdict import Verdict
from tests.lies import server_history, stages
from tests.lies.catalogue import LIES
from tests.lies.proxy import Address, LyingProxy
from tests.lies.server_history import Said
from tests.polling import until

RECOVERY_MS: Final = 4_000
"""The time within which a swarm of some seconds has to be stable again."""
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
    "history.segment.ms": server_history.SEGMENT_MS,
}
"""Settings of the tier that serves the swarms that are lied to: what takes minutes elsewhere takes
seconds."""
OUTAGE_MS: Final = 6_000
"""A group that was without service for longer at its end was out of service."""
JOBS: Final = 5
"""How many swarms run at once."""
FLUSHED_S: Final = 30.0


class Trial(NamedTuple):
    """A swarm that was told one lie, and the verdict about it."""

    name: str
    told: dict[str, int]
    """How often what was done; empty: there was no lie."""
    verdict: Verdict
    words: tuple[str, ...]
    """The lines that the report has above the verdict."""
    errors: tuple[str, ...]
    """The errors that the proxy itself met."""

    @property
    def promise(self) -> str:
        """The expected promise, and what became of it: status and reason."""
        expected = LIES[self.name].expected
        (found,) = (each for each in self.verdict.promises if each.name == expected.promise)
        return f"{found.name} {found.status}: {found.because}"

    @property
    def is_caught(self) -> bool:
        """The swarm says of the right promise what was to be said."""
        expected = LIES[self.name].expected
        (found,) = (each for each in self.verdict.promises if each.name == expected.promise)
        if found.status != expected.status or self.verdict.is_fine:
            return False
        rules = " ".join((*self.verdict.by_rule, found.because))
        return expected.words in rules


def prefix_of(name: str) -> str:
    """Return how the names of a lie's groups begin, such as "swallows-commits-"."""
    return "-".join(re.findall("[A-Z][a-z]*", name)).lower() + "-"


def tell(name: str, brokers: Sequence[Address], directory: Path) -> Trial:
    """Run a swarm of this lie's through a proxy that tells it, and judge it."""
    lie = LIES[name]()
    prefix = prefix_of(name)
    plan = stages.plan(lie.stage, prefix)
    with LyingProxy(brokers, lie, prefix) as proxy:
        run_swarm(plan, proxy.bootstrap, directory)
    outcome = report(directory, limits=Limits(recovery_ms=RECOVERY_MS, outage_ms=OUTAGE_MS))
    return Trial(name, dict(lie.told), outcome.verdict, outcome.lines, tuple(proxy.errors))


def tell_all(
    names: Iterable[str], brokers: Sequence[Address], directory: Path, jobs: int = JOBS
) -> Iterator[Trial]:
    """Several at once, as they end; the longest begin first."""
    order = sorted(names, key=lambda name: -stages.plan(LIES[name].stage, "").duration_s)
    with ThreadPoolExecutor(jobs) as pool:
        works = [pool.submit(tell, name, brokers, directory / name) for name in order]
        for work in as_completed(works):
            yield work.result()


@contextmanager
def tier() -> Iterator[Tier]:
    """A tier of one node that serves all swarms that are lied to."""
    flags = [flag for name, value in SETTINGS.items() for flag in ("--set", f"{name}={value}")]
    with Tier("--nodes", "1", "--replicas", "1", *flags, nodes=1) as running:
        yield running


def brokers_of(running: Tier) -> list[Address]:
    return [("127.0.0.1", running.port)]


def server_says(running: Tier, names: Iterable[str]) -> dict[str, Said]:
    """Return what the tier's history says of each lie's groups, once all that is expected is written."""
    wanted = {name: prefix_of(name) for name in names}
    folder = server_history.folder_of(running.data_dir)
    said: dict[str, Said] = {}

    def is_written() -> bool:
        found = server_history.read(folder, wanted.values())
        said.update({name: found[prefix] for name, prefix in wanted.items()})
        return all(said[name].fits(LIES[name].expected.server) for name in wanted)

    late_at = time.monotonic() + FLUSHED_S
    until(lambda: is_written() or time.monotonic() > late_at, "the history is read", 2 * FLUSHED_S)
    return said
