"""The offsets partitions of a Kafka cluster move to a tier, and back, also before they are here, in one
deterministic world.

The first phase has faults: the controller's leader and partitions' leaders change, nodes die, requests and
answers are lost, operators pause, resume and abort, and meddle with the partitions. In the second one nobody
meddles any more, and everything has to be as the goal says, soon. At every step a commit that was
acknowledged is to be had from whoever leads, and no partition goes long without anybody who serves it.
"""

from __future__ import annotations

import random
from typing import Any, ClassVar

from actors.ground.upstream_goal import (
    ABORTED,
    ATTACHED,
    DETACHED,
    GOAL_NAMES,
    LEAVING,
    NEXT_GOALS,
    PAUSED,
)
from actors.upstream.asks import Ask
from actors.upstream.image import NO_LEADER
from actors.upstream.joining import ours_in
from actors.upstream.leadership import Leadership
from actors.upstream.moving import Moving, Seen
from actors.upstream.orders import DROP, FOLLOWED, NOTHING, ORDERS, RETAKEN, SEALED, SERVE, SERVED, Standing
from actors.upstream.partitions import Facts, RaftLeader
from actors.upstream.requests import (
    AlterPartition,
    AlterPartitionReassignments,
    CreateTopic,
    ReassignedPartition,
)
from tests.simulation.moving.site import Site
from tests.simulation.upstream.kraft import Kraft, State
from tests.simulation.upstream.virtual import BROKERS, TIER, VirtualTier, log_dir

TOPIC = "__consumer_offsets"
COUNT = 4
ADDRESSES = {broker: ("host", 9_000 + broker) for broker in BROKERS}
STEP_MS = 10
FAULTS_MS = 25_000
REST_MS = 400_000
STABLE_MS = 3_000
LOST_MAX_MS = 4_000
"""After how long an answer is given up at the latest."""
GIVEN_BACK_MS = 2_000
"""How long after an abort a partition may still join if nothing is lost."""
FORCED: dict[int, str] = {1: SERVED, 2: FOLLOWED, 3: SEALED}
"""The rest of a seed by `FORCED_EVERY` -> the phase in which brokers are made to lead in its world what the
tier alone has."""
FORCED_EVERY = 5
FORCED_CHANCE = 0.1
"""How likely that is in one step of what the tier leads upstream and does not serve."""
LAGS_CHANCE = 0.005
"""How likely it is in one step of such a world that a broker stops to fetch for a second."""
HANGS_MS = 2 * 60_000
UNSERVED_MAX_MS = 60_000
"""How long a partition may go without a commit, also while nodes die."""


class World(VirtualTier):
    """Everything at one virtual time."""

    step_ms: ClassVar[int] = STEP_MS
    late_ms: ClassVar[tuple[int, ...]] = (5, 5, 20, 200)

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        super().__init__(rng, Kraft(refuses_cordoned=rng.random() < 0.5))
        self.seed = seed
        self.unclean = random.Random(f"{seed} unclean")
        """What decides about unclean elections, so that worlds without them stay as they are."""
        self.kraft.has_elr = self.random.random() < 0.5
        self.goal = DETACHED
        self.loss = self.random.choice((0.0, 0.05, 0.3))
        self.balances = self.random.random() < 0.5
        self.calm = False
        self.begun = self.forced = 0
        self.forced_phase = FORCED.get(seed % FORCED_EVERY)
        self.gave_back = 0
        self.left = 0
        self.joining_ms = [0] * COUNT
        """The time since which each partition joins though the present controller knows that it is not to."""
        for broker in BROKERS:
            self.kraft.register(broker, log_dir(broker))
        for node in TIER:
            self.kraft.register(node, log_dir(node), cordoned=True)
        self.site = Site(self.kraft, TOPIC, TIER, COUNT, self.random)
        if self.random.random() < 0.8:
            rows = [(BROKERS[i % 3], BROKERS[(i + 1) % 3], BROKERS[(i + 2) % 3]) for i in range(COUNT)]
            self.kraft.create(TOPIC, rows)
        self.leaders = {index: RaftLeader(self.random.choice(TIER), 1, TIER) for index in range(COUNT)}
        self.site.leaders = self.leaders
        self._lead_anew()
        self._see()

    def run(self) -> None:
        """Play both phases."""
        self._at(self.random.choice((0, 1_000)), lambda: self._want(ATTACHED))
        if self.random.random() < 0.3:
            self._at(self.random.choice((1_500, 2_500, 4_000)), lambda: self._want(ABORTED))
        if self.forced_phase == SERVED:
            for after_ms in range(4_000, FAULTS_MS, 1_000):
                self._at(after_ms, lambda: self._force(0.3))
        if self.forced_phase == SEALED:
            for after_ms in range(4_000, FAULTS_MS, 8_000):
                self._at(after_ms, lambda: self._want(LEAVING))
                self._at(after_ms + 4_000, lambda: self._want(ATTACHED))
        self._at(0, self._meddle)
        self._at(0, self._look)
        self._at(0, self._idle)
        while self.now_ms < FAULTS_MS:
            self._step()
        self._settle()
        stable_since = self.now_ms
        while self.now_ms - stable_since < STABLE_MS:
            self._step()
            if self.unfinished():
                stable_since = self.now_ms
            assert self.now_ms < FAULTS_MS + REST_MS, f"it does not end: {self.unfinished()}"
        for index in self.site.forced:
            lost = self.site.lacking(index, self.site.led_outside(index) or [])
            assert not lost, f"{len(lost)} commits of {index} are lost, which the tier alone had"

    def unfinished(self) -> list[str]:
        """Return what is not as the goal says."""
        wrong = []
        for index in range(COUNT):
            state, phase = self.kraft.partitions.get((TOPIC, index)), self.site.shards[index].phase
            wanted = self.leaders[index]
            if self.goal == ATTACHED or phase == SERVED:
                right = state is not None and phase == SERVED and self._is_led(state, wanted)
            else:
                right = phase == NOTHING and (state is None or not ours_in(state, frozenset(TIER)))
                right &= state is None or state.leader in BROKERS
            if not right:
                wrong.append(f"{index}: {phase} {state}, wanted {wanted}, goal {GOAL_NAMES[self.goal]}")
        taken = any(shard.phase == SERVED for shard in self.site.shards)
        # What waits for one that is dead can be neither finished nor cancelled before it is back.
        waits = any(set(state.adding_replicas) & set(self.dead) for state in self.kraft.partitions.values())
        if (self.goal == LEAVING and not waits) or (self.goal == ABORTED and not taken):
            wrong.append("all is given back, and it is not detached")
        if self.goal != DETACHED:
            brokers = self.kraft.brokers
            wrong += [
                f"{node} is not cordoned" for node in self._alive() if not brokers[node].cordoned_log_dirs
            ]
        return wrong

    def _is_led(self, state: State, wanted: RaftLeader) -> bool:
        """Return whether a partition is led as Raft says, and has all replicas that it can have."""
        first = next((each for each in state.replicas if each not in self.dead), None)
        is_right = state.leader == first == wanted.broker_id
        is_whole = set(self._alive()) <= set(state.isr) <= set(TIER)
        is_waiting = bool(set(state.adding_replicas) & set(self.dead))
        return is_right and is_whole and (is_waiting or set(state.replicas) <= set(TIER))

    def _settle(self) -> None:
        """Begin the second phase."""
        self.calm, self.loss = True, 0.0
        if self.random.random() < 0.6:
            self._revive_all()
        if self.goal == PAUSED or (self.goal == ATTACHED and self.random.random() < 0.5):
            self._want(self.random.choice((ATTACHED, ABORTED, LEAVING)))
        self._cancel_between_brokers()

    def _cancel_between_brokers(self) -> None:
        """Take back what somebody moves from brokers to brokers, which is waited for."""
        for key, state in list(self.kraft.partitions.items()):
            adding = state.adding_replicas
            is_led_outside = key[1] in self._led_outside()
            if adding and is_led_outside and not set(adding) & set(TIER):
                self.kraft.reassign(ReassignedPartition(*key, None))

    def _want(self, goal: int) -> None:
        if goal in NEXT_GOALS[self.goal]:
            self.goal = goal
            self._turn()

    def _step(self) -> None:
        self._pass_time()
        if self.forced_phase in (FOLLOWED, SEALED):
            self._force(FORCED_CHANCE)
        if self.forced_phase == SEALED and self.unclean.random() < LAGS_CHANCE:
            self.site.hangs_ms[self.unclean.choice(BROKERS)] = self.now_ms + 1_000
        offset = self.kraft.offset
        self.site.step(self.now_ms, STEP_MS)
        if self.kraft.offset != offset:
            self._see()
        self._check_given_back()
        for index, unserved_ms in enumerate(self.site.unserved_ms):
            if (TOPIC, index) in self.kraft.partitions:
                assert unserved_ms < UNSERVED_MAX_MS, f"nobody has served {index} for {unserved_ms} ms"

    def _check_given_back(self) -> None:
        """Check that an abort takes partitions back that are not here yet."""
        for index in range(COUNT):
            state = self.kraft.partitions.get((TOPIC, index))
            joins = state is not None and state.leader in BROKERS and ours_in(state, frozenset(TIER))
            joins = joins and index not in self.site.forced and self.site.shards[index].phase != RETAKEN
            # An answer may have been lost until a moment ago.
            is_lossy = self.loss or 0 < self.now_ms - FAULTS_MS < LOST_MAX_MS
            if self.goal != ABORTED or not joins or is_lossy:
                self.joining_ms[index] = self.now_ms
            assert self.now_ms - self.joining_ms[index] < GIVEN_BACK_MS, f"{index} still joins: {state}"

    def _idle(self) -> None:
        self.kraft.offset += 1
        if self.balances:
            self._balance()
        if self.calm:
            self._cancel_between_brokers()
        for node in TIER:
            if node not in self.dead:
                self.kraft.unfence(node)
        self._see()
        self._at(200, self._idle)

    # The controller's leader.

    def _lead_anew(self) -> None:
        """Have another controller lead, which knows nothing."""
        self.moving, self.leadership = Moving(), Leadership()
        self.joining_ms = [self.now_ms] * COUNT

    def _turn(self) -> None:
        assert self._seen is not None
        image, moving, leadership = self._seen, self.moving, self.leadership
        topic_id = image.topic_ids.get(TOPIC)
        states = {index: state for (topic, index), state in image.partitions.items() if topic == TOPIC}
        seen = Seen(
            self.goal,
            image.metadata_offset,
            topic_id,
            states,
            image.brokers,
            ADDRESSES,
            dict(self.leaders),
            COUNT,
            frozenset(TIER),
            can_cordon=True,
            refuses_cordoned=self.kraft.refuses_cordoned and self.now_ms > 2_000,
        )
        for request in moving.turn(seen, self.now_ms).requests:
            self._check(request, seen)
            self._send(moving, request)
        for ask in moving.asks(self.now_ms):
            self._tell(moving, ask)
        if moving.is_leaving:
            for node in TIER:
                self._ask_given(moving, node)
        if moving.is_clear:
            self.left += self.goal == LEAVING
            self.goal = DETACHED
            self.gave_back += 1
        if self.goal == DETACHED:
            return
        facts = Facts(
            image.metadata_offset,
            TOPIC,
            topic_id or bytes(16),
            states,
            {index: self.leaders[index] for index in moving.served},
            image.brokers,
            frozenset(TIER),
            frozenset(node for node, died_ms in self.dead.items() if self.now_ms - died_ms > 100),
            (),
            True,
            seen.refuses_cordoned,
            moving.uncordoned,
        )
        for wanted in leadership.turn(facts, self.now_ms).requests:
            self._send(leadership, wanted)

    def _check(self, request: object, seen: Seen) -> None:
        """Check a request of the moving by what was to be seen."""
        if isinstance(request, CreateTopic):
            assert seen.goal == ATTACHED
            return
        if isinstance(request, AlterPartition):
            for row in request.partitions:
                is_ours = {each for each, _ in row.new_isr_with_epochs} <= set(TIER)
                assert is_ours or seen.goal == LEAVING, f"{row} though {GOAL_NAMES[seen.goal]}"
            return
        assert isinstance(request, AlterPartitionReassignments), request
        for each in request.partitions:
            state = seen.partitions[each.partition_index]
            index = each.partition_index
            if each.replicas is not None and state.leader in TIER:
                others = [
                    other for other in seen.partitions if other != index and self._is_leaving(seen, other)
                ]
                assert not others, f"{index} leaves while {others} are under way"
            assert index not in self.moving.served, f"{index} is served, and moved"
            if self.site.shards[index].phase == RETAKEN:
                continue
            if each.replicas is not None and set(each.replicas) & set(TIER):
                assert seen.goal in (ATTACHED, PAUSED), f"{index} is begun though {GOAL_NAMES[seen.goal]}"
                is_begun = not ours_in(state, frozenset(TIER))
                assert not is_begun or seen.goal == ATTACHED, f"{index} is begun though it is paused"
                others = [
                    other
                    for other, its in seen.partitions.items()
                    if other != index
                    and its.leader not in (*TIER, NO_LEADER)
                    and set(its.adding_replicas) & set(TIER)
                    and self.site.shards[other].phase != RETAKEN
                ]
                assert not is_begun or not others, f"{index} is begun while {others} are under way"
                self.begun += is_begun

    def _is_leaving(self, seen: Seen, index: int) -> bool:
        """Return whether a partition is seen to be on its way back."""
        state = seen.partitions[index]
        return state.leader in TIER and bool(set(state.adding_replicas) & set(BROKERS))

    def _send(self, reconcile: Any, request: Any) -> None:
        def arrive() -> None:
            if self.random.random() < self.loss:
                self._at(self.random.choice((10, LOST_MAX_MS)), lambda: reconcile.lost(request, self.now_ms))
                return
            answer = self.kraft.ask(request)
            self._see()
            if self.random.random() < self.loss:
                self._at(self.random.choice((10, LOST_MAX_MS)), lambda: reconcile.lost(request, self.now_ms))
            else:
                self._at(self.random.randint(1, 40), lambda: reconcile.answered(request, answer, self.now_ms))

        self._at(self.random.randint(1, 40), arrive)

    def _tell(self, moving: Moving, ask: Ask) -> None:
        def arrive() -> None:
            standing: Standing | None = None
            leader = self.leaders[ask.partition]
            if leader.term != ask.term:
                standing = Standing(leads=False)
            elif self.random.random() >= self.loss:
                self._check_order(ask)
                source, shard = ask.order.source, self.site.shards[ask.partition]
                led = None if source is None else self.site.logs.get((source.broker_id, ask.partition))
                standing = shard.take(ask.order, self.now_ms, self.random.choice((0, 300)), led)
            if self.random.random() < self.loss:
                standing = None
            self._at(self.random.randint(1, 20), lambda: moving.told(ask, standing))

        # Calls of one leader of the controller come in their order; another begins when its lease is over.
        self._at(10, arrive)

    def _check_order(self, ask: Ask) -> None:
        """Check that nothing is served that a broker could get back, and nothing removed that brokers count
        on."""
        order = ask.order.order
        assert order in ORDERS
        if order in (SERVE, DROP) and ask.partition not in self.site.forced:
            isr = self.kraft.partitions[TOPIC, ask.partition].isr
            assert order == SERVE or not set(isr) & set(TIER), f"{ask.partition} is dropped in the ISR {isr}"
            assert order == DROP or not set(isr) & set(BROKERS), (
                f"{ask.partition} is to be served beside the ISR {isr}"
            )

    def _ask_given(self, moving: Moving, node: int) -> None:
        """Ask a node how far brokers are."""
        assert self._seen is not None
        offset = self._seen.metadata_offset

        def arrive() -> None:
            if node not in self.dead and self.random.random() >= self.loss:
                given = self.site.given(node)
                self._at(self.random.randint(1, 20), lambda: moving.given(node, given, offset))

        self._at(self.random.randint(1, 10), arrive)

    # What others do.

    def _meddle(self) -> None:
        if self.calm:
            return
        deeds = (
            self._elect_in_raft,
            self._elect_in_raft,
            self._die,
            self._revive_all,
            self._lead_anew,
            self._lead_anew,
            self._change_goal,
            self._change_goal,
            self._cancel,
            self._reassign,
            self._balance,
            self._restart_broker,
            self._hang,
        )
        self.random.choice(deeds)()
        self._see()
        self._at(self.random.choice((50, 300, 1_000, 3_000)), self._meddle)

    def _elect(self, index: int) -> None:
        super()._elect(index)
        self.site.change_leader_here(index)

    def _change_goal(self) -> None:
        self._want(self.random.choice(sorted(NEXT_GOALS[self.goal] - {DETACHED})))

    def _led_outside(self) -> list[int]:
        """Return what brokers lead, but for what they were made to lead: a reassignment is under way then."""
        return [
            index
            for (topic, index), state in self.kraft.partitions.items()
            if state.leader in BROKERS and index not in self.site.forced
        ]

    def _cancel(self) -> None:
        """Take a reassignment back, as an operator may."""
        for index in self._led_outside():
            self.kraft.reassign(ReassignedPartition(TOPIC, index, None))

    def _reassign(self) -> None:
        """Move a partition that is not here yet: between brokers, or to some nodes of the tier, too."""
        outside = self._led_outside()
        if outside:
            is_known = self.goal != DETACHED and self.random.random() < 0.3
            able = (*BROKERS, *TIER) if is_known else BROKERS
            target = tuple(self.random.sample(able, self.random.randint(1, 3)))
            self.kraft.reassign(ReassignedPartition(TOPIC, self.random.choice(outside), target))

    def _force(self, chance: float) -> None:
        """Have a broker lead that lacks commits, as an operator may who believes that the tier is lost."""
        states = self.kraft.partitions
        able = [
            index
            for index, shard in enumerate(self.site.shards)
            if shard.phase == self.forced_phase
            and index not in self.site.forced
            and (states[TOPIC, index].leader in TIER or shard.phase in (SERVED, SEALED))
            and states[TOPIC, index].leader not in BROKERS
        ]
        brokers = tuple(each for each in BROKERS if not self.kraft.brokers[each].fenced)
        if self.calm or not able or not brokers or self.unclean.random() >= chance:
            return
        index = self.unclean.choice(able)
        shard, state = self.site.shards[index], states[TOPIC, index]
        followers = tuple(each for each in brokers if each in state.replicas)
        known: int | None = self.unclean.choice((0, 0, len(shard.log) // 2))
        epochs = self.unclean.choice((1, 2))
        if followers and (shard.released_epoch == state.leader_epoch or self.unclean.random() < 0.5):
            brokers, known = tuple(self.unclean.sample(followers, len(followers))), None
        elif shard.released_epoch >= 0:
            epochs = 2
        named = brokers[: self.unclean.randint(1, 3)]
        self.site.force(index, named, known, is_done=self.unclean.random() < 0.5, epochs=epochs)
        self.forced += 1
        self._see()

    def _hang(self) -> None:
        """Let a broker stop to fetch from the tier."""
        self.site.hangs_ms[self.random.choice(BROKERS)] = self.now_ms + self.random.choice((1_000, HANGS_MS))


def run(seed: int) -> World:
    """Play a seed. Raises AssertionError for what must not be."""
    world = World(seed)
    world.run()
    return world
