"""Moves the partitions of `__consumer_offsets` from the brokers to the tier, one after the other, or gives
back what is not here yet. PURE.

It is a reconcile of what an operator wants and what is to be seen: the upstream's metadata, who leads our
partitions, and what these leaders answer. Nothing else is needed to go on, so that a new leader of the
controller begins with nothing. Partitions whose groups the tier serves are left to
`actors/upstream/leadership.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.ground.image import INTERNAL_TOPIC_CONFIGS, NO_TOPIC_ID
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.ground.upstream_goal import ATTACHED, DETACHED, GIVES_BACK, LEAVING
from actors.upstream import joining, leaving
from actors.upstream.asks import Ask, Asks
from actors.upstream.efforts import STALLED_MS, Effort
from actors.upstream.fresh import Fresh
from actors.upstream.given import GivenLog
from actors.upstream.image import NO_LEADER
from actors.upstream.joining import Step, Wanted, is_ours, ours_in, step, target_of
from actors.upstream.leadership import STALE_STATE
from actors.upstream.moves import Cancel, Move, ToReplicas
from actors.upstream.orders import (
    DROP,
    DROPPING,
    FOLLOW,
    LOOK,
    NOTHING,
    RELEASE,
    RETAKE,
    RETAKEN,
    SEALED,
    SERVE,
    SERVED,
    Order,
    Source,
    Standing,
)
from actors.upstream.partitions import BrokerState, PartitionState, RaftLeader, live_brokers
from actors.upstream.reports import GivenBack, NotGettingOn, NotLeaving, Refused, Taken, TopicMade
from actors.upstream.requests import (
    Answer,
    CreateTopic,
    CreationAnswer,
    PartitionErrors,
    PartitionsRequest,
)
from actors.upstream.sent import Moment, Sent
from actors.upstream.together import GRANTED, Decided, errors_of, keys_of, requests_of

AT_ONCE: Final = 1
"""How many partitions are under way at the same time."""
SEALED_MS: Final = 5_000
"""How long nobody may serve a partition's groups; then they are served here again."""
Request = PartitionsRequest | CreateTopic
MovingReport = Taken | GivenBack | NotGettingOn | NotLeaving | TopicMade | Refused


class Seen(NamedTuple):
    """What is known at one moment."""

    goal: int
    """The goal, one of `actors.ground.upstream_goal`."""
    metadata_offset: int
    topic_id: bytes | None
    """The id of the upstream's `__consumer_offsets`; None: there is no such topic."""
    partitions: Mapping[int, PartitionState]
    brokers: Mapping[int, BrokerState]
    addresses: Mapping[int, tuple[str, int]]
    """Where brokers listen for our nodes."""
    leaders: Mapping[int, RaftLeader]
    """The leaders of all our partitions that have one."""
    partition_count: int
    """How many offsets partitions the tier has."""
    tier: frozenset[int]
    can_cordon: bool = False
    refuses_cordoned: bool = False


class Turn(NamedTuple):
    """What is to be sent now, in any order, and what is to be told."""

    requests: tuple[Request, ...]
    reports: tuple[MovingReport, ...]


class PartitionStanding(NamedTuple):
    """How far one partition is, for people."""

    partition: int
    phase: str
    leader: int
    """The broker that leads it upstream, or NO_LEADER."""
    standing: Standing
    problem: str | None


class Moving:
    """The reconcile, with what it remembers of its own requests and orders."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._asks = Asks()
        self._sent: dict[int, Sent] = {}
        self._created = Sent()
        self._moves: dict[int, Move] = {}
        self._efforts: dict[int, Effort] = {}
        self._steps: dict[int, Step] = {}
        self._seen: Seen | None = None
        self._served: set[int] = set()
        self._leaves: dict[int, Effort] = {}
        self._fresh = Fresh()
        self._refuses_cordoned = False
        self._offset = -1
        self._reports: list[MovingReport] = []
        self.problem: str | None = None
        """Why nothing can be taken over now, in words; None if all is well."""

    def turn(self, seen: Seen, now_ms: int) -> Turn:
        """Return what to ask of the upstream's controller now."""
        moment = Moment(now_ms, seen.metadata_offset)
        self._offset, self._seen = seen.metadata_offset, seen
        self._refuses_cordoned |= seen.refuses_cordoned
        live = seen.tier & live_brokers(seen.brokers)
        self.problem = _problem(seen, live)
        self._fresh.look(seen.partitions, seen.metadata_offset)
        self._steps = self._decided(seen, live, now_ms)
        requests: list[Request] = list(self._created_topic(seen, live, moment))
        requests += requests_of(list(self._moved(seen, moment)), seen.brokers)
        reports, self._reports = tuple(self._reports), []
        return Turn(tuple(requests), reports)

    def answered(self, request: Request, answer: Answer, now_ms: int) -> None:
        """Take note of the answer to a request of a turn."""
        moment = Moment(now_ms, self._offset)
        if isinstance(request, CreateTopic):
            assert isinstance(answer, CreationAnswer), answer
            if answer.error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
                self._created.granted(moment)
            else:
                self._created.refused(moment, is_stale=False)
                self._learn(answer.error_code)
                self.problem = f"{OFFSETS_TOPIC} cannot be made: {answer.error_message or answer.error_code}"
            return
        assert isinstance(answer, PartitionErrors), answer
        for (_, index), error in errors_of(request, answer):
            if error in GRANTED:
                self._sent[index].granted(moment)
            else:
                self._refused(index, error, moment)

    def lost(self, request: Request, now_ms: int) -> None:
        """Take note that a request of a turn has no answer: it may have been carried out, or not."""
        moment = Moment(now_ms, self._offset)
        if isinstance(request, CreateTopic):
            self._created.lost(moment)
            return
        for (_, index), _ in keys_of(request):
            self._sent[index].lost(moment)

    def asks(self, now_ms: int) -> tuple[Ask, ...]:
        """Return what the leaders of our partitions are to be told now, by the last turn."""
        seen = self._seen
        if seen is None or seen.goal == DETACHED:
            return ()
        orders = {index: self._order(seen, index) for index in sorted(seen.leaders)}
        due = self._asks.due(orders, seen.leaders, now_ms)
        for ask in due:
            self._fresh.asked(ask, self._offset)
        return due

    def told(self, ask: Ask, standing: Standing | None) -> None:
        """Take note of what the leader of a partition answers; None: nothing."""
        before, is_new = self._asks.last(ask.partition).phase, not self._asks.is_heard_of(ask.partition)
        self._asks.told(ask, standing)
        last = self._asks.last(ask.partition)
        self._fresh.told(ask, is_answer=self._asks.is_settled(ask.partition))
        if last.phase in (SERVED, SEALED) and ask.partition not in self._served:
            self._served.add(ask.partition)
            if not is_new:  # one that was here before this leader of the controller began is no news
                self._reports.append(Taken(OFFSETS_TOPIC, ask.partition, last.next_offset, last.records))
        elif last.phase in (NOTHING, DROPPING, RETAKEN):
            self._served.discard(ask.partition)
            if before == SEALED and last.phase != RETAKEN:
                self._reports.append(GivenBack(OFFSETS_TOPIC, ask.partition))

    def given(self, broker_id: int, logs: Mapping[int, GivenLog], asked_offset: int) -> None:
        """Take note of the logs that a node, as a broker of this id, gives to brokers, and of the offset of
        the metadata that was known when it was asked."""
        self._fresh.given(broker_id, logs, asked_offset)

    @property
    def is_leaving(self) -> bool:
        """Whether it has to be known how far brokers are."""
        return self._seen is not None and self._seen.goal == LEAVING

    @property
    def served(self) -> frozenset[int]:
        """The partitions whose groups the tier serves, and that are not on their way back."""
        steps = self._steps
        return frozenset(
            index
            for index in self._served
            if index not in steps or steps[index].phase not in leaving.UNDER_WAY
        )

    @property
    def uncordoned(self) -> frozenset[int]:
        """The nodes of the tier that partitions are to be moved to by hand, which Kafka 4.4 refuses for
        cordoned ones."""
        seen = self._seen
        if seen is None or seen.goal == DETACHED or not self._refuses_cordoned:
            return frozenset()
        if any(self._is_retaken(index) for index in seen.partitions):
            return seen.tier
        if seen.goal != ATTACHED:
            return frozenset()
        is_done = seen.topic_id is not None and all(
            is_ours(state, seen.tier) for state in seen.partitions.values()
        )
        return frozenset() if is_done else seen.tier

    @property
    def is_clear(self) -> bool:
        """Whether everything was given back, and nothing of it is left here."""
        seen = self._seen
        return (
            seen is not None
            and seen.goal in GIVES_BACK
            and not any(ours_in(state, seen.tier) for state in seen.partitions.values())
            and all(
                index in seen.leaders
                and self._asks.is_known(index, seen.leaders[index])
                and self._asks.is_settled(index)
                and self._asks.last(index).phase == NOTHING
                for index in range(seen.partition_count)
            )
        )

    def standings(self) -> Iterator[PartitionStanding]:
        """Yield how far each partition is."""
        seen = self._seen
        for index in range(0 if seen is None else seen.partition_count):
            assert seen is not None
            state, standing = seen.partitions.get(index), self._asks.last(index)
            found = self._steps.get(index)
            problem = standing.problem
            if index not in seen.leaders:
                problem = "it has no leader in the tier now"
            elif state is not None and joining.is_moved_by_others(state, seen.tier):
                problem = "somebody moves it upstream, which is waited for"
            phase = joining.WAITING if found is None else found.phase
            yield PartitionStanding(
                index, phase, NO_LEADER if state is None else state.leader, standing, problem
            )

    # What is decided.

    def _decided(self, seen: Seen, live: frozenset[int], now_ms: int) -> dict[int, Step]:
        """Return the next step of every partition."""
        if seen.goal == DETACHED:
            return {}
        under_way = {index for index in seen.partitions if self._is_under_way(seen, index, now_ms)}
        chosen = set(under_way) if self.problem is None else set()
        if seen.goal == ATTACHED and self.problem is None:
            waiting = [index for index in seen.partitions if self._can_begin(seen, live, index, now_ms)]
            waiting.sort(key=lambda index: (self._effort(index).tries, index))
            chosen.update(waiting[: max(self._at_once - len(under_way), 0)])
        leaves = self._that_leave(seen, now_ms)
        return {
            index: self._leaving(seen, index, leaves=index in leaves)
            if self._asks.last(index).phase in (SERVED, SEALED)
            else self._kept(index, self._step(seen, live, index, now_ms, takes=index in chosen), now_ms)
            for index in seen.partitions
        }

    def _is_under_way(self, seen: Seen, index: int, now_ms: int) -> bool:
        """Return whether a partition joins, or is led by the tier and not served yet; and take note of how
        it gets on."""
        state, standing = seen.partitions[index], self._asks.last(index)
        if standing.phase in (SERVED, SEALED):
            self._efforts.pop(index, None)
            return False
        if is_ours(state, seen.tier):
            return True
        effort, ours = self._effort(index), ours_in(state, seen.tier)
        if not ours:
            effort.is_out(now_ms)
            return self._is_retaken(index)
        if effort.joins((standing.next_offset, frozenset(ours) & frozenset(state.isr)), now_ms):
            self._reports.append(NotGettingOn(OFFSETS_TOPIC, index, standing.next_offset, standing.problem))
        return True

    def _can_begin(self, seen: Seen, live: frozenset[int], index: int, now_ms: int) -> bool:
        state, leader = seen.partitions[index], seen.leaders.get(index)
        return (
            leader is not None
            and self._asks.is_known(index, leader)
            and self._asks.last(index).phase not in (SERVED, SEALED, DROPPING)
            and not ours_in(state, seen.tier)
            and state.leader != NO_LEADER
            and not joining.is_moved_by_others(state, seen.tier)
            and self._effort(index).is_due(now_ms)
            and self._may_be_named(seen, target_of(leader, live))
        )

    def _may_be_named(self, seen: Seen, target: tuple[int, ...]) -> bool:
        """Return whether the controller will take these nodes in a reassignment by hand."""
        if not target:
            return False
        if not (self._refuses_cordoned and seen.can_cordon):
            return True
        return not any(seen.brokers[each].cordoned_log_dirs for each in target)

    def _is_retaken(self, index: int) -> bool:
        """Return whether a partition is taken over again, because brokers led what the tier alone had. It
        has to be, whatever the goal is."""
        return self._asks.last(index).phase == RETAKEN

    def _step(self, seen: Seen, live: frozenset[int], index: int, now_ms: int, *, takes: bool) -> Step:
        state, effort, leader = seen.partitions[index], self._effort(index), seen.leaders.get(index)
        is_given_up = effort.is_given_up and bool(ours_in(state, seen.tier))
        takes &= not self._is_retaken(index) or bool(ours_in(state, seen.tier)) or effort.is_due(now_ms)
        gives_back = seen.goal in GIVES_BACK and not self._is_retaken(index)
        decided = step(
            state,
            self._asks.last(index),
            Wanted(
                () if leader is None else target_of(leader, live),
                takes=takes and not is_given_up,
                gives_back=is_given_up or gives_back,
            ),
            seen.tier,
            live,
        )
        move = decided.move
        if isinstance(move, ToReplicas) and seen.tier.intersection(move.replicas):
            return decided if self._may_be_named(seen, move.replicas) else decided._replace(move=None)
        return decided

    def _kept(self, index: int, decided: Step, now_ms: int) -> Step:
        """Return a step that removes nothing yet if a reassignment to our nodes may be under way: who fetches
        for it may be in the ISR before the metadata shows it."""
        is_begun = self._asks.last(index).phase == DROPPING
        if decided.order != DROP or is_begun or self._effort(index).is_settled(now_ms):
            return decided
        return decided._replace(order=LOOK)

    # Leaving.

    def _that_leave(self, seen: Seen, now_ms: int) -> set[int]:
        """Return the partitions that are to go now."""
        if seen.goal != LEAVING:
            self._leaves.clear()
            return set()
        served = [index for index in seen.partitions if self._asks.last(index).phase in (SERVED, SEALED)]
        under_way = {index for index in served if self._is_leaving(seen, index, now_ms)}
        # Some may have been begun by another leader of the controller, and their standing is not known yet.
        under_way |= {
            index
            for index, state in seen.partitions.items()
            if index not in served and is_ours(state, seen.tier) and leaving.brokers_in(state, seen.tier)
        }
        waiting = [index for index in served if index not in under_way and self._leave(index).is_due(now_ms)]
        waiting.sort(key=lambda index: (self._leave(index).tries, index))
        chosen = under_way.union(waiting[: max(self._at_once - len(under_way), 0)])
        return {index for index in chosen if not self._leave(index).is_given_up}

    def _is_leaving(self, seen: Seen, index: int, now_ms: int) -> bool:
        """Return whether a partition is on its way, and take note of how it gets on."""
        state, effort = seen.partitions[index], self._leave(index)
        is_sealed = self._asks.last(index).phase == SEALED
        if not is_sealed and not leaving.brokers_in(state, seen.tier):
            effort.is_out(now_ms)
            return False
        given = self._fresh.log(seen.leaders, index)
        ends = () if given is None else sorted(offset for _, offset in given.fetchers.values())
        mark = SEALED if is_sealed else (*ends,)
        if effort.joins(mark, now_ms, SEALED_MS if is_sealed else STALLED_MS):
            self._reports.append(NotLeaving(OFFSETS_TOPIC, index))
        return True

    def _leaving(self, seen: Seen, index: int, *, leaves: bool) -> Step:
        outside = live_brokers(seen.brokers) - seen.tier
        able = sorted(each for each in outside if not seen.brokers[each].cordoned_log_dirs)
        watched = leaving.Watched(
            seen.leaders.get(index),
            leaving.targets_of(index, able),
            {each: seen.brokers[each].broker_epoch for each in outside},
            self._fresh.log(seen.leaders, index),
            self._fresh.is_fresh(seen.leaders, index),
        )
        return leaving.step(seen.partitions[index], self._asks.last(index), watched, seen.tier, leaves=leaves)

    def _leave(self, index: int) -> Effort:
        return self._leaves.setdefault(index, Effort())

    def _moved(self, seen: Seen, moment: Moment) -> Iterator[Decided]:
        """Yield the moves that are free to be made now."""
        assert seen.topic_id is not None or not seen.partitions, seen
        for index, decided in sorted(self._steps.items()):
            state, sent = seen.partitions[index], self._sent.setdefault(index, Sent())
            if decided.move is None or not sent.is_free(state.partition_epoch, moment):
                continue
            sent.ask(state.partition_epoch)
            self._moves[index] = decided.move
            self._effort(index).begins()
            yield Decided(
                (OFFSETS_TOPIC, index),
                seen.topic_id or NO_TOPIC_ID,
                state.partition_epoch,
                state.leader,
                state.leader_epoch,
                decided.move,
                int(isinstance(decided.move, Cancel)),
            )

    def _created_topic(self, seen: Seen, live: frozenset[int], moment: Moment) -> Iterator[CreateTopic]:
        """Yield the creation of the topic if the cluster has had no group yet."""
        if seen.topic_id is not None or seen.goal != ATTACHED or self.problem is not None:
            return
        targets = [
            target_of(seen.leaders[index], live) if index in seen.leaders else ()
            for index in range(seen.partition_count)
        ]
        may_be_made = all(self._may_be_named(seen, target) for target in targets)
        if may_be_made and self._created.is_free(0, moment):
            self._created.ask(0)
            self._reports.append(TopicMade(OFFSETS_TOPIC, seen.partition_count))
            yield CreateTopic(OFFSETS_TOPIC, tuple(targets), INTERNAL_TOPIC_CONFIGS[OFFSETS_TOPIC])

    def _order(self, seen: Seen, index: int) -> Order:
        """Return the order to the leader of a partition, by the last turn."""
        decided = self._steps.get(index)
        if decided is None or seen.topic_id is None:
            return Order(LOOK)
        state = seen.partitions[index]
        address = seen.addresses.get(state.leader)
        source = None if address is None else Source(state.leader, *address, state.leader_epoch)
        if decided.order == DROP or (decided.order == RETAKE and source is not None):
            return Order(decided.order, seen.topic_id, source)
        if decided.order in (SERVE, RELEASE):
            return Order(decided.order, seen.topic_id, led_epoch=state.leader_epoch)
        if decided.order != FOLLOW:
            return Order(LOOK if decided.order == RETAKE else decided.order, seen.topic_id)
        live = live_brokers(seen.brokers)
        replicas = ours_in(state, seen.tier) or target_of(seen.leaders[index], seen.tier & live)
        epochs = tuple((each, seen.brokers[each].broker_epoch) for each in replicas if each in live)
        return Order(FOLLOW, seen.topic_id, source, epochs)

    # What is remembered.

    def _effort(self, index: int) -> Effort:
        return self._efforts.setdefault(index, Effort())

    def _refused(self, index: int, error: ErrorCode, moment: Moment) -> None:
        is_stale = error.name in STALE_STATE or error is ErrorCode.no_reassignment_in_progress
        self._sent[index].refused(moment, is_stale=is_stale)
        move = self._moves[index]
        self._learn(error)
        if not is_stale:
            self._effort(index).failed(moment.now_ms)
            self._reports.append(Refused(OFFSETS_TOPIC, index, move, error.name))

    def _learn(self, error: ErrorCode) -> None:
        self._refuses_cordoned |= error is ErrorCode.invalid_replica_assignment


def _problem(seen: Seen, live: frozenset[int]) -> str | None:
    """Return why nothing can be taken over now, in words."""
    there, here = len(seen.partitions), seen.partition_count
    if seen.topic_id is not None and there != here:
        return (
            f"the upstream's {OFFSETS_TOPIC} has {there} partitions and the tier {here}: no group would be "
            "found; start a tier with as many"
        )
    if not live:
        return "no node of the tier is a broker of the cluster yet"
    return None
