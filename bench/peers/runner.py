"""Runs a comparison: every peer is started, warmed up, asked in turn, run by run, and stopped.

All peers of a scenario are up together, so that they are measured in the same minutes; only one is under load
at a time. An error costs the figures of one peer in one scenario: the peer is started anew for the next.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bench.ground.interrupts import deaf
from bench.peers.options import Options, Refused
from bench.peers.peer import Peer
from bench.peers.plan import Outcome, Sample, Scenario

Say = Callable[[str], None]
SETTLE_S: Final = 0.2
"""The pause between two runs, for what a peer still does after its answers."""
TOO_LONG_S: Final = 110.0
"""How long a run may last to be followed by another on that peer."""
STARTS_MAX: Final = 2
"""How often a peer is started in a row: it may have met a port that another program took meanwhile."""


class Runner:
    """Runs scenarios. It is a context manager, which stops all that it started. `outcomes` are those so far,
    `skipped` are peers that could not be started, or not again, and why; `progress` is called after each
    scenario."""

    def __init__(
        self, peers: Sequence[Peer], options: Options, say: Say, progress: Callable[[], object] = lambda: None
    ) -> None:
        self._peers = peers
        self._options = options
        self._say = say
        self._progress = progress
        self._up: set[str] = set()
        self._broken: set[str] = set()
        self._warm: dict[tuple[str, str], float] = {}
        self._too_slow: dict[tuple[str, str], str] = {}
        self.skipped: dict[str, str] = {}
        self.outcomes: list[Outcome] = []

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exc: object) -> None:
        with deaf():
            for peer in self._peers:
                self._stop(peer)

    def run(self, scenarios: Sequence[Scenario]) -> list[Outcome]:
        """Run all scenarios in order."""
        for number, scenario in enumerate(scenarios, 1):
            self._run(scenario, f"{number}/{len(scenarios)} {scenario.name}")
            self._progress()
        return self.outcomes

    def _run(self, scenario: Scenario, where: str) -> None:
        outcomes: dict[Peer, Outcome] = {}
        for peer in self._peers:
            if self._is_ready(peer, scenario, where):
                outcomes[peer] = Outcome(row=scenario, peer=peer.name)
        self.outcomes += outcomes.values()
        for run in range(self._options.runs):
            what = f"{where}, run {run + 1} of {self._options.runs}"
            if scenario.together:
                self._run_together(scenario, outcomes, what)
                continue
            for peer, outcome in outcomes.items():
                while not self._has(outcome, run + 1) and self._is_ready(peer, scenario, what):
                    self._warm_up(peer, scenario, outcome, what)
                    if not outcome.is_over and peer.name not in self._broken:
                        self._say(f"{what}: {peer.name}")
                        self._measure(peer, outcome, scenario)

    def _run_together(self, scenario: Scenario, outcomes: Mapping[Peer, Outcome], what: str) -> None:
        with ThreadPoolExecutor(max(len(outcomes), 1)) as pool:
            ready = {}
            for peer, outcome in outcomes.items():
                if not outcome.is_over and self._is_ready(peer, scenario, what):
                    self._warm_up(peer, scenario, outcome, what)
                    ready[peer] = outcome
            self._say(f"{what}: {', '.join(peer.name for peer in ready)}")
            for peer, outcome in ready.items():
                pool.submit(self._measure, peer, outcome, scenario)

    def _has(self, outcome: Outcome, runs: int) -> bool:
        return outcome.is_over or len(outcome.samples) >= runs

    def _is_ready(self, peer: Peer, scenario: Scenario, where: str) -> bool:
        return scenario.fresh or self._is_up(peer, where)

    def _is_up(self, peer: Peer, where: str) -> bool:
        """Whether a peer is up: it is started if need be."""
        if peer.name in self._broken:
            self._stop(peer)
        if peer.name in self._up:
            return True
        if peer.name in self.skipped:
            return False
        self._say(f"{where}: {peer.name} starts")
        for left in reversed(range(STARTS_MAX)):
            try:
                peer.start()
                peer.wait_until_ready()
                self._up.add(peer.name)
                return True
            except Exception as error:
                self._stop(peer)
                if not left:
                    self.skipped[peer.name] = f"it did not start: {reason(error)}"
        return False

    def _stop(self, peer: Peer) -> None:
        self._up.discard(peer.name)
        self._broken.discard(peer.name)
        self._warm = {key: seconds for key, seconds in self._warm.items() if key[0] != peer.name}
        try:
            peer.stop()
        except Exception as error:
            # The others have to be stopped too.
            self._say(f"{peer.name} cannot be stopped: {reason(error)}")

    def _warm_up(self, peer: Peer, scenario: Scenario, outcome: Outcome, where: str) -> None:
        key = (peer.name, scenario.warm_up)
        warm = self._warm.get(key, 0.0)
        outcome.refused = outcome.refused or self._too_slow.get(key, "")
        while scenario.warm_up and warm < peer.warm_s:
            if outcome.is_over or peer.name in self._broken:
                return
            self._say(f"{where}: {peer.name} warms up, {warm:.0f} of {peer.warm_s:.0f} s")
            began = time.monotonic()
            sample = self._sample(peer, outcome, scenario)
            took = time.monotonic() - began
            warm += (sample.load_s if sample else 0.0) or took
            self._warm[key] = warm
            if took > TOO_LONG_S:
                self._too_slow[key] = outcome.refused = f"one run takes {took:.0f} s"

    def _measure(self, peer: Peer, outcome: Outcome, scenario: Scenario) -> None:
        sample = self._sample(peer, outcome, scenario)
        if sample is not None:
            outcome.samples.append(sample)

    def _sample(self, peer: Peer, outcome: Outcome, scenario: Scenario) -> Sample | None:
        """Run a scenario once on a peer. Returns the figures; None: it was refused, or failed."""
        time.sleep(SETTLE_S)
        try:
            return scenario.measure(peer)
        except Refused as error:
            outcome.refused = reason(error)
        except Exception as error:
            # Whatever a peer or a load breaks with must not cost the others' figures.
            outcome.failures.append(reason(error))
            if not scenario.fresh:
                self._broken.add(peer.name)
            self._say(f"{peer.name} failed: {outcome.failures[-1]}")
        return None


@contextlib.contextmanager
def on_its_own(peer: Peer) -> Iterator[Peer]:
    """Start another peer of the same kind for a while."""
    own = type(peer)(peer.options)
    try:
        own.start()
        yield own
    finally:
        with deaf():
            own.stop()


def reason(error: BaseException) -> str:
    """The reason of an error in one line: the last line of its text, or its type if it has none."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
