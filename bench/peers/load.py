"""Puts a load on a peer: generator processes run in step, and the CPU of the server's processes is measured
meanwhile."""

from __future__ import annotations

import base64
import os
import statistics
import time
from collections.abc import Sequence
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


class Target(NamedTuple):
    """A connection and the requests that it sends in turn; `api` and `version` say how its answers are
    read."""

    host: str
    port: int
    api: str
    version: int
    frames: Sequence[bytes]


class Cpu(NamedTuple):
    """The CPU seconds within one window: of the server's processes, of those that run its own code, and of
    the machine."""

    server: float
    own: float
    machine: float


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
    try:
        told, cpu = _drive(generators, servers, targets, seconds, rate)
    except BaseException:
        generators.close()
        raise
    return _sample(told, seconds, rate, cpu)


def _drive(
    generators: Generators,
    servers: Servers,
    targets: Sequence[Target],
    seconds: float,
    rate: float | None,
) -> tuple[list[dict[str, Any]], Cpu]:
    count = 1 + (len(targets) - 1) // CONNECTIONS_EACH
    shares = [targets[number::count] for number in range(count)]
    running = generators.take(count)
    for generator, share in zip(running, shares, strict=True):
        generator.tell({"targets": [_plain(target) for target in share], "rate": _each(rate, count)})
    for generator in running:
        generator.hear()
    start = time.monotonic() + RAMP_S
    for generator in running:
        generator.tell({"from": start, "until": start + seconds})
    _wait_until(start)
    clock = CpuClock(servers.pids)
    _wait_until(start + seconds)
    cpu = clock.by_pid()
    machine_s = clock.machine_seconds()
    own = set(servers.own_pids)
    own_s = sum(cpu[pid] for pid in cpu if pid in own)
    return [generator.hear() for generator in running], Cpu(sum(cpu.values()), own_s, machine_s)


def _sample(told: list[dict[str, Any]], seconds: float, rate: float | None, cpu_s: Cpu) -> Sample:
    requests = sum(each["requests"] for each in told)
    errors = sum(each["errors"] for each in told)
    if errors:
        raise Failed(f"{errors:,} of {requests:,} answers carried an error")
    if not requests:
        raise Failed("nothing was answered")
    latencies = sorted(us for each in told for us in each["latencies_us"])
    share = max(each["share"] for each in told)
    is_behind = rate is not None and requests < BEHIND_BELOW * rate * seconds
    figures = {
        "cpu_us": cpu_s.server / requests * 1e6,
        "own_cpu_us": cpu_s.own / requests * 1e6,
        "per_s": requests / seconds,
        "p50_ms": statistics.median(latencies) / 1000,
        "p99_ms": latencies[len(latencies) * 99 // 100] / 1000,
    }
    foreign_s = cpu_s.machine - cpu_s.server - sum(each["share"] for each in told) * seconds
    return Sample(
        figures=figures,
        requests=requests,
        generator_share=share,
        load_s=RAMP_S + seconds,
        foreign=max(0.0, foreign_s / seconds / (os.cpu_count() or 1)),
        marks=saturated(share) | frozenset({BEHIND} if is_behind else ()),
    )


def _plain(target: Target) -> list[Any]:
    frames = [base64.b64encode(frame).decode() for frame in target.frames]
    return [target.host, target.port, target.api, target.version, frames]


def _each(rate: float | None, count: int) -> float | None:
    return None if rate is None else rate / count


def _wait_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))
