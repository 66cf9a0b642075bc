"""A tier, a KRaft controller and those who meddle with it, in one deterministic world.

The first phase has faults: leaders change, nodes die and come back, tools and balancers move partitions,
topics are created, answers are lost, metadata is late. In the second one nobody meddles any more: everything
has to be as Raft has it, soon.
"""

from __future__ import annotations

import random
from itertools import count
from typing import ClassVar

from actors.upstream.image import NO_LEADER
from actors.upstream.leadership import Leadership, Request
from actors.upstream.partitions import Facts, RaftLeader, Stray
from actors.upstream.requests import Answer, BrokerHeartbeat, PartitionErrors, ReassignedPartition
from actors.upstream.together import keys_of
from tests.simulation.upstream.checks import Checks
from tests.simulation.upstream.kraft import Key, Kraft, State
from tests.simulation.upstream.virtual import BROKERS, TIER, VirtualTier, log_dir

TOPIC = "__consumer_offsets"
PARTITIONS = 6
STEP_MS = 5
FAULTS_MS = 15_000
REST_MS = 150_000
STABLE_MS = 3_000


class World(VirtualTier):
    """Everything at one virtual time."""

    step_ms: ClassVar[int] = STEP_MS
    late_ms: ClassVar[tuple[int, ...]] = (1, 5, 5, 5, 20, 200)

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        super().__init__(rng, Kraft(refuses_cordoned=rng.random() < 0.6))
        self.kraft.has_elr = self.random.random() < 0.5
        self.can_cordon = self.kraft.refuses_cordoned or self.random.random() < 0.7
        self.leadership = Leadership()
        self.checks = Checks(refuses_cordoned=self.kraft.refuses_cordoned)
        self.factors: dict[Key, int] = {}
        self.holders: dict[Key, set[int]] = {}
        """Partition of others -> the brokers that have its records."""
        self.loss = self.random.choice((0.0, 0.05, 0.3))
        self.insists = self.random.random() < 0.3
        self._topics = count()
        for broker_id in (*BROKERS, *TIER):
            self.kraft.register(broker_id, log_dir(broker_id))
        self.kraft.create(TOPIC, [TIER] * PARTITIONS)
        self.leaders = {index: RaftLeader(self.random.choice(TIER), 1, TIER) for index in range(PARTITIONS)}
        self._create_topic()
        self.random.choice(self.late_ms)  # what is seen first is seen at once: seeds keep their worlds
        self._see()

    def run(self) -> None:
        """Play both phases."""
        self._at(0, self._meddle)
        self._at(0, self._look)
        self._at(0, self._idle)
        while self.now_ms < FAULTS_MS:
            self._step()
        if self.random.random() < 0.6:
            self._revive_all()
        self.loss, self.insists = 0.0, False
        stable_since = self.now_ms
        while self.now_ms - stable_since < STABLE_MS:
            self._step()
            if self.unfinished():
                stable_since = self.now_ms
            assert self.now_ms < FAULTS_MS + REST_MS, f"it does not converge: {self.unfinished()}"

    def unfinished(self) -> list[str]:
        """Return what is not as it should be in the end."""
        wrong = []
        for index, leader in self.leaders.items():
            state = self.kraft.partitions[TOPIC, index]
            moving = state.adding_replicas or state.removing_replicas
            if set(state.adding_replicas) & set(self.dead) and set(state.isr) <= set(state.adding_replicas):
                moving = ()  # this can be neither finished nor cancelled before the dead are back
            first = next((each for each in state.replicas if each not in self.dead), None)
            right = state.leader == first == leader.broker_id
            whole = set(self._alive()) <= set(state.isr) <= set(state.replicas) <= set(TIER)
            if state.leader in BROKERS:
                continue  # somebody else takes it over again
            if moving or not right or not whole:
                wrong.append(f"{index}: {state}, wanted {leader}")
        wrong += [f"{key}: {state}" for key, state in self._foreign() if set(state.replicas) & set(TIER)]
        if self.can_cordon:
            brokers = self.kraft.brokers
            wrong += [f"{node} not cordoned" for node in self._alive() if not brokers[node].cordoned_log_dirs]
        return wrong

    def _step(self) -> None:
        self._pass_time()
        self._keep_books()

    def _idle(self) -> None:
        """Write what an idle controller writes, so that offsets go on; and what brokers and nodes do."""
        self.kraft.offset += 1
        self._fetch()
        for node in TIER:
            self._unfence(node)
        self._see()
        self._at(1_500, self._idle)

    def _facts(self) -> Facts:
        assert self._seen is not None
        image = self._seen
        strays = tuple(
            Stray(topic, image.topic_ids[topic], index, state)
            for (topic, index), state in image.partitions.items()
            if topic != TOPIC and set(state.replicas) & set(TIER)
        )
        return Facts(
            image.metadata_offset,
            TOPIC,
            image.topic_ids[TOPIC],
            {index: state for (topic, index), state in image.partitions.items() if topic == TOPIC},
            dict(self.leaders),
            image.brokers,
            frozenset(TIER),
            frozenset(node for node, died_ms in self.dead.items() if self.now_ms - died_ms > 100),
            strays,
            self.can_cordon,
            # Whether a controller refuses is known by its version, or found out by its refusals.
            self.kraft.refuses_cordoned and self.now_ms > 2_000,
        )

    def _turn(self) -> None:
        facts = self._facts()
        requests, reports = self.leadership.turn(facts, self.now_ms)
        for report in reports:
            self.checks.reported(report, self.now_ms)
        for request in requests:
            self.checks.sent(request, facts, set(self.dead), self.now_ms)
            self._send(request)

    def _send(self, request: Request) -> None:
        def arrive() -> None:
            if self.random.random() < self.loss:
                self._at(self.random.choice((1, 4_000)), lambda: self._lost(request))
                return
            answer = self.kraft.ask(request)
            self._see()
            if self.random.random() < self.loss:
                self._at(self.random.choice((1, 4_000)), lambda: self._lost(request))
            else:
                self._at(self.random.randint(1, 40), lambda: self._answered(request, answer))

        self._at(self.random.randint(1, 40), arrive)

    def _answered(self, request: Request, answer: Answer) -> None:
        self._ended(request, answer)
        self.leadership.answered(request, answer, self.now_ms)
        self._turn()

    def _lost(self, request: Request) -> None:
        self._ended(request, None)
        self.leadership.lost(request, self.now_ms)

    def _ended(self, request: Request, answer: Answer | None) -> None:
        if isinstance(request, BrokerHeartbeat):
            return
        assert self._seen is not None
        ends = []
        for key, wire_key in keys_of(request):
            how = "lost"
            if isinstance(answer, PartitionErrors):
                error = answer.partitions.get(wire_key, answer.error_code).name
                granted = error in ("none", "election_not_needed", "new_leader_elected")
                how = "granted" if granted else "refused"
            ends.append((key, how))
        self.checks.ended(ends, self._seen.metadata_offset, self.now_ms)

    def _meddle(self) -> None:
        """Do one thing that others do, and see to it that there is a next one."""
        if self.now_ms >= FAULTS_MS:
            return
        deeds = (
            self._elect_in_raft,
            self._elect_in_raft,
            self._die,
            self._revive_all,
            self._balance,
            self._reassign,
            self._bring_in,
            self._create_topic,
            self._restart_broker,
            self._fetch,
            self._hiccup,
            self._break_in,
        )
        self.random.choice(deeds)()
        if self.insists:
            self._insist()
        self._see()
        self._at(self.random.choice((20, 100, 300, 1_000)), self._meddle)

    def _hiccup(self) -> None:
        """Fence a node that was silent for too long, and is there again."""
        node = self.random.choice(TIER)
        self.kraft.fence(node)
        if node not in self.dead:
            self._at(self.random.choice((1, 500)), lambda: self._unfence(node))

    def _break_in(self) -> None:
        """Have a broker lead one partition of ours, as somebody may bring about who knows how."""
        if self.random.random() < 0.1:
            key = (TOPIC, PARTITIONS - 1)
            self.kraft.reassign(ReassignedPartition(*key, (BROKERS[0],)))
            self.kraft.set_isr(key, (*self.kraft.partitions[key].isr, BROKERS[0]))

    def _unfence(self, node: int) -> None:
        if node not in self.dead:
            self.kraft.unfence(node)
            self._see()

    def _insist(self) -> None:
        """Move one partition away, whenever it is back."""
        state = self.kraft.partitions[TOPIC, 0]
        others = tuple(each for each in state.replicas if each != state.leader)
        if others:
            self.kraft.reassign(ReassignedPartition(TOPIC, 0, others))

    def _reassign(self) -> None:
        able = (*TIER, *BROKERS) if self.random.random() < 0.5 else TIER
        target = tuple(self.random.sample(able, self.random.randint(1, 3)))
        self.kraft.reassign(ReassignedPartition(TOPIC, self.random.randrange(PARTITIONS), target))

    def _bring_in(self) -> None:
        foreign = [key for key, _ in self._foreign()]
        if foreign:
            topic, index = self.random.choice(foreign)
            target = tuple(self.random.sample((*TIER, *BROKERS), self.random.randint(1, 3)))
            self.kraft.reassign(ReassignedPartition(topic, index, target))

    def _create_topic(self) -> None:
        assignments = self.kraft.placement(4, self.random.randint(1, 2))
        if assignments:
            self.kraft.create(f"topic-{next(self._topics)}", assignments)

    def _fetch(self) -> None:
        """Let the brokers that follow a broker be in its ISR."""
        for (topic, index), state in self._foreign():
            if state.leader in BROKERS:
                isr = tuple(
                    each
                    for each in state.replicas
                    if each in state.isr or (each in BROKERS and not self.kraft.brokers[each].fenced)
                )
                self.holders.setdefault((topic, index), set()).update(set(isr) & set(BROKERS))
                self.kraft.set_isr((topic, index), isr)

    def _foreign(self) -> list[tuple[Key, State]]:
        return [(key, state) for key, state in self.kraft.partitions.items() if key[0] != TOPIC]

    def _keep_books(self) -> None:
        """Check that a partition of others is led by a broker that has its records."""
        for key, state in self._foreign():
            holders = self.holders.setdefault(key, set())
            if state.leader == NO_LEADER or state.leader in TIER:
                continue
            assert not holders or state.leader in holders, f"{key} has lost its records to {state}"
            holders.update(set(state.isr) & set(BROKERS))


def run(seed: int) -> World:
    """Play a seed. Raises AssertionError for what must not be."""
    world = World(seed)
    world.run()
    return world
