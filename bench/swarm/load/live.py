"""Serves a running swarm's figures to Prometheus (`--metrics-port`). SEARCH.md names and explains them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from bench.swarm.planning.felt import Active, Planned, Written
from bench.swarm.planning.plan import Plan
from bench.swarm.rows import tally
from bench.swarm.rows.second import Second
from bench.swarm.rows.tally import BOUNDS_MS, NOTHING, Tally
from bench.swarm.wire.clock import now_us

PREFIX: Final = "groupd_swarm_"
HOST: Final = "127.0.0.1"
_BOUNDS: Final = (*(f"{bound_ms / 1e3:g}" for bound_ms in BOUNDS_MS), "+Inf")


class Live(Collector):
    """Serves the metrics of a swarm. It is a context manager, and called with every second of the swarm."""

    def __init__(self, port: int, plan: Plan, directory: Path, bootstrap: str) -> None:
        """Listen on a port. Raises OSError, which names the port."""
        self._guard = threading.Lock()
        self._about = {"scenario": plan.scenario, "seed": str(plan.seed), "bootstrap": bootstrap}
        self._planned = Planned(plan.actions)
        self._written = Written(directory)
        self._apis: dict[str, Tally] = {}
        self._second: Second | None = None
        self._active: dict[Active, bool] = {}
        self._begun: Counter[str] = Counter()
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, HOST, registry)
        except OSError as error:
            raise OSError(f"--metrics-port {port}: {error.strerror or error}") from None

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __call__(self, second: Second) -> None:
        active = self._planned.at(second.at_s) | self._written.at(now_us())
        with self._guard:
            self._second = second
            for api, counts in tally.read(second.apis).items():
                self._apis[api] = self._apis.get(api, NOTHING).plus(counts)
            # A fault that was active a second ago is shown as over once, then no more: targets come and go.
            over = dict.fromkeys((each for each, is_active in self._active.items() if is_active), False)
            self._active = over | dict.fromkeys(active, True)
            self._begun = self._planned.begun + self._written.begun

    def collect(self) -> Iterator[Metric]:
        """Collect the metrics for a scrape, which has a thread of its own."""
        with self._guard:
            yield InfoMetricFamily(f"{PREFIX}run", "What runs, and where.", self._about)
            yield from self._faults()
            if self._second is not None:
                yield from self._requests()
                yield from self._gauges(self._second)

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            f"{PREFIX}requests", "Requests that have ended, by API.", labels=["api"]
        )
        errors = CounterMetricFamily(
            f"{PREFIX}errors",
            "Of these, refused with an error that is no mere news, or not answered.",
            labels=["api"],
        )
        took = HistogramMetricFamily(
            f"{PREFIX}request_seconds", "How long those took that were served, by API.", labels=["api"]
        )
        for api, counts in sorted(self._apis.items()):
            requests.add_metric([api], counts.requests)
            errors.add_metric([api], counts.errors)
            took.add_metric([api], _cumulated(counts.buckets), counts.took_ms / 1e3)
        yield from (requests, errors, took)

    def _gauges(self, second: Second) -> Iterator[Metric]:
        yield CounterMetricFamily(f"{PREFIX}commits", "OffsetCommits that were acknowledged.", second.commits)
        yield CounterMetricFamily(
            f"{PREFIX}partitions_moved",
            "Partitions that members of started groups were given.",
            second.moved_partitions,
        )
        yield _gauge("elapsed_seconds", "Since the swarm's start.", second.at_s)
        yield _gauge("groups", "Groups of the plan.", second.groups)
        yield _gauge(
            "groups_stable", "Groups at rest: all of their members at one epoch.", second.groups_stable
        )
        yield _gauge(
            "groups_without_coordinator",
            "Groups of which a member owns partitions and cannot reach its coordinator.",
            second.groups_without_coordinator,
        )
        members = GaugeMetricFamily(f"{PREFIX}members", "Members, by state.", labels=["state"])
        for state, count in sorted(second.members_by_state.items()):
            members.add_metric([state], count)
        yield members
        busy = GaugeMetricFamily(
            f"{PREFIX}process_busy_ratio", "Share of a core, by process of the swarm.", labels=["process"]
        )
        for process, share in sorted(second.busy.items()):
            busy.add_metric([process], share)
        yield busy

    def _faults(self) -> Iterator[Metric]:
        active = GaugeMetricFamily(
            f"{PREFIX}fault_active", "1 while a fault lasts, then 0 once.", labels=["kind", "target"]
        )
        for (kind, target), is_active in sorted(self._active.items()):
            active.add_metric([kind, target], is_active)
        begun = CounterMetricFamily(f"{PREFIX}faults", "Faults that have begun, by kind.", labels=["kind"])
        for kind, count in sorted(self._begun.items()):
            begun.add_metric([kind], count)
        yield from (active, begun)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, about, value)


def _cumulated(buckets: tuple[int, ...]) -> list[tuple[str, float]]:
    total = 0
    found: list[tuple[str, float]] = []
    for bound, count in zip(_BOUNDS, buckets, strict=True):
        total += count
        found.append((bound, total))
    return found
