"""Puts a load on a peer: generator processes run in step, and the CPU of the server's processes is measured
meanwhile."""

from __future__ import annotations

import base64
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from bench.peers.generators import Generators
from bench.peers.options import Failed
from bench.peers.peer import CpuClock, Peer
from bench.peers.plan import BEHIND, Sample, saturated

RAMP_S: Final = 0.3
"""How long every run goes on before anything counts."""
BEHIND_BELOW: Final = 0.95
CONNECTIONS_EACH: Final = 2_500
"""How many connections one generator has at most."""
RISES: Final = 0x5249_5345_5F4D_414B
"""A number that stands for one that rises (`Target.risen`)."""


class Rising(NamedTuple):
    """Where a frame has numbers of eight bytes that are higher in each request: where the first one begins,
    how far it is to the next, and how many there are."""

    first: int
    stride: int
    numbers: int


class Target(NamedTuple):
    """A connection and the requests that it sends in turn; `api` and `version` say how its answers are
    read."""

    host: str
    port: int
    api: str
    version: int
    frames: Sequence[bytes]
    opening: Sequence[bytes] = ()
    """Requests that are sent once, before all others; nobody looks at their answers."""
    rising: Rising | None = None
    """The numbers of the only request that rise, over all connections; None: none do."""

    @property
    def risen(self) -> Target:
        """The same with all numbers rising that are RISES now: as the offsets do of consumers that read."""
        (frame,) = self.frames
        mark = RISES.to_bytes(8, "big")
        first, count = frame.index(mark), frame.count(mark)
        stride = frame.index(mark, first + 8) - first if count > 1 else 8
        assert frame[first : first + stride * count : stride] == mark[:1] * count
        return self._replace(rising=Rising(first, stride, count))


class Pace(NamedTuple):
    """How a load goes."""

    seconds: float
    """How long it counts."""
    rate: float | None = None
    """How many requests per second go over all targets; None: a closed loop."""
    ramp_s: float = RAMP_S
    """How long it goes on before it counts."""


class Driven(NamedTuple):
    """What a load came to."""

    told: list[dict[str, Any]]
    """What each generator tells."""
    cpu_s: dict[int, float]
    """The CPU of each of the servers' processes."""
    machine_s: float
    """The CPU of the whole machine."""

    def foreign_s(self, seconds: float) -> float:
        """The CPU that was neither the servers' nor the generators'."""
        generators = float(sum(each["share"] for each in self.told)) * seconds
        return max(0.0, self.machine_s - sum(self.cpu_s.values()) - generators)


class Servers(NamedTuple):
    """The processes whose CPU counts: all of them, and those that run the server's own code."""

    pids: Sequence[int]
    own_pids: Sequence[int]


def run(peer: Peer, targets: Sequence[Target], seconds: float, rate: float | None = None) -> Sample:
    """Run a closed loop, or `rate` requests per second over all targets. Raises Failed if an answer has an
    error."""
    servers = Servers(peer.pids(), peer.own_pids())
    return drive(peer.generators, servers, targets, seconds, rate)


def drive(
    generators: Generators,
    servers: Servers,
    targets: Sequence[Target],
    seconds: float,
    rate: float | None = None,
) -> Sample:
    """Run a load on servers that are no peer."""
    pace = Pace(seconds, rate)
    driven = drive_at(pace, generators, servers.pids, targets)
    return _sample(driven, pace, frozenset(servers.own_pids))


def drive_at(
    pace: Pace,
    generators: Generators,
    pids: Sequence[int],
    targets: Sequence[Target],
    at_its_ends: Callable[[], object] = lambda: None,
) -> Driven:
    """Run a load, and look at the CPU of these processes meanwhile. `at_its_ends` is called when it begins to
    count, and when it no longer does. Raises Failed if an answer has an error, or there is none."""
    try:
        driven = _drive(pace, generators, pids, targets, at_its_ends)
    except BaseException:
        generators.close()
        raise
    requests, errors = (sum(each[what] for each in driven.told) for what in ("requests", "errors"))
    if errors:
        raise Failed(f"{errors:,} of {requests:,} answers carried an error")
    if not requests:
        raise Failed("nothing was answered")
    return driven


def _drive(
    pace: Pace,
    generators: Generators,
    pids: Sequence[int],
    targets: Sequence[Target],
    at_its_ends: Callable[[], object],
) -> Driven:
    count = 1 + (len(targets) - 1) // CONNECTIONS_EACH
    shares = [targets[number::count] for number in range(count)]
    running = generators.take(count)
    for generator, share in zip(running, shares, strict=True):
        generator.tell({"targets": [_plain(target) for target in share], "rate": _each(pace.rate, count)})
    for generator in running:
        generator.hear()
    start = time.monotonic() + pace.ramp_s
    for generator in running:
        generator.tell({"from": start, "until": start + pace.seconds})
    _wait_until(start)
    clock = CpuClock(pids)
    at_its_ends()
    _wait_until(start + pace.seconds)
    cpu_s, machine_s = clock.by_pid(), clock.machine_seconds()
    at_its_ends()
    return Driven([generator.hear() for generator in running], cpu_s, machine_s)


def _sample(driven: Driven, pace: Pace, own: frozenset[int]) -> Sample:
    told, (seconds, rate, ramp_s) = driven.told, pace
    requests = sum(each["requests"] for each in told)
    latencies = sorted(us for each in told for us in each["latencies_us"])
    share = max(each["share"] for each in told)
    is_behind = rate is not None and requests < BEHIND_BELOW * rate * seconds
    own_s = sum(driven.cpu_s[pid] for pid in driven.cpu_s if pid in own)
    figures = {
        "cpu_us": sum(driven.cpu_s.values()) / requests * 1e6,
        "own_cpu_us": own_s / requests * 1e6,
        "per_s": requests / seconds,
        "p50_ms": statistics.median(latencies) / 1000,
        "p99_ms": latencies[len(latencies) * 99 // 100] / 1000,
    }
    return Sample(
        figures=figures,
        requests=requests,
        generator_share=share,
        load_s=ramp_s + seconds,
        foreign=driven.foreign_s(seconds) / seconds / (os.cpu_count() or 1),
        marks=saturated(share) | frozenset({BEHIND} if is_behind else ()),
    )


def _plain(target: Target) -> list[Any]:
    frames, opening = (
        [base64.b64encode(frame).decode() for frame in some] for some in (target.frames, target.opening)
    )
    return [*target[:4], frames, opening, target.rising]


def _each(rate: float | None, count: int) -> float | None:
    return None if rate is None else rate / count


def _wait_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))
