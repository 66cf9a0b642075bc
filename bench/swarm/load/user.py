"""Locust's side of a swarm: one user in each process, which is a whole crew of members, and a shape that ends
with the plan."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import gevent
from gevent.event import Event
from locust import LoadTestShape, User
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

from bench.ground import run_names
from bench.swarm.load.clean_up import clean_up_after
from bench.swarm.load.conductor import BEGIN, DONE, FAILURES, PULSE, RUN_FILE, STOP, Conductor
from bench.swarm.load.crew import Crew, Run
from bench.swarm.planning import plan_file, scenario
from bench.swarm.planning.plan import Plan
from bench.swarm.rows.recorder import LOGGER
from bench.swarm.rows.second import Second
from bench.swarm.wire.clock import CLOCK, Reading
from bench.swarm.wire.connection import Closed, TimedOut
from cluster.groups.properties import ClientProperties, properties
from cluster.tier_file import TierError

BOOTSTRAP: Final = "127.0.0.1:9092"
BEGIN_TIMEOUT_S: Final = 600.0
"""How long the conductor may take from locust's start until the topics are made and the coordinators warm:
more than all time-outs on the way."""
LAST_WORDS_S: Final = 5.0
EXIT_NOT_RUN: Final = 2
SECONDS_FD: Final = "GROUPD_SWARM_SECONDS_FD"
"""The environment variable with the file descriptor to which each Second is written, as a line of JSON."""


def arguments(parser: LocustArgumentParser) -> None:
    """Add the flags of `locust -f`; each may be an environment variable, too. `--host` is the bootstrap
    address."""
    group = parser.add_argument_group("swarm", "Which fake consumers do what")
    for flag, default, about in (
        ("--scenario", "steady", "a name of `groupd swarm list`, or a .toml file"),
        ("--seed", "0", "the same seed is the same plan"),
        ("--plan", "", "a plan that was saved as JSON, instead of a scenario"),
        ("--out", "", "the run's directory (default groupd-swarm/SCENARIO-TIME)"),
        ("--command-config", "", "a file of client properties, for SASL and TLS"),
        ("--software", "", "what the server is, for the report"),
    ):
        name = f"GROUPD_SWARM_{flag[2:].upper().replace('-', '_')}"
        group.add_argument(flag, default=default, help=about, env_var=name)
    group.add_argument(
        "--no-cleanup",
        action="store_true",
        help="keep the run's groups and topics at its end",
        env_var="GROUPD_SWARM_NO_CLEANUP",
    )


class Station:
    """What a worker, or the only process, does for a swarm: it waits for the conductor's message, then
    works."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._has_begun = Event()
        self._message: dict[str, Any] = {}
        self._crew: Crew | None = None
        runner = environment.runner
        assert runner is not None, "locust has made it"
        runner.register_message(BEGIN, self._on_begin)
        runner.register_message(STOP, self._on_stop, concurrent=True)
        # Before locust's own listener, after which the master hears no more of this process.
        environment.events.quitting.add_listener(self._on_quitting)
        self._runner = runner
        self._is_idle = Event()
        self._is_idle.set()

    def work(self) -> None:
        """Work from the conductor's message until the plan's end."""
        if not self._has_begun.wait(BEGIN_TIMEOUT_S):
            return
        self._has_begun.clear()
        CLOCK.follow(Reading(*self._message["clock"]))
        plan = plan_file.from_plain(self._message["plan"])
        given = ClientProperties.model_validate(self._message["properties"])
        run = Run(*self._message["run"])
        worker = self._runner.worker_index if isinstance(self._runner, WorkerRunner) else 0
        self._crew = Crew(plan, run, worker, given, self._fire)
        self._is_idle.clear()
        pulsing = gevent.spawn(self._pulse, self._crew)
        words = []
        try:
            self._crew.work()
        except (Closed, TimedOut, TierError) as error:
            words = [f"worker {worker} found no broker: {error}"]
        finally:
            self._crew.stop()
            pulsing.kill()
            self._runner.send_message(PULSE, self._crew.pulse())
            self._runner.send_message(DONE, {"words": [*words, *self._crew.words]})
            self._crew = None
            self._is_idle.set()

    def stop(self) -> None:
        """End the work before its time."""
        if self._crew is not None:
            self._crew.stop()

    def _on_begin(self, environment: Environment, msg: Any, **_: Any) -> None:
        self._message = msg.data
        self._has_begun.set()

    def _on_stop(self, environment: Environment, msg: Any, **_: Any) -> None:
        self.stop()

    def _on_quitting(self, environment: Environment, **_: Any) -> None:
        self.stop()
        self._is_idle.wait(LAST_WORDS_S)

    def _pulse(self, crew: Crew) -> None:
        while True:
            gevent.sleep(1.0)
            self._runner.send_message(PULSE, crew.pulse())

    def _fire(self, kind: str, name: str, took_ms: float, size: int, error: Exception | None) -> None:
        self._environment.events.request.fire(
            request_type=kind,
            name=name,
            response_time=took_ms,
            response_length=size,
            exception=error,
            context={},
        )


def _take_part(user: User) -> None:
    user.environment.swarm_station.work()
    raise StopUser


class SwarmUser(User):  # type: ignore[misc]  # what locust has of types is not whole
    """The user of a process, which is a whole crew. Locust counts one user per process; our own screen and
    the report count members."""

    tasks: ClassVar = [_take_part]


class PlanShape(LoadTestShape):  # type: ignore[misc]
    """One user in each process, until the plan is over."""

    def tick(self) -> tuple[int, float] | None:
        assert self.runner is not None, "locust sets it"
        stage: Stage = self.runner.environment.swarm_stage
        if stage.is_over:
            return None
        workers = workers_of(self.runner.environment)
        return workers, workers


class Stage:
    """What the master, or the only process, does for a swarm: it makes a conductor for every test that is
    started."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._conductor: Conductor | None = None
        self._is_refused = False
        self._clean_up: Callable[[], None] | None = None
        """What is to be done when the conductor has ended."""
        runner = environment.runner
        assert runner is not None, "locust has made it"
        runner.register_message(PULSE, self._on_pulse)
        runner.register_message(DONE, self._on_done)
        environment.events.test_start.add_listener(self._begin)
        environment.events.test_stopping.add_listener(self._end)
        environment.events.quitting.add_listener(self._end)

    @property
    def is_over(self) -> bool:
        return self._is_refused or (self._conductor is not None and self._conductor.is_over)

    def _begin(self, environment: Environment, **_: Any) -> None:
        self._is_refused = False
        try:
            stamp = run_names.stamp()
            plan, given = chosen(environment, stamp)
            software = environment.parsed_options.software
            directory = self._directory(plan, stamp)
            self._conductor = Conductor(environment, plan, given, directory, software)
            if not environment.parsed_options.no_cleanup:
                self._clean_up = partial(clean_up_after, directory, plan, given)
            self._conductor.begin(workers_of(environment), _tell)
        except (*FAILURES, TierError, ValueError) as error:
            self._is_refused = True
            self._conductor = None
            environment.process_exit_code = EXIT_NOT_RUN
            logging.getLogger(LOGGER).error("%s", error)
            clean_up, self._clean_up = self._clean_up, None
            if clean_up is not None:
                clean_up()

    def _end(self, environment: Environment, **_: Any) -> None:
        """End a test. The conductor stays, because it has to hear which workers are done."""
        if self._conductor is not None:
            # It is taken first: a second call while a run ends must not delete what is still read.
            clean_up, self._clean_up = self._clean_up, None
            self._conductor.end()
            self._is_refused = True
            if clean_up is not None:
                clean_up()

    def _directory(self, plan: Plan, stamp: str) -> Path:
        """The directory of a test: one that is started again has its own."""
        out = self._environment.parsed_options.out
        directory = Path(out or f"groupd-swarm/{plan.scenario}-{stamp}").resolve()
        return directory if not (directory / RUN_FILE).exists() else Path(f"{directory}-{stamp}")

    def _on_pulse(self, environment: Environment, msg: Any, **_: Any) -> None:
        if self._conductor is not None:
            self._conductor.on_pulse(msg.node_id, msg.data)

    def _on_done(self, environment: Environment, msg: Any, **_: Any) -> None:
        if self._conductor is not None:
            self._conductor.on_done(msg.node_id, msg.data)


def install(environment: Environment) -> None:
    """Install the swarm in locust. Called once locust has a runner."""
    if not isinstance(environment.runner, WorkerRunner):
        environment.swarm_stage = Stage(environment)
    if not isinstance(environment.runner, MasterRunner):
        environment.swarm_station = Station(environment)


def chosen(environment: Environment, stamp: str) -> tuple[Plan, ClientProperties]:
    """Read what locust's flags ask for. `stamp` is that of this run. Raises TierError, ValueError,
    OSError."""
    options = environment.parsed_options
    file = Path(options.command_config) if options.command_config else None
    given = properties(environment.host or BOOTSTRAP, file)
    if options.plan:
        return plan_file.load(Path(options.plan)), given
    plan = scenario.load(options.scenario).plan(int(options.seed), prefix=run_names.prefix(stamp))
    return plan, given


def workers_of(environment: Environment) -> int:
    """How many processes take part."""
    runner = environment.runner
    return max(1, runner.worker_count) if isinstance(runner, MasterRunner) else 1


def _tell(second: Second) -> None:
    """Tell a second to the process that started locust."""
    fd = os.environ.get(SECONDS_FD)
    if fd is not None:
        with contextlib.suppress(BrokenPipeError):
            os.write(int(fd), json.dumps(second).encode() + b"\n")
