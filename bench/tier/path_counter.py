"""The counter of Python calls that `groupd bench path` puts into the actors of its own tier.

A `sitecustomize` that the bench writes for that tier alone calls `serve` in each of its Python processes. An
actor's process then has one more thread, which sleeps until it is told to count on a socket of its own. What
counts is `sys.setprofile` on the loop's thread, which the loop itself switches on and off.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from asyncio import AbstractEventLoop
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from types import FrameType
from typing import Any, Final

FOLDER: Final = "GRPD_BENCH_PATH_FOLDER"
"""The variable that names the folder of the sockets; it is no setting of the tier, so its name is not like
those."""
SITE: Final = "from bench.tier.path_counter import serve\n\nserve()\n"
WORKER: Final = "worker.py"
"""How the main of an actor's process is called, Ray's and ours."""
ON: Final = b"on\n"
OFF: Final = b"off\n"
ANSWER_TIMEOUT_S: Final = 30.0


class Counted:
    """The calls of one thread. `count` is what `sys.setprofile` calls."""

    def __init__(self) -> None:
        self.python = self.c = 0
        self.functions: Counter[str] = Counter()

    def count(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            self.python += 1
            code = frame.f_code
            self.functions[f"{Path(code.co_filename).name}:{code.co_qualname}"] += 1
        elif event == "c_call":
            self.c += 1
            self.functions[getattr(arg, "__qualname__", "?")] += 1


def serve() -> None:
    """Wait for a bench in a thread, if this is the process of an actor of its tier."""
    folder = os.environ.get(FOLDER)
    if folder and any(word.endswith(WORKER) for word in sys.orig_argv):
        threading.Thread(target=_answer, args=(Path(folder),), name="bench path", daemon=True).start()


def socket_of(folder: Path, pid: int) -> Path:
    return folder / f"{pid}.sock"


def ask(folder: Path, pid: int, what: bytes) -> dict[str, Any]:
    """Tell a process to count, or to stop and say what it has counted. Raises OSError, ValueError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(ANSWER_TIMEOUT_S)
        asked.connect(str(socket_of(folder, pid)))
        asked.sendall(what)
        pieces = []
        while piece := asked.recv(65_536):
            pieces.append(piece)
    answer: dict[str, Any] = json.loads(b"".join(pieces))
    return answer


def _answer(folder: Path) -> None:
    counted = Counted()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(socket_of(folder, os.getpid())))
        listening.listen()
        while True:
            asking, _ = listening.accept()
            with asking:
                if asking.recv(64) == ON:
                    counted = Counted()
                    _profile(counted)
                    told: dict[str, Any] = {}
                else:
                    _profile(None)
                    told = {"python": counted.python, "c": counted.c, "functions": counted.functions}
                asking.sendall(json.dumps(told).encode())


def _profile(counted: Counted | None) -> None:
    """Have the loop count its calls from now on, or stop counting."""
    done: Future[None] = Future()

    def switch() -> None:
        sys.setprofile(None if counted is None else counted.count)
        done.set_result(None)

    _loop().call_soon_threadsafe(switch)
    done.result(ANSWER_TIMEOUT_S)


def _loop() -> AbstractEventLoop:
    """Return the loop of this process's actor."""
    worker: Any = sys.modules["ray._private.worker"].global_worker
    [actor] = worker.actors.values()
    loop: AbstractEventLoop = actor._started.get_loop()
    return loop
