"""A KRaft controller as far as leaders are concerned, after Kafka's ReplicationControlManager and
PartitionChangeBuilder: what it takes, what it refuses, and what becomes of a partition.

tests/upstream/test_kraft_with_kafka.py asks it and a real one the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from actors.upstream.image import NO_LEADER
from actors.upstream.requests import (
    PREFERRED,
    AlteredPartition,
    AlterPartition,
    AlterPartitionReassignments,
    Answer,
    BrokerHeartbeat,
    CreateTopic,
    CreationAnswer,
    ElectLeaders,
    HeartbeatAnswer,
    PartitionErrors,
    ReassignedPartition,
)

Key = tuple[str, int]
Errors = dict[tuple[str | bytes, int], ErrorCode]


class State(NamedTuple):
    """A partition as records leave it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    """Who had everything when the ISR became empty (KIP-966)."""


class Broker(NamedTuple):
    """A broker as records leave it."""

    broker_epoch: int
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[bytes, ...] = ()
    cordoned_log_dirs: tuple[bytes, ...] = ()


class Image(NamedTuple):
    """Everything at one offset."""

    metadata_offset: int
    topic_ids: dict[str, bytes]
    partitions: dict[Key, State]
    brokers: dict[int, Broker]


@dataclass
class Kraft:
    """The active controller."""

    refuses_cordoned: bool = False
    has_elr: bool = True
    """Whether eligible.leader.replicas.version is 1, as it is in new clusters."""
    offset: int = 0
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    partitions: dict[Key, State] = field(default_factory=dict)
    brokers: dict[int, Broker] = field(default_factory=dict)

    def image(self) -> Image:
        return Image(self.offset, dict(self.topic_ids), dict(self.partitions), dict(self.brokers))

    def register(self, broker_id: int, log_dir: bytes, *, cordoned: bool = False) -> None:
        """Register a broker anew: another epoch, unfenced by its first heartbeat."""
        self.fence(broker_id)
        self.offset += 1
        dirs = (log_dir,)
        self.brokers[broker_id] = Broker(
            self.offset, log_dirs=dirs, cordoned_log_dirs=dirs if cordoned else ()
        )
        self.unfence(broker_id)

    def unfence(self, broker_id: int) -> None:
        self._set_broker(broker_id, fenced=False, in_controlled_shutdown=False)
        self._elect_where_nobody_leads()

    def fence(self, broker_id: int) -> None:
        """Fence a broker: it leaves every ISR in which it is not the last."""
        if broker_id not in self.brokers or self.brokers[broker_id].fenced:
            return
        self._set_broker(broker_id, fenced=True)
        for key, state in self.partitions.items():
            if broker_id in state.isr:
                rest = tuple(each for each in state.isr if each != broker_id)
                self._change(key, isr=rest if rest or self.has_elr else state.isr)

    def create(self, topic: str, assignments: Iterable[tuple[int, ...]]) -> None:
        """Create a topic whose replicas are all in the ISR, if they are up."""
        self.offset += 1
        self.topic_ids[topic] = topic.encode().ljust(16, b".")[:16]
        for index, replicas in enumerate(assignments):
            isr = tuple(each for each in replicas if not self.brokers[each].fenced)
            assert isr, "somebody is up"
            self.partitions[topic, index] = State(replicas, isr, leader=isr[0])

    def placement(self, partitions: int, factor: int) -> list[tuple[int, ...]]:
        """Where a new topic would be placed."""
        able = [
            broker_id
            for broker_id, broker in sorted(self.brokers.items())
            if not broker.fenced and not broker.cordoned_log_dirs
        ]
        return [
            tuple(able[(index + more) % len(able)] for more in range(min(factor, len(able))))
            for index in range(partitions)
            if able
        ]

    def ask(self, request: object) -> Answer:
        """Carry a request out."""
        match request:
            case BrokerHeartbeat():
                return self._heartbeat(request)
            case AlterPartitionReassignments():
                rows: Errors = {
                    (each.topic, each.partition_index): self.reassign(each) for each in request.partitions
                }
                return PartitionErrors(ErrorCode.none, rows)
            case AlterPartition():
                broker = self.brokers.get(request.broker_id)
                if broker is None or broker.broker_epoch != request.broker_epoch:
                    return PartitionErrors(ErrorCode.stale_broker_epoch, {})
                altered: Errors = {
                    (each.topic_id, each.partition_index): self._alter(request.broker_id, each)
                    for each in request.partitions
                }
                return PartitionErrors(ErrorCode.none, altered)
            case ElectLeaders():
                elected: Errors = {key: self.elect(key, request.election_type) for key in request.partitions}
                return PartitionErrors(ErrorCode.none, elected)
            case CreateTopic():
                return self._create(request)
            case _:
                raise AssertionError(request)

    def reassign(self, asked: ReassignedPartition) -> ErrorCode:
        """Reassign one partition, or take a reassignment back."""
        key = (asked.topic, asked.partition_index)
        state = self.partitions.get(key)
        if state is None:
            return ErrorCode.unknown_topic_or_partition
        target = asked.replicas
        if target is None:
            return self._cancel(key, state)
        if not target or len(set(target)) < len(target):
            return ErrorCode.invalid_replica_assignment
        for broker_id in target:
            if broker_id not in self.brokers or self._refuses(broker_id):
                return ErrorCode.invalid_replica_assignment
        # PartitionChangeBuilder keeps what was being added and removed, unless there is something new.
        removing = tuple(sorted(each for each in state.replicas if each not in target))
        adding = tuple(each for each in target if each not in state.replicas)
        self._change(
            key,
            replicas=(*target, *removing),
            adding=adding or None,
            removing=removing or None,
        )
        return ErrorCode.none

    def elect(self, key: Key, election_type: int) -> ErrorCode:
        """Elect a leader."""
        state = self.partitions.get(key)
        if state is None:
            return ErrorCode.unknown_topic_or_partition
        if election_type == PREFERRED:
            first = state.replicas[0]
            if state.leader == first:
                return ErrorCode.election_not_needed
            if first not in state.isr or not self._can_lead(first):
                self._change(key)  # what an unclean election has left undone is done now
                changed = self.partitions[key] != state
                return ErrorCode.none if changed else ErrorCode.preferred_leader_not_available
            self._change(key, leader=first)
            return ErrorCode.none
        if state.leader != NO_LEADER:
            return ErrorCode.election_not_needed
        able = [each for each in state.replicas if self._can_lead(each)]
        if not able:
            return ErrorCode.eligible_leaders_not_available
        self._change(key, leader=able[0], isr=(able[0],))
        return ErrorCode.none

    def set_isr(self, key: Key, isr: tuple[int, ...]) -> None:
        """Have a partition's leader, a broker of others, say that this is its ISR."""
        self._change(key, isr=isr)

    def force(self, key: Key, brokers: tuple[int, ...], *, is_done: bool, epochs: int = 1) -> None:
        """Have other brokers be the replicas and the first of them lead, whatever it has: what an operator
        achieves with a reassignment and an unclean election while all that were in the ISR are away. The
        election does not end the reassignment, the next change does. There are two epochs if nobody led in
        between."""
        self.offset += 1
        state = self.partitions[key]
        others = tuple(each for each in state.replicas if each not in brokers)
        self.partitions[key] = State(
            brokers if is_done else (*brokers, *others),
            brokers[:1],
            () if is_done else others,
            () if is_done else brokers,
            leader=brokers[0],
            leader_epoch=state.leader_epoch + epochs,
            partition_epoch=state.partition_epoch + 1,
        )

    def _create(self, asked: CreateTopic) -> CreationAnswer:
        if asked.topic in self.topic_ids:
            return CreationAnswer(ErrorCode.topic_already_exists)
        named = {each for replicas in asked.assignments for each in replicas}
        if any(each not in self.brokers or self._refuses(each) for each in named) or not all(
            any(self._can_lead(each) for each in replicas) for replicas in asked.assignments
        ):
            return CreationAnswer(ErrorCode.invalid_replica_assignment)
        self.create(asked.topic, asked.assignments)
        return CreationAnswer(ErrorCode.none)

    def _refuses(self, broker_id: int) -> bool:
        return self.refuses_cordoned and bool(self.brokers[broker_id].cordoned_log_dirs)

    def _heartbeat(self, asked: BrokerHeartbeat) -> HeartbeatAnswer:
        broker = self.brokers.get(asked.broker_id)
        if broker is None or broker.broker_epoch != asked.broker_epoch:
            return HeartbeatAnswer(ErrorCode.stale_broker_epoch)
        if asked.cordoned_log_dirs is not None and asked.cordoned_log_dirs != broker.cordoned_log_dirs:
            self._set_broker(asked.broker_id, cordoned_log_dirs=asked.cordoned_log_dirs)
        if asked.want_fence:
            self.fence(asked.broker_id)
        elif broker.fenced:
            self.unfence(asked.broker_id)
        return HeartbeatAnswer(ErrorCode.none, is_caught_up=True, is_fenced=asked.want_fence)

    def _alter(self, broker_id: int, asked: AlteredPartition) -> ErrorCode:
        key = (asked.topic, asked.partition_index)
        state = self.partitions.get(key)
        if state is None:
            return ErrorCode.unknown_topic_id
        if broker_id != state.leader:
            return ErrorCode.invalid_request
        if asked.leader_epoch != state.leader_epoch:
            newer = asked.leader_epoch > state.leader_epoch
            return ErrorCode.not_controller if newer else ErrorCode.fenced_leader_epoch
        if asked.partition_epoch != state.partition_epoch:
            newer = asked.partition_epoch > state.partition_epoch
            return ErrorCode.not_controller if newer else ErrorCode.invalid_update_version
        isr = tuple(each for each, _ in asked.new_isr_with_epochs)
        if not set(isr) <= set(state.replicas) or state.leader not in isr:
            return ErrorCode.invalid_request
        for each, epoch in asked.new_isr_with_epochs:
            if not self._can_lead(each) or self.brokers[each].broker_epoch != epoch:
                return ErrorCode.ineligible_replica
        self._change(key, isr=isr)
        led = self.partitions[key].leader == broker_id
        return ErrorCode.none if led else ErrorCode.new_leader_elected

    def _cancel(self, key: Key, state: State) -> ErrorCode:
        if not state.adding_replicas and not state.removing_replicas:
            return ErrorCode.no_reassignment_in_progress
        replicas = tuple(each for each in state.replicas if each not in state.adding_replicas)
        isr = tuple(each for each in state.isr if each not in state.adding_replicas)
        if not isr:
            return ErrorCode.invalid_replica_assignment  # it would need an unclean election
        self._change(key, replicas=replicas, adding=(), removing=(), isr=isr)
        return ErrorCode.none

    def _elect_where_nobody_leads(self) -> None:
        for key, state in self.partitions.items():
            if state.leader == NO_LEADER:
                self._change(key)

    def _change(
        self,
        key: Key,
        *,
        replicas: tuple[int, ...] | None = None,
        adding: tuple[int, ...] | None = None,
        removing: tuple[int, ...] | None = None,
        isr: tuple[int, ...] | None = None,
        leader: int | None = None,
    ) -> None:
        """Write a change, unless there is none. It completes a reassignment that can be, and elects a leader
        if the present one cannot lead any more."""
        old = self.partitions[key]
        new = old._replace(
            replicas=old.replicas if replicas is None else replicas,
            adding_replicas=old.adding_replicas if adding is None else adding,
            removing_replicas=old.removing_replicas if removing is None else removing,
            isr=old.isr if isr is None else isr,
        )
        if leader is None or isr is None:  # an unclean election ends no reassignment
            new = _completed(new)
        eligible = {*old.elr, *old.isr} if self.has_elr and not new.isr else ()
        new = new._replace(elr=tuple(each for each in new.replicas if each in eligible))
        if leader is None:
            leader = self._leader(new)
            if leader in new.elr:
                new = new._replace(isr=(leader,), elr=())
        new = new._replace(leader=leader)
        if new == old:
            return
        self.offset += 1
        bumps = new.leader != old.leader or not set(old.replicas) <= set(new.replicas)
        self.partitions[key] = new._replace(
            leader_epoch=old.leader_epoch + bumps, partition_epoch=old.partition_epoch + 1
        )

    def _leader(self, state: State) -> int:
        able = [each for each in state.replicas if each in (state.isr or state.elr) and self._can_lead(each)]
        if state.leader in able:
            return state.leader
        return able[0] if able else NO_LEADER

    def _can_lead(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def _set_broker(self, broker_id: int, **changes: object) -> None:
        new = self.brokers[broker_id]._replace(**changes)  # type: ignore[arg-type]
        if new != self.brokers[broker_id]:
            self.offset += 1
            self.brokers[broker_id] = new


def _completed(state: State) -> State:
    """Return a partition whose reassignment is over if it can be. All that are added have to be in the ISR;
    all that stay, too, if they are fewer than before."""
    if not state.adding_replicas and not state.removing_replicas:
        return state
    isr = tuple(each for each in state.isr if each not in state.removing_replicas)
    replicas = tuple(each for each in state.replicas if each not in state.removing_replicas)
    before = [each for each in state.replicas if each not in state.adding_replicas]
    needed = state.adding_replicas if len(replicas) >= len(before) else (*state.adding_replicas, *replicas)
    if not isr or not set(needed) <= set(isr):
        return state
    return state._replace(replicas=replicas, isr=isr, adding_replicas=(), removing_replicas=())
