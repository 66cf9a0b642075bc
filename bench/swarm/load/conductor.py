"""What locust's master, or its only process, does for a swarm: it prepares a run, tells the workers of it,
and sums up their pulses."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gevent
from locust.env import Environment

from bench.swarm.counted.wall import iso
from bench.swarm.load.busy import FULL, Busy
from bench.swarm.load.crew import Run
from bench.swarm.load.final_reader import Committed, read_all
from bench.swarm.load.probe import NoConsumerProtocol, Unreachable, probe
from bench.swarm.load.sessions import Session, consumer_session
from bench.swarm.load.topics import Topics, TopicsNotReady
from bench.swarm.load.warm_up import warm_up
from bench.swarm.planning import plan_file
from bench.swarm.planning.due import due_of
from bench.swarm.planning.plan import GROW, Plan
from bench.swarm.records.behind import Behind
from bench.swarm.rows import tally
from bench.swarm.rows.board import Board
from bench.swarm.rows.recorder import GROUP, percentiles
from bench.swarm.rows.second import Second
from bench.swarm.wire.clock import now_us, reading
from bench.swarm.wire.connection import Closed, TimedOut
from bench.swarm.wire.coordinators import Bootstrap
from cluster.groups.properties import ClientProperties
from cluster.tier_file import TierError

BEGIN: Final = "swarm-begin"
PULSE: Final = "swarm-pulse"
STOP: Final = "swarm-stop"
DONE: Final = "swarm-done"
"""The names of the messages between master and workers."""
RUN_FILE: Final = "run.json"
HEAD_START_S: Final = 1.5
"""The time from the message to all workers until the plan begins."""
END_S: Final = 20.0
"""How long workers have to end and to say so."""


class Conductor:
    """Conducts one run."""

    def __init__(
        self,
        environment: Environment,
        plan: Plan,
        properties: ClientProperties,
        directory: Path,
        software: str,
    ) -> None:
        self._environment = environment
        self._plan = plan
        self._properties = properties
        self._directory = directory
        self._software = software
        self._bootstrap = Bootstrap(properties, "conductor")
        self._topics: Topics | None = None
        self._done: dict[str, dict[str, Any]] = {}
        self._words: list[str] = []
        """Sentences about what went wrong."""
        self._session = Session()
        self._coldness = ""
        """A sentence about coordinators that did not answer before the plan began."""
        self._unread = ""
        """A sentence about committed offsets that could not be read at the end."""
        self._board = Board()
        self._behind = Behind(plan) if plan.producers else None
        self._pulses: dict[str, list[dict[str, Any]]] = {}
        self._states: dict[str, dict[str, int]] = {}
        self._counted: Counter[str] = Counter()
        """The counts of requests, errors and commits since the start."""
        self._without: dict[str, list[str]] = {}
        """The groups without coordinator that each worker told of."""
        self._busy: dict[str, Busy] = {}
        self._greenlets: list[gevent.Greenlet] = []
        self._has_begun = False
        self._is_ended = False
        self._run = Run(uuid.uuid4().hex[:12], str(directory), 0, 0)
        self.began_at = ""
        self._wall_us = 0
        """The Unix time when the rows' clock was zero."""

    def begin(self, workers: int, on_second: Callable[[Second], None]) -> None:
        """Make the topics, wait for the coordinators, then say when the plan begins. Raises Unreachable,
        NoConsumerProtocol, TopicsNotReady, OSError."""
        probe(self._plan, self._properties)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._topics = Topics(self._bootstrap, self._directory, self._run.run_id)
        try:
            self._topics.make(self._plan.topics)
        except (Closed, TimedOut, TierError) as error:
            raise Unreachable(f"the topics cannot be made: {error}") from error
        self._session = consumer_session(self._bootstrap.connection(), self._plan)
        self._coldness = warm_up(self._bootstrap, self._properties, self._plan)
        began_us = now_us() + int(HEAD_START_S * 1e6)
        self._wall_us = reading().wall_us
        self.began_at = iso(began_us + self._wall_us)
        self._run = self._run._replace(
            began_us=began_us, workers=workers, consumer_session_ms=self._session.timeout_ms
        )
        self._write_run(is_finished=False)
        message = {
            "run": list(self._run),
            "clock": list(reading()),
            "plan": plan_file.plain(self._plan),
            "properties": self._properties.model_dump(by_alias=True, exclude_none=True),
        }
        assert self._environment.runner is not None, "locust has begun"
        self._environment.runner.send_message(BEGIN, message)
        self._has_begun = True
        self._greenlets = [gevent.spawn(self._beat, on_second), gevent.spawn(self._grow)]

    @property
    def is_over(self) -> bool:
        """Whether all workers are done, or late to say so. It is False before the plan has begun: locust asks
        every second, and topics may take many to be made."""
        late_s = self._plan.duration_s + END_S
        is_late = self._elapsed_s() > late_s
        return self._has_begun and (len(self._done) >= self._run.workers or is_late)

    def on_pulse(self, worker: str, pulse: dict[str, Any]) -> None:
        self._pulses.setdefault(worker, []).append(pulse)
        self._states[worker] = pulse["states"]
        self._without[worker] = pulse["without_coordinator"]
        self._busy.setdefault(worker, Busy()).add(*pulse["needed_s"])

    def on_done(self, worker: str, done: dict[str, Any]) -> None:
        self._done[worker] = done

    def end(self) -> None:
        """End the run, and tell the workers that have not ended to do so. Harmless when repeated."""
        if self._is_ended:
            return
        self._is_ended = True
        if self._has_begun:
            self._end_run()
        gevent.killall(self._greenlets)
        if self._topics is not None:
            # The members' record ends here: no call gets overdue while the offsets are read.
            self._topics.end()
        if self._has_begun and self._topics is not None:
            committed = Committed(self._plan, self._topics.ids)
            self._unread = read_all(committed, self._properties, self._directory, self._run.run_id)
        if self._has_begun:
            self._write_run(is_finished=not self._words)
        self._bootstrap.close()

    def _end_run(self) -> None:
        """Wait until all workers have said that they are done, or time is up."""
        if not self.is_over:
            self._words.append(f"stopped after {max(0.0, self._elapsed_s()):.0f} s")
            assert self._environment.runner is not None, "it runs"
            self._environment.runner.send_message(STOP, None)
            deadline = time.monotonic() + END_S
            while len(self._done) < self._run.workers and time.monotonic() < deadline:
                gevent.sleep(0.1)
        missing = self._run.workers - len(self._done)
        if missing:
            self._words.append(f"{missing} of {self._run.workers} processes did not say that they ended")

    def _elapsed_s(self) -> float:
        return (now_us() - self._run.began_us) / 1e6

    def _beat(self, on_second: Callable[[Second], None]) -> None:
        while self._elapsed_s() < self._plan.duration_s:
            gevent.sleep(1.0)
            on_second(self._second())

    def _second(self) -> Second:
        pulses = [pulse for of_worker in self._pulses.values() for pulse in of_worker]
        self._pulses = {}
        latencies: Counter[int] = Counter()
        rests = []
        for pulse in pulses:
            latencies.update(dict(pulse["latencies"]))
            rests += self._board.take(pulse["turns"], now_us())
            if self._behind is not None:
                self._behind.take(pulse["positions"])
            self._counted.update({name: pulse[name] for name in ("requests", "errors", "commits")})
        states: Counter[str] = Counter()
        for of_worker in self._states.values():
            states.update(of_worker)
        p50_ms, p99_ms = percentiles(latencies, 0.5, 0.99)
        for rest in rests:
            self._fire(rest.name, rest.took_ms)
        return Second(
            at_s=self._elapsed_s(),
            requests_s=sum(pulse["requests"] for pulse in pulses),
            errors_s=sum(pulse["errors"] for pulse in pulses),
            commits_s=sum(pulse["commits"] for pulse in pulses),
            members_by_state=dict(states),
            groups_stable=self._board.groups_stable,
            groups=len({member.group_id for member in self._plan.members}),
            moved_partitions=self._board.moved_partitions,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            requests=self._counted["requests"],
            errors=self._counted["errors"],
            commits=self._counted["commits"],
            groups_without_coordinator=len(set().union(*self._without.values())),
            apis=tally.added(pulse["apis"] for pulse in pulses),
            busy={str(place): round(busy.now, 3) for place, busy in enumerate(self._busy.values())},
            lag=None if self._behind is None else self._behind.lag,
        )

    def _fire(self, name: str, took_ms: float) -> None:
        """Show a duration in locust's table, which has milliseconds; counts are on our own screen and in the
        report alone."""
        self._environment.events.request.fire(
            request_type=GROUP,
            name=name,
            response_time=took_ms,
            response_length=0,
            exception=None,
            context={},
        )

    def _grow(self) -> None:
        assert self._topics is not None, "begun"
        for action in self._plan.actions:
            if action.kind != GROW:
                continue
            gevent.sleep(max(0.0, action.at_s - self._elapsed_s()))
            try:
                self._topics.grow(action.subject, int(action.value))
            except (TopicsNotReady, Closed, TimedOut, TierError) as error:
                self._words.append(f"{action.subject} did not grow to {action.value:.0f}: {error}")

    def _write_run(self, *, is_finished: bool) -> None:
        doubts = [doubt for doubt in (self._session.doubt, self._coldness, self._unread) if doubt]
        if any(busy.is_full for busy in self._busy.values()):
            doubts.append(
                f"A process of the swarm was busy over {FULL:.0%} of the time: it sends late, and what was "
                "measured is the swarm as much as the server. More --processes take more cores."
            )
        words = [*doubts, *self._words, *(word for done in self._done.values() for word in done["words"])]
        record = {
            "run_id": self._run.run_id,
            "scenario": self._plan.scenario,
            "seed": self._plan.seed,
            "bootstrap": self._properties.bootstrap,
            "software": self._software,
            "command": os.environ.get("GROUPD_SWARM_COMMAND") or " ".join(sys.argv),
            "began_us": self._run.began_us,
            "began_at": self.began_at,
            "wall_us": self._wall_us,
            "processes": self._run.workers,
            "plan": plan_file.counts(self._plan),
            "thresholds": list(self._plan.thresholds),
            "consumer_session_ms": self._session.timeout_ms,
            "due": due_of(self._plan, self._session.interval_ms).plain(),
            "least_answered": self._plan.least_answered,
            "busy": [busy.plain() for busy in self._busy.values()],
            "is_finished": is_finished,
            "words": words,
        }
        beside = self._directory / f"{RUN_FILE}.new"
        beside.write_text(json.dumps(record, indent=2))
        beside.replace(self._directory / RUN_FILE)


FAILURES: Final = (Unreachable, NoConsumerProtocol, TopicsNotReady, OSError)
"""The errors for which a run does not begin."""
