"""Runs a plan with as many processes of fake consumers as asked, under locust, into one directory.

Locust runs in a process of its own: it replaces the standard library's sockets and threads, which callers of
this do not expect.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.ground.interrupts import deaf
from bench.swarm.load.clean_up import clean_up_after
from bench.swarm.load.probe import NoConsumerProtocol as NoConsumerProtocol
from bench.swarm.load.probe import Unreachable as Unreachable
from bench.swarm.load.probe import probe
from bench.swarm.planning import plan_file
from bench.swarm.planning.plan import Plan
from bench.swarm.rows.recorder import LOGGER
from bench.swarm.rows.second import Second as Second
from cluster import child_process
from cluster.groups.properties import ClientProperties, properties
from cluster.ports import free_ports

LOCUSTFILE: Final = Path(__file__).with_name("locustfile.py")
LOG_FILE: Final = "locust.log"
POLL_S: Final = 0.2
END_TIMEOUT_S: Final = 60.0
"""How long locust may take to end after Ctrl-C: members leave first."""
WORDS_MAX: Final = 2_000


class Launch(NamedTuple):
    """How a swarm is launched."""

    processes: int = 1
    web_port: int | None = None
    """The port of locust's page; None: there is no page."""
    security: ClientProperties | None = None
    """How the members connect; None: without encryption and authentication."""
    software: str = ""
    """The name and version of the Kafka, for the report."""
    cleans_up: bool = False
    """The plan's groups and topics are deleted afterwards."""
    is_whole: bool = False
    """Nothing is to be made of a part of the run: Ctrl-C goes on to the caller once the swarm has ended."""


PLAIN: Final = Launch()


def run_swarm(
    plan: Plan,
    bootstrap: str,
    directory: Path,
    launch: Launch = PLAIN,
    *,
    on_second: Callable[[Second], None] | None = None,
) -> Path:
    """Run `plan` against a Kafka and write what was asked and answered into `directory`, which is returned.

    Raises Unreachable, NoConsumerProtocol, TierError. Ctrl-C ends the run early, and so does `on_second` by
    raising KeyboardInterrupt; what was done until then is kept, and KeyboardInterrupt raised anew if the
    launch says that only the whole counts.
    """
    given = properties(bootstrap, None)
    if launch.security is not None:
        given = launch.security.model_copy(update={"bootstrap": bootstrap})
    probe(plan, given)
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="groupd-swarm-") as private:
        plan_path, config_path = Path(private, "plan.json"), Path(private, "client.properties")
        plan_file.save(plan, plan_path)
        lines = given.librdkafka().items()
        config_path.write_text("".join(f"{name}={value}\n" for name, value in lines))
        flags = ["--plan", str(plan_path), "--command-config", str(config_path), "--out", str(directory)]
        flags += ["--software", launch.software, "--host", bootstrap, "--no-cleanup"]
        with _locust([*flags, *_mode(launch.processes, launch.web_port)], directory) as (locust, seconds):
            is_interrupted = _listen(locust, seconds, on_second)
    if launch.cleans_up:
        clean_up_after(directory, plan, given)
    has_run = (directory / "run.json").exists()
    if is_interrupted and (launch.is_whole or not has_run):
        raise KeyboardInterrupt
    if not has_run:
        raise Unreachable(_last_words(directory / LOG_FILE))
    return directory


def _last_words(log: Path) -> str:
    """Why locust ended without a run, by the last words of its log."""
    text = log.read_text(errors="replace")
    _, marker, reason = text.rpartition(f"/ERROR/{LOGGER}: ")
    return reason.partition("\n")[0] if marker else f"locust ended without a run:\n{text[-WORDS_MAX:]}"


def _mode(processes: int, web_port: int | None) -> list[str]:
    flags = []
    if processes > 1:
        port = str(free_ports(1))  # two swarms may run on one machine
        flags = ["--processes", str(processes), "--master-bind-host", "127.0.0.1"]
        flags += ["--master-bind-port", port, "--master-host", "127.0.0.1", "--master-port", port]
    if web_port is None:
        return [*flags, "--headless"]
    return [*flags, "--autostart", "--autoquit", "1", "--web-host", "127.0.0.1", "--web-port", str(web_port)]


@contextlib.contextmanager
def _locust(flags: list[str], directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run locust within. Yields its process and the pipe on which it tells each second; it has ended when
    this is left."""
    reading, writing = os.pipe()
    command = child_process.python("locust", "-f", str(LOCUSTFILE), "--only-summary", *flags)
    environment = {
        **child_process.environment(),
        "GROUPD_SWARM_SECONDS_FD": str(writing),
        "GROUPD_SWARM_COMMAND": shlex.join(sys.argv),
    }
    with (directory / LOG_FILE).open("wb") as log:
        locust = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            pass_fds=(writing,),
            start_new_session=True,  # a Ctrl-C is ours to pass on
        )
    os.close(writing)
    try:
        yield locust, reading
    finally:
        os.close(reading)
        _end(locust)


def _listen(
    locust: subprocess.Popen[bytes], seconds: int, on_second: Callable[[Second], None] | None
) -> bool:
    """Listen to locust until it has ended; True if somebody wants it to end before that."""
    buffer = b""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            if not select.select([seconds], [], [], POLL_S)[0]:
                continue
            data = os.read(seconds, 65_536)
            if not data:
                locust.wait()
                return False
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                if on_second is not None:
                    on_second(Second(*json.loads(line)))
    return True


def _end(locust: subprocess.Popen[bytes]) -> None:
    if locust.poll() is not None:
        return
    with deaf():
        locust.send_signal(signal.SIGINT)
        try:
            locust.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(locust.pid, signal.SIGKILL)
            locust.wait()
