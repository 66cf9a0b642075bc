"""Work 9: a day's work, which is what tiers have most of: thousands of members that beat and commit now and
then, as `ten-thousand` has them. All processes of the server count; the members are on the same machine."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from bench.peers.options import Failed, Options
from bench.peers.peer import CpuClock, Peer
from bench.peers.plan import Sample, Scenario, saturated
from bench.swarm.load.driver import Launch, run_swarm
from bench.swarm.planning import scenario
from bench.swarm.planning.plan import Plan
from bench.swarm.planning.scenario import Changes
from bench.swarm.rows.second import Second

SIZES: Final = (3_000, 10_000)
"""The numbers of members."""
SETTLED_S: Final = 165.0
"""When the figures begin, after the swarm's first second: members join for 120 s, and a JVM is warm."""
SECONDS: Final = 120.0
QUICK: Final = (30, 12.0, 6.0)
"""The members of a quick run, when its figures begin, and for how long."""
SEED: Final = 7


def scenarios(options: Options) -> list[Scenario]:
    """The scenarios: one for each number of members."""
    sizes = [(members, SETTLED_S, SECONDS) for members in SIZES]
    return [
        Scenario(
            work=9,
            heading="A day's work",
            label=f"{members:,} members",
            measure=partial(_measure, members, settled_s, seconds),
            shown=("core", "cpu_us"),
        )
        for members, settled_s, seconds in ([QUICK] if options.quick else sizes)
    ]


def _measure(members: int, settled_s: float, seconds: float, peer: Peer) -> Sample:
    peer.needs_groups()
    day = Day(peer, settled_s)
    bootstrap = ",".join(f"{host}:{port}" for host, port in peer.bootstrap)
    with tempfile.TemporaryDirectory(prefix="groupd-day-") as directory:
        plan = _plan(members, settled_s + seconds, is_quick=peer.options.quick)
        run_swarm(plan, bootstrap, Path(directory), Launch(cleans_up=True, is_whole=True), on_second=day)
    return day.sample(seconds)


def _plan(members: int, duration_s: float, *, is_quick: bool) -> Plan:
    chosen = scenario.load("ten-thousand").scaled(members=members).changed(Changes(duration_s=duration_s))
    if is_quick:
        at_once = tuple(table.model_copy(update={"shapes": ()}) for table in chosen.groups)
        chosen = chosen.model_copy(update={"groups": at_once})
    return chosen.plan(SEED, prefix="day-")


class Day:
    """The figures of a swarm from the second on in which all of its groups have settled."""

    def __init__(self, peer: Peer, settled_s: float) -> None:
        self._peer = peer
        self._settled_s = settled_s
        self._clock: CpuClock | None = None
        self._first: Second | None = None
        self._last: Second | None = None
        self._cpu_s = 0.0
        self._busy = 0.0

    def __call__(self, second: Second) -> None:
        """Take a second of the swarm. Raises Failed if the swarm has not settled when its figures begin."""
        if second.at_s < self._settled_s:
            return
        if self._first is None or self._clock is None:
            if second.groups_stable < second.groups or not second.groups:
                settled = f"{second.groups_stable:,} of {second.groups:,} groups"
                raise Failed(f"after {second.at_s:.0f} s only {settled} had settled")
            self._first, self._clock = second, CpuClock(self._peer.pids())
            return
        if second.groups_stable < second.groups:
            return  # the members of a run that ends leave
        self._last, self._cpu_s = second, self._clock.seconds()
        self._busy = max(self._busy, *second.busy.values(), 0.0)

    def sample(self, seconds: float) -> Sample:
        """Return what the seconds gave. Raises Failed if they do not say what a day costs."""
        first, last = self._first, self._last
        if first is None or last is None or last.at_s - first.at_s < seconds / 2:
            raise Failed("the swarm ended before its figures were there")
        errors, requests = last.errors - first.errors, last.requests - first.requests
        if errors or not requests:
            raise Failed(f"{errors:,} of {requests:,} requests failed")
        took_s = last.at_s - first.at_s
        return Sample(
            figures={
                "core": self._cpu_s / took_s * 100,
                "cpu_us": self._cpu_s / requests * 1e6,
                "per_s": requests / took_s,
            },
            requests=requests,
            generator_share=self._busy,
            load_s=took_s,
            marks=saturated(self._busy),
        )
