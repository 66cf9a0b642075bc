"""Seeds by the thousand: processes that run them, survive one that hangs, and end with their parent."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Final, NamedTuple

from tests.simulation.verdict import Case, Verdict, examine, explain, hunt

SEED_S_MAX: Final = 120.0
"""Wall time. A run that takes longer turns on the spot: red like any other."""
HANGS: Final = "hangs"

# Spawned, not forked: a forked child would hold the other pipes open and not notice the end of its parent.
_PROCESSES: Final = multiprocessing.get_context("spawn")


class Task(NamedTuple):
    """The cases that one worker runs one after the other."""

    cases: tuple[Case, ...]
    hunts: bool = False
    """Whether to stop at a mutant's first red case; else all cases are run, and red ones are explained."""


class _Worker:
    def __init__(self) -> None:
        self.pipe, theirs = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.done = 0
        self.heard_at = time.monotonic()

    def begin(self, task: Task | None) -> None:
        self.task, self.done, self.heard_at = task, 0, time.monotonic()
        if task is not None:
            self.pipe.send(task)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def verdicts(tasks: Iterable[Task], jobs: int) -> Iterator[Verdict]:
    """Yield the verdict of each case that was run, as they come. Closing the generator ends the workers."""
    waiting = deque(tasks)
    workers: list[_Worker] = []
    try:
        workers += [_Worker() for _ in range(min(jobs, len(waiting)))]
        for worker in workers:
            worker.begin(waiting.popleft())
        while busy := [worker for worker in workers if worker.task is not None]:
            ready = wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in busy:
                if worker.pipe in ready:
                    yield from _take(worker, waiting)
                elif time.monotonic() - worker.heard_at > SEED_S_MAX:
                    worker.end()
                    workers.remove(worker)
                    yield _give_up(worker, waiting)
                    if waiting:
                        workers.append(_Worker())
                        workers[-1].begin(waiting.popleft())
    finally:
        for worker in workers:
            worker.end()


def _take(worker: _Worker, waiting: deque[Task]) -> Iterator[Verdict]:
    try:
        message = worker.pipe.recv()
    except EOFError:
        assert worker.task is not None
        case = worker.task.cases[worker.done]
        raise RuntimeError(f"the worker that ran {case} ended by itself: out of memory, or killed") from None
    worker.heard_at = time.monotonic()
    if isinstance(message, Verdict):
        worker.done += 1
        yield message
    else:
        worker.begin(waiting.popleft() if waiting else None)


def _give_up(worker: _Worker, waiting: deque[Task]) -> Verdict:
    """The case under way is red; what comes after it in the task goes to another worker."""
    task = worker.task
    assert task is not None
    rest = task.cases[worker.done + 1 :]
    if rest and not task.hunts:
        waiting.appendleft(task._replace(cases=rest))
    case = task.cases[worker.done]
    return Verdict(case, f"{HANGS}: not over after {SEED_S_MAX:.0f} s of wall time", HANGS)


def _work(pipe: Connection) -> None:
    """The worker's process: verdicts, and None after each task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            for verdict in _carry_out(pipe.recv()):
                pipe.send(verdict)
            pipe.send(None)


def _carry_out(task: Task) -> Iterator[Verdict]:
    for case in task.cases:
        if task.hunts:
            found = hunt(case)
            yield found
            if found.violation:
                return
        else:
            verdict = examine(case)
            yield explain(verdict) if verdict.violation else verdict
