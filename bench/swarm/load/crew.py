"""One process's share of a swarm: starts, disturbs and ends its members as the plan says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import gevent
from gevent.event import Event
from gevent.lock import RLock

from actors.ground.topic_names import OFFSETS_TOPIC
from bench.swarm.load.busy import Stopwatch
from bench.swarm.members.asking import ENDED, LOST
from bench.swarm.members.classic import ClassicMember
from bench.swarm.members.consumer import ConsumerMember
from bench.swarm.members.member import Leaving, Member
from bench.swarm.planning.plan import (
    CONSUMER,
    CONSUMER_SESSION_MS,
    CRASH,
    CUT,
    GROW,
    LEAVE,
    SLEEP,
    START,
    Action,
    MemberPlan,
    Plan,
)
from bench.swarm.records.producer import Producer
from bench.swarm.rows.recorder import Fire, Recorder
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.clock import now_us
from bench.swarm.wire.connection import Closed, TimedOut
from bench.swarm.wire.coordinators import Bootstrap, Catalogue, Coordinators
from cluster.groups.properties import ClientProperties

LOOK_S: Final = 2.0
"""How often a swarm whose topics grow looks at its metadata, in place of metadata.max.age.ms."""
GRACE_S: Final = 1.0
"""The time between the end of the record and the members' leaving, so that no process records that of
another."""
LEAVE_S: Final = 10.0
WORDS_MAX: Final = 20
"""How many sentences of one process the run's record has at most."""


class Run(NamedTuple):
    """What all processes of a run are told."""

    run_id: str
    directory: str
    began_us: int
    workers: int
    consumer_session_ms: int = CONSUMER_SESSION_MS
    """The session time-out of the coordinator's KIP-848 groups."""


class Crew:
    """The members of one process: those whose place in the plan is this worker's, modulo the number of
    workers."""

    def __init__(self, plan: Plan, run: Run, worker: int, properties: ClientProperties, fire: Fire) -> None:
        self._plan = plan
        self._run = run
        self._mine = {member.name: member for member in plan.members[worker :: run.workers]}
        self._lives: dict[str, int] = {}
        self._members: dict[str, tuple[Member, gevent.Greenlet]] = {}
        self._stopping = Event()
        self._ending = RLock()
        self._is_over = False
        directory = Path(run.directory)
        directory.mkdir(parents=True, exist_ok=True)
        name = f"worker-{worker}"
        has_records = bool(plan.producers)
        self.recorder = Recorder(directory, worker, run.run_id, fire, has_records=has_records)
        bootstrap = Bootstrap(properties, name, self.recorder)
        self._shared = Shared(
            run_id=run.run_id,
            seed=plan.seed,
            bootstrap=bootstrap,
            coordinators=Coordinators(properties, name, plan.members_per_connection, self.recorder),
            catalogue=Catalogue(bootstrap.connection, name, self.recorder),
            recorder=self.recorder,
            consumer_session_ms=run.consumer_session_ms,
            words=[],
        )
        self._worker = worker
        self._producing: list[gevent.Greenlet] = []
        self._looking: gevent.Greenlet | None = None
        self._stopwatch = Stopwatch()

    @property
    def words(self) -> list[str]:
        """Sentences that the run's record should have of this process."""
        words = self._shared.words
        more = len(words) - WORDS_MAX
        return words if more <= 0 else [*words[:WORDS_MAX], f"and {more} more"]

    def work(self) -> None:
        """Carry out the plan until its end, then `stop`. Raises Closed, TimedOut, TierError if no broker is
        there."""
        topics = {topic.name for topic in self._plan.topics}
        self._shared.catalogue.look({*topics, OFFSETS_TOPIC})
        offsets_partitions = self._shared.catalogue.partitions.get(OFFSETS_TOPIC, 1)
        self._shared.coordinators.offsets_partitions = offsets_partitions
        self._shared.bootstrap.learn(self._shared.catalogue.brokers)
        growing = {action.subject for action in self._plan.actions if action.kind == GROW}
        if growing:
            self._looking = gevent.spawn(self._look, growing)
        mine = self._plan.producers[self._worker :: self._run.workers]
        self._producing = [gevent.spawn(Producer(plan, self._shared).run) for plan in mine]
        for action in self._plan.actions:
            if action.subject in self._mine and action.kind != GROW:
                if self._is_stopped_until(action.at_s):
                    break
                self._act(action)
        self._is_stopped_until(self._plan.duration_s)
        self.stop()

    def stop(self) -> None:
        """End the record, then let all members leave. Harmless when repeated."""
        self._stopping.set()
        with self._ending:
            if not self._is_over:
                self._is_over = True
                self._end()

    def pulse(self) -> dict[str, Any]:
        """What happened since the last pulse."""
        self.recorder.flush()
        states = Counter(member.state for member, _ in self._members.values() if member.state != ENDED)
        without = {member.plan.group_id for member, _ in self._members.values() if member.state == LOST}
        return {
            **self.recorder.pulse(),
            "states": dict(states),
            "without_coordinator": list(without),
            "needed_s": self._stopwatch.look(),
        }

    def _end(self) -> None:
        self.recorder.close_record()
        gevent.killall(self._producing)
        gevent.sleep(GRACE_S)
        greenlets = [greenlet for _, greenlet in self._members.values()]
        gevent.killall(greenlets, Leaving, block=False)
        gevent.joinall(greenlets, timeout=LEAVE_S)
        gevent.killall(greenlets, block=True)
        if self._looking is not None:
            self._looking.kill()
        self._shared.coordinators.close()
        self._shared.bootstrap.close()

    def _is_stopped_until(self, at_s: float) -> bool:
        """Wait for a moment of the plan. Returns whether the crew was stopped before."""
        return bool(self._stopping.wait(max(0.0, (self._run.began_us - now_us()) / 1e6 + at_s)))

    def _act(self, action: Action) -> None:
        if action.kind == START:
            self._start(self._mine[action.subject])
        elif action.subject in self._members:
            _ACTS[action.kind](self, action)

    def _start(self, plan: MemberPlan) -> None:
        before = self._members.get(plan.name)
        if before is not None and before[0].state != ENDED and not before[0].is_ending:
            return  # it runs
        life = self._lives[plan.name] = self._lives.get(plan.name, 0) + 1
        member_class = ConsumerMember if plan.protocol == CONSUMER else ClassicMember
        member = member_class(plan, life, self._shared)
        self._members[plan.name] = member, gevent.spawn(_live_after, before and before[1], member)

    def _leave(self, action: Action) -> None:
        member, greenlet = self._members[action.subject]
        member.is_ending = True
        greenlet.kill(Leaving, block=False)

    def _crash(self, action: Action) -> None:
        member, greenlet = self._members[action.subject]
        member.is_ending = True
        greenlet.kill(block=False)

    def _sleep(self, action: Action) -> None:
        """Let a member process for a while. It is written down as a fault: its group waits for it, and the
        server is not blamed for that."""
        self._members[action.subject][0].sleep_for(action.value)
        self.recorder.fault(SLEEP, action.subject, action.value)

    def _cut(self, action: Action) -> None:
        self._members[action.subject][0].cut()

    def _look(self, topics: set[str]) -> None:
        while True:
            gevent.sleep(LOOK_S)
            try:
                self._shared.catalogue.look(topics)
            except (Closed, TimedOut):
                continue


_ACTS: Final[Mapping[str, Callable[[Crew, Action], None]]] = {
    LEAVE: Crew._leave,
    CRASH: Crew._crash,
    SLEEP: Crew._sleep,
    CUT: Crew._cut,
}


def _live_after(before: gevent.Greenlet | None, member: Member) -> None:
    """Start a client again once its old life has ended."""
    if before is not None:
        before.join()
    member.run()
