"""Many seeds against two servers: what was played, and each difference as a transcript to replay."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import threading
import time
from collections.abc import Sequence
from typing import Any

from tests.oracle.generator.choosing import KINDS, operations
from tests.oracle.generator.known import errors
from tests.oracle.generator.lockstep import Lockstep, Outcome
from tests.oracle.generator.operation import Operation
from tests.oracle.generator.shrinking import shrunk
from tests.oracle.generator.sides import Side, make_transactions_ready, topics_of
from tests.oracle.play import Address
from tests.oracle.run import told

DIFFERENCES_MAX = 10
"""A run ends after so many differences: there is enough to mend."""


@dataclasses.dataclass(slots=True)
class Tally:
    """What a run has counted."""

    seeds: int = 0
    operations: int = 0
    unsteady: int = 0
    """Differences that did not come again: a matter of time on a busy machine."""
    by_kind: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    """How many seeds and how many operations there were, by kind of sequence."""
    explained: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    differences: list[str] = dataclasses.field(default_factory=list)


class Generator:
    """`count` operations for each seed, of the `kinds` in turn."""

    def __init__(self, kafka: Address, ours: Address, count: int, kinds: Sequence[str] = KINDS) -> None:
        self._servers = (kafka, ours)
        self._count = count
        self._kinds = tuple(kinds)
        self._alone = threading.Lock()
        """Held by who changes what all sequences of its kind share: the configs of brokers."""
        if {"transactions", "producers"} & set(self._kinds):
            for server in self._servers:
                make_transactions_ready(server)
        self._topics = tuple(topics_of(server) for server in self._servers)

    def run(self, seeds: Sequence[int], jobs: int) -> Tally:
        """Play them, `jobs` at a time, and print as it goes."""
        tally, started = Tally(), time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            waiting = {pool.submit(self._examine, seed): self._kind(seed) for seed in seeds}
            for done in concurrent.futures.as_completed(waiting):
                if done.cancelled():
                    continue
                self._add(tally, waiting[done], *done.result())
                if tally.seeds % 50 == 0:
                    rate = tally.operations / (time.monotonic() - started) * 60
                    print(
                        f"{tally.seeds} seeds, {tally.operations} operations, {rate:.0f} a minute", flush=True
                    )
                if len(tally.differences) >= DIFFERENCES_MAX:
                    for future in waiting:
                        future.cancel()
        return tally

    def _kind(self, seed: int) -> str:
        return self._kinds[seed % len(self._kinds)]

    def _add(self, tally: Tally, kind: str, outcome: Outcome, difference: str | None) -> None:
        of_kind = tally.by_kind.setdefault(kind, [0, 0])
        of_kind[:] = of_kind[0] + 1, of_kind[1] + outcome.played
        tally.seeds += 1
        tally.operations += outcome.played
        tally.explained.update([outcome.known] if outcome.known else [])
        if outcome.differs and difference is None:
            tally.unsteady += 1
            print(f"seed differed once, then not again: {outcome.steps[0][-1]} {outcome.steps[1][-1]}"[:600])
        if difference is not None:
            tally.differences.append(difference)
            print(difference, flush=True)

    def _examine(self, seed: int) -> tuple[Outcome, str | None]:
        outcome = self.play(seed)
        if not outcome.differs:
            return outcome, None
        nature = _nature(outcome)
        if _nature(self.play(seed)) != nature:
            return outcome, None
        keep = shrunk(list(range(self._count)), lambda kept: _nature(self.play(seed, kept)) == nature)
        last = self.play(seed, keep)
        return outcome, self._told(seed, keep, last if _nature(last) == nature else outcome)

    def play(self, seed: int, keep: Sequence[int] | None = None) -> Outcome:
        """Play one sequence: all of it, or only the operations whose indexes are kept."""
        kind, drawn = operations(seed, self._count, self._kinds)
        with self._alone if kind == "brokers" else contextlib.nullcontext():
            return self._played(kind, drawn if keep is None else [drawn[index] for index in keep])

    def _played(self, kind: str, chosen: Sequence[Operation]) -> Outcome:
        sides = [
            Side(server, kind, topics) for server, topics in zip(self._servers, self._topics, strict=True)
        ]
        try:
            if kind == "brokers":
                for side in sides:
                    side.put_back_broker_configs()
            return Lockstep(kind, (sides[0], sides[1])).play(chosen)
        finally:
            for side in sides:
                side.close()

    def _told(self, seed: int, keep: Sequence[int], outcome: Outcome) -> str:
        theirs, ours = outcome.steps
        kinds = ",".join(self._kinds)
        kept = ",".join(map(str, keep))
        lines = told(theirs, ours, len(ours) - 1, ("kafka", "groupd"))
        replay = (
            f"replay: python -m tests.oracle generate --from {seed} --seeds 1 --operations {self._count} "
            f"--kinds {kinds} --keep {kept}"
        )
        return "\n".join([f"DIFFERENCE in seed {seed} ({self._kind(seed)})", *lines, replay, ""])


def _nature(outcome: Outcome) -> Any:
    """Return what two equal differences have in common: the request's API and the errors that it got."""
    if not outcome.differs:
        return None
    theirs, ours = (steps[-1] for steps in outcome.steps)
    return ours["does"], errors(theirs.get("answer")), errors(ours.get("answer"))
