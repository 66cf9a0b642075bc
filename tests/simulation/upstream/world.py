"""A tier, a KRaft controller and those who meddle with it, in one deterministic world.

The first phase has faults: leaders change, nodes die and come back, tools and balancers move partitions,
topics are created, answers are lost, metadata is late. In the second one nobody meddles any more: everything
has to be as Raft has it, soon.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count

from actors.upstream.image import NO_LEADER
from actors.upstream.leadership import Leadership, Request
from actors.upstream.partitions import Facts, RaftLeader, Stray
from actors.upstream.requests import PREFERRED, Answer, BrokerHeartbeat, PartitionErrors, ReassignedPartition
from actors.upstream.together import keys_of
from tests.simulation.upstream.checks import Checks
from tests.simulation.upstream.kraft import Image, Key, Kraft, State

TOPIC = "__consumer_offsets"
PARTITIONS = 6
TIER = (1001, 1002, 1003)
BROKERS = (1, 2, 3)
STEP_MS = 5
FAULTS_MS = 15_000
REST_MS = 150_000
STABLE_MS = 3_000
SESSION_MS = 9_000
EVERY_MS = 100
"""How often the reconcile looks without news."""


class World:
    """Everything at one virtual time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0
        self.kraft = Kraft(refuses_cordoned=self.random.random() < 0.6)
        self.kraft.has_elr = self.random.random() < 0.5
        self.can_cordon = self.kraft.refuses_cordoned or self.random.random() < 0.7
        self.leadership = Leadership()
        self.checks = Checks(refuses_cordoned=self.kraft.refuses_cordoned)
        self.dead: dict[int, int] = {}
        """Dead node -> when it died."""
        self.factors: dict[Key, int] = {}
        self.holders: dict[Key, set[int]] = {}
        """Partition of others -> the brokers that have its records."""
        self.loss = self.random.choice((0.0, 0.05, 0.3))
        self.insists = self.random.random() < 0.3
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = count()
        self._seen: Image | None = None
        self._topics = count()
        for broker_id in (*BROKERS, *TIER):
            self.kraft.register(broker_id, _dir(broker_id))
        self.kraft.create(TOPIC, [TIER] * PARTITIONS)
        self.leaders = {index: RaftLeader(self.random.choice(TIER), 1, TIER) for index in range(PARTITIONS)}
        self._create_topic()
        self._see()

    def run(self) -> None:
        """Play both phases."""
        self._at(0, self._meddle)
        self._at(0, self._look)
        self._at(0, self._idle)
        while self.now_ms < FAULTS_MS:
            self._step()
        if self.random.random() < 0.6:
            self._revive()
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
        self.now_ms += STEP_MS
        while self._due and self._due[0][0] <= self.now_ms:
            heapq.heappop(self._due)[2]()
        for node, died_ms in self.dead.items():
            if self.now_ms - died_ms >= SESSION_MS:
                self.kraft.fence(node)
        self._keep_books()

    def _at(self, after_ms: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_ms + after_ms, next(self._number), what))

    def _look(self) -> None:
        """Have the reconcile take its turn, now and then, and soon after news."""
        self._turn()
        self._at(EVERY_MS, self._look)

    def _idle(self) -> None:
        """Write what an idle controller writes, so that offsets go on; and what brokers and nodes do."""
        self.kraft.offset += 1
        self._fetch()
        for node in TIER:
            self._unfence(node)
        self._see()
        self._at(1_500, self._idle)

    def _see(self) -> None:
        image = self.kraft.image()
        delay = self.random.choice((1, 5, 5, 5, 20, 200))

        def shown() -> None:
            if self._seen is None or image.metadata_offset > self._seen.metadata_offset:
                self._seen = image
                self._turn()

        if self._seen is None:
            self._seen = image
        else:
            self._at(delay, shown)

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
            self._revive,
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

    def _alive(self) -> list[int]:
        return [node for node in TIER if node not in self.dead]

    def _elect_in_raft(self) -> None:
        index = self.random.randrange(PARTITIONS)
        self.leaders[index] = RaftLeader(
            self.random.choice(self._alive()), self.leaders[index].term + 1, TIER
        )

    def _die(self) -> None:
        if self.dead:
            return
        node = self.random.choice(TIER)
        self.dead[node] = self.now_ms
        for index, leader in self.leaders.items():
            if leader.broker_id == node:
                self.leaders[index] = RaftLeader(self.random.choice(self._alive()), leader.term + 1, TIER)

    def _revive(self) -> None:
        for node in list(self.dead):
            self._come_back(node)

    def _come_back(self, node: int) -> None:
        del self.dead[node]
        if self.random.random() < 0.5:
            self.kraft.register(node, _dir(node), cordoned=self.can_cordon)
        else:
            self.kraft.unfence(node)
        self._see()

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

    def _balance(self) -> None:
        for key in list(self.kraft.partitions):
            self.kraft.elect(key, PREFERRED)

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

    def _restart_broker(self) -> None:
        broker_id = self.random.choice(BROKERS)
        self.kraft.fence(broker_id)
        self._at(self.random.choice((50, 2_000)), lambda: self.kraft.unfence(broker_id))

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


def _dir(broker_id: int) -> bytes:
    return broker_id.to_bytes(16, "big")


def run(seed: int) -> World:
    """Play a seed. Raises AssertionError for what must not be."""
    world = World(seed)
    world.run()
    return world
