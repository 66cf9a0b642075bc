"""Leaders that are killed one after the other, as long as something runs."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from types import TracebackType

from bench.ground.throwaway import Tier
from tests.tier.test_failover import leader_of

SPACING_S = 8.0
"""Time between a partition that is whole again and the next kill."""
STOP_DEADLINE_S = 120.0
OFFSETS_PARTITIONS = 4


class LeaderKills:
    """SIGKILL the leaders of all offsets partitions in turn, each when its partition is whole, until the
    context ends; what went wrong meanwhile is raised there. Without a tier nobody is killed."""

    def __init__(self, tier: Tier | None) -> None:
        self.count = 0
        self._tier = tier
        self._halt = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> LeaderKills:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._halt.set()
        self._thread.join(STOP_DEADLINE_S)
        if self._failure is not None and error is None:
            raise self._failure

    def _run(self) -> None:
        if self._tier is None:
            return
        try:
            for partition in itertools.cycle(range(OFFSETS_PARTITIONS)):
                if self._halt.wait(SPACING_S):
                    return
                os.kill(leader_of(self._tier, partition)["pid"], signal.SIGKILL)
                self.count += 1
        except BaseException as failure:
            self._failure = failure
