"""Leaders of a throw-away tier that are killed one after the other, as long as something runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from bench.ground.throwaway import Tier


class LeaderKills:
    """Kills the leader of an offsets partition every so many seconds, in a thread, until `calm` is called or
    the context ends, and says whom; 0 s: none is killed."""

    def __init__(self, tier: Tier, every_s: float, say: Callable[[str], object]) -> None:
        self._tier = tier
        self._every_s = every_s
        self._say = say
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._count = 0

    @property
    def findings(self) -> list[str]:
        """Say if none was killed that should have been: then nothing is shown about kills."""
        return ["kills: no leader was killed"] if self._every_s and not self._count else []

    def __enter__(self) -> LeaderKills:
        if self._every_s:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.calm()

    def calm(self) -> None:
        """Kill nobody any more."""
        self._halt.set()
        if self._every_s:
            self._thread.join()

    def _run(self) -> None:
        while not self._halt.wait(self._every_s):
            leaders = [each for each in self._tier.replicas() if each.get("serving")]
            if leaders:
                leader = leaders[self._count % len(leaders)]
                self._count += 1
                self._say(f"killing the leader of partition {leader['partition']}")
                os.kill(leader["pid"], signal.SIGKILL)
