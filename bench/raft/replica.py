"""One replica of the Raft bench: `python -m bench.raft.replica OPTIONS` (JSON of bench.raft.engine.Options).

Lines of JSON come on its input, {"id": n, "do": what, ...}; each is answered once on its output, {"id": n,
...}, perhaps much later. The process ends with `stop`, or at once when its input ends: it never outlives the
process that started it. Times are CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Final

from bench.raft.engine import Engine, Options

WARM_S: Final = 0.3
"""How long the beginning of a load is not counted."""
Answer = Callable[[dict[str, Any]], None]


class Load:
    """A load in a closed loop: `outstanding` records are always under way, and the next one follows each that
    is committed."""

    def __init__(self, engine: Engine, outstanding: int, seconds: float, answer: Answer) -> None:
        self._engine = engine
        self._outstanding = outstanding
        self._seconds = seconds
        self._answer = answer
        self._latencies: list[float] = []
        self._records = 0
        self._counted = 0
        self._left = outstanding
        self._lost = False

    def start(self) -> None:
        self._sent_at = time.monotonic()
        self._from = self._sent_at + WARM_S
        self._until = self._from + self._seconds
        self._engine.submit(self._outstanding, self._done)

    def _done(self, records: int) -> None:
        now = time.monotonic()
        if records == 0:
            if not self._lost:
                self._lost = True
                self._answer({"lost": True})
            return
        self._records += records
        if now >= self._from:
            self._counted += records
            self._last_at = now
            if self._outstanding == 1:
                self._latencies.append(now - self._sent_at)
        if now < self._until and not self._lost:
            self._sent_at = now
            self._engine.submit(records, self._done)
            return
        self._left -= records
        if self._left == 0:
            self._report()

    def _report(self) -> None:
        latencies = sorted(self._latencies)
        count = len(latencies)
        self._answer(
            {
                "records": self._records,
                "per_s": self._counted / (self._last_at - self._from),
                "p50_ms": latencies[count // 2] * 1000 if latencies else None,
                "p99_ms": latencies[count * 99 // 100] * 1000 if latencies else None,
            }
        )


class Control:
    """Answers the lines that come on the input."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()

    def listen(self) -> None:
        for line in sys.stdin:
            asked = json.loads(line)
            self._engine.call(functools.partial(self._do_or_die, asked))
        os._exit(1)

    def say(self, fields: dict[str, Any]) -> None:
        with self._lock:
            print(json.dumps(fields), flush=True)

    def _do_or_die(self, asked: dict[str, Any]) -> None:
        """Do what is asked. If it raises, the process ends with the traceback, which the parent reads."""
        try:
            self._do(asked)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _do(self, asked: dict[str, Any]) -> None:
        def answer(fields: dict[str, Any]) -> None:
            self.say({"id": asked["id"], **fields})

        match asked["do"]:
            case "status":
                answer({**self._engine.status(), "cpu_s": _cpu_s()})
            case "load":
                Load(self._engine, asked["outstanding"], asked["seconds"], answer).start()
            case "transfer":
                at = time.monotonic()
                answer({"at": at, "begun": self._engine.transfer()})
            case "commit_when_leading":
                self._engine.when_leading(lambda: self._commit(answer))
            case "stop":
                answer({})
                self._engine.stop()
            case unknown:
                raise ValueError(f"{unknown!r} is not something to do")

    def _commit(self, answer: Answer) -> None:
        """Commit the first write of a new leader, and once more if it loses its leadership meanwhile."""

        def done(records: int) -> None:
            if records:
                answer({"at": time.monotonic()})
            else:
                self._engine.when_leading(lambda: self._commit(answer))

        self._engine.submit(1, done)


def _cpu_s() -> float:
    """The CPU time (user and system) of all threads of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _engine(options: Options) -> Engine:
    if options.engine == "stock":
        from bench.raft.stock import Stock

        return Stock(options)
    from bench.raft.groupd import Groupd

    return Groupd(options)


def main() -> None:
    options = Options(**json.loads(sys.argv[1]))
    engine = _engine(options)
    control = Control(engine)

    def ready() -> None:
        threading.Thread(target=control.listen, name="control", daemon=True).start()
        control.say({"id": 0})

    engine.run(ready)
    sys.stdout.flush()
    # The process ends at once: threads of stock pysyncobj would keep it for their own time.
    os._exit(0)


if __name__ == "__main__":
    main()
