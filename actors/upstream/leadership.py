"""Makes the upstream's leaders of our topic follow the leaders that Raft elected.

This is a pure reconcile. `turn` looks at facts and says what to send now, all of it at once, and each request
comes back with `answered` or `lost`. Raft alone decides who serves: Kafka's leader is only where clients are
sent to, so a move that comes late or twice costs time and nothing else.

Kafka 4.4 refuses assignments by hand to brokers whose directories are cordoned. There the nodes that a
reassignment names are uncordoned first, and cordoned again when nothing is to be reassigned any more.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from actors.upstream.duels import Duel
from actors.upstream.moves import (
    Move,
    ToReplicas,
    goal,
    is_led,
    is_led_outside,
    next_move,
    stray_move,
)
from actors.upstream.node_care import STALE, NodeCare
from actors.upstream.partitions import Facts, PartitionState, RaftLeader, Stray, live_brokers
from actors.upstream.reports import LedOutside, PutRight, Refused, Report, StrayMoved
from actors.upstream.requests import (
    Answer,
    BrokerHeartbeat,
    HeartbeatAnswer,
    PartitionErrors,
    PartitionsRequest,
)
from actors.upstream.sent import Moment, Sent
from actors.upstream.together import GRANTED, Decided, Key, errors_of, keys_of, requests_of

MOVES_MAX: Final = 200
"""How many partitions may wait for the answer to a move of theirs."""
STRAYS_MAX: Final = 1_000
"""How many strays are remembered until they have as many replicas as before."""

Request = PartitionsRequest | BrokerHeartbeat

STALE_STATE: Final = STALE | {
    "fenced_leader_epoch",
    "ineligible_replica",
    "invalid_update_version",
    "operation_not_attempted",
    "unknown_topic_id",
    "unknown_topic_or_partition",
}
"""Errors that say that a partition is in another state by now."""


class Turn(NamedTuple):
    """What is to be sent now, in any order, and what is to be told."""

    requests: tuple[Request, ...]
    reports: tuple[Report, ...]


class _Owed(NamedTuple):
    """How a stray leaves the tier."""

    target: tuple[int, ...]
    factor: int
    """How many replicas it had."""


class Leadership:
    """The reconcile, with what it remembers of its own requests."""

    def __init__(self) -> None:
        self._nodes = NodeCare()
        self._sent: dict[Key, Sent] = {}
        self._moves: dict[Key, Move] = {}
        """The move of each partition that waits for its answer, or to be shown by the metadata."""
        self._duels: dict[Key, Duel] = {}
        self._outside: dict[Key, int] = {}
        """Partitions of ours that brokers outside lead, with the leader epoch that was told."""
        self._owed: dict[Key, _Owed] = {}
        self._refuses_cordoned = False
        self._offset = -1
        self._reports: list[Report] = []

    def turn(self, facts: Facts, now_ms: int) -> Turn:
        """Return what to send now."""
        moment = Moment(now_ms, facts.metadata_offset)
        self._offset = facts.metadata_offset
        self._refuses_cordoned |= facts.refuses_cordoned
        self._forget(facts)
        decided = [*self._own(facts, moment), *self._strays(facts, moment), *self._grown(facts, moment)]
        decided.sort(key=lambda each: each.rank)
        uncordons = self._refuses_cordoned and facts.can_cordon
        needed = self._targets(decided) & facts.tier if uncordons else frozenset()
        heartbeats = list(self._nodes.heartbeats(facts, needed | facts.uncordoned, moment))
        barred = {each for each in needed if self._nodes.may_be_cordoned(each, facts.brokers, moment)}
        room = MOVES_MAX - sum(sent.is_asked for sent in self._sent.values())
        now = [each for each in decided if not barred.intersection(each.target)][: max(room, 0)]
        for each in now:
            self._sent[each.key].ask(each.version)
            self._moves[each.key] = each.move
            if each.version < 0:
                self._owed.pop(each.key, None)
        reports = (*self._reports, *self._nodes.told())
        self._reports.clear()
        return Turn((*heartbeats, *requests_of(now, facts.brokers)), reports)

    def answered(self, request: Request, answer: Answer, now_ms: int) -> None:
        """Take note of the answer to a request of a turn."""
        moment = Moment(now_ms, self._offset)
        if isinstance(request, BrokerHeartbeat):
            assert isinstance(answer, HeartbeatAnswer), answer
            self._nodes.answered(request, answer, moment)
            return
        assert isinstance(answer, PartitionErrors), answer
        for key, error in errors_of(request, answer):
            if error in GRANTED:
                self._sent[key].granted(moment)
            else:
                self._refused(key, error, moment)

    def lost(self, request: Request, now_ms: int) -> None:
        """Take note that a request of a turn has no answer: it may have been carried out, or not."""
        moment = Moment(now_ms, self._offset)
        if isinstance(request, BrokerHeartbeat):
            self._nodes.lost(request, moment)
            return
        for key, _ in keys_of(request):
            self._sent[key].lost(moment)

    def _refused(self, key: Key, error: ErrorCode, moment: Moment) -> None:
        is_stale = error.name in STALE_STATE
        self._sent[key].refused(moment, is_stale=is_stale)
        move = self._moves.pop(key, None)
        if error is ErrorCode.invalid_replica_assignment and isinstance(move, ToReplicas):
            self._refuses_cordoned = True
            self._nodes.disbelieve()
        elif move is not None and not is_stale:
            self._reports.append(Refused(*key, move, error.name))

    def _own(self, facts: Facts, moment: Moment) -> Iterator[Decided]:
        """Yield the moves of our own partitions."""
        live = (facts.tier & live_brokers(facts.brokers)) - facts.dead
        for index in sorted(facts.leaders.keys() & facts.partitions.keys()):
            key, state, wanted = (facts.topic, index), facts.partitions[index], facts.leaders[index]
            is_free = self._is_free(key, state.partition_epoch, moment)
            if is_led_outside(state, facts.tier):
                self._tell_outside(key, state)
                continue
            duel = self._duels.setdefault(key, Duel())
            if duel.look(wanted.term, moment.now_ms, is_led=is_led(state, wanted)):
                self._reports.append(_put_right(key, state, wanted, duel.due_ms - moment.now_ms))
            if moment.now_ms < duel.due_ms or not is_free:
                continue
            move = next_move(state, wanted, live)
            if move is not None:
                rank = int(state.leader == wanted.broker_id)
                yield Decided(key, facts.topic_id, *_place(state), move, rank)

    def _strays(self, facts: Facts, moment: Moment) -> Iterator[Decided]:
        """Yield the moves of partitions that are to leave the tier."""
        outside = _outside(facts)
        for stray in facts.strays[:STRAYS_MAX]:
            key, state = (stray.topic, stray.partition_index), stray.state
            if not self._is_free(key, state.partition_epoch, moment):
                continue
            move = stray_move(state, stray.partition_index, facts.tier, outside)
            if move is None:
                continue
            if isinstance(move, ToReplicas):
                self._owe(stray, move)
            yield Decided(key, stray.topic_id, *_place(state), move, 2)

    def _owe(self, stray: Stray, move: ToReplicas) -> None:
        """Remember how many replicas a stray had when it was first met."""
        key, state = (stray.topic, stray.partition_index), stray.state
        before = self._owed.get(key)
        if before is None:
            self._reports.append(StrayMoved(*key, state.replicas, move.replicas))
        factor = len(goal(state)) if before is None else before.factor
        self._owed[key] = _Owed(move.replicas, factor)

    def _grown(self, facts: Facts, moment: Moment) -> Iterator[Decided]:
        """Yield the moves that give strays as many replicas as they had, on brokers outside, which fetch
        what there is from each other."""
        strays = {(stray.topic, stray.partition_index) for stray in facts.strays}
        outside = _outside(facts)
        for key, (target, factor) in list(self._owed.items()):
            if key in strays or not self._is_free(key, -factor, moment):
                continue
            spare = [each for each in outside if each not in target]
            if len(target) < factor and spare:
                first = key[1] % len(spare)
                more = (*spare[first:], *spare[:first])[: factor - len(target)]
                yield Decided(key, b"", -factor, -1, -1, ToReplicas((*target, *more)), 2)
            else:
                del self._owed[key]

    def _is_free(self, key: Key, version: object, moment: Moment) -> bool:
        is_free = self._sent.setdefault(key, Sent()).is_free(version, moment)
        if is_free:
            self._moves.pop(key, None)
        return is_free

    def _targets(self, decided: list[Decided]) -> frozenset[int]:
        """Return the brokers that reassignments name which are to be sent, or wait to be carried out."""
        moves = (*self._moves.values(), *(each.move for each in decided))
        return frozenset(each for move in moves if isinstance(move, ToReplicas) for each in move.replicas)

    def _tell_outside(self, key: Key, state: PartitionState) -> None:
        if self._outside.get(key) != state.leader_epoch:
            self._outside[key] = state.leader_epoch
            self._reports.append(LedOutside(*key, state.leader, state.leader_epoch))

    def _forget(self, facts: Facts) -> None:
        """Forget partitions that are gone, or not ours any more."""
        own = {(facts.topic, index) for index in facts.leaders}
        known = own | {(stray.topic, stray.partition_index) for stray in facts.strays} | self._owed.keys()
        for key in [key for key, sent in self._sent.items() if key not in known and not sent.is_asked]:
            del self._sent[key]
            self._moves.pop(key, None)
        for gone in self._duels.keys() - own:
            del self._duels[gone]
        for gone in self._outside.keys() - own:
            del self._outside[gone]


def _outside(facts: Facts) -> list[int]:
    """Return the brokers that are not of the tier and may be given partitions."""
    return sorted(
        broker_id
        for broker_id in live_brokers(facts.brokers) - facts.tier
        if not facts.brokers[broker_id].log_dirs
        or set(facts.brokers[broker_id].log_dirs) - set(facts.brokers[broker_id].cordoned_log_dirs)
    )


def _put_right(key: Key, state: PartitionState, wanted: RaftLeader, pause_ms: int) -> PutRight:
    return PutRight(
        *key,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        replicas=state.replicas,
        wanted=wanted.broker_id,
        term=wanted.term,
        pause_ms=pause_ms,
    )


def _place(state: PartitionState) -> tuple[int, int, int]:
    return state.partition_epoch, state.leader, state.leader_epoch
