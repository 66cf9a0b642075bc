"""What one member of a generated sequence knows of itself, learned from the answers of its side."""

from __future__ import annotations

import dataclasses
from typing import Any

OUT = "out"
PENDING = "pending"
JOINED = "joined"
SETTLED = "settled"
REBALANCING = "rebalancing"

_LOST = {22, 25, 82}
_FENCED = {25, 110}


@dataclasses.dataclass(slots=True)
class Slot:
    """A member on one side; `state` is what its client would believe."""

    number: int
    instance: str | None
    state: str = OUT
    member_id: str = ""
    generation: int = -1
    epoch: int = 0
    is_leader: bool = False
    protocol: str = "range"
    others: tuple[str, ...] = ()
    """Ids of all members, as the leader was told."""
    assigned: tuple[tuple[Any, tuple[int, ...]], ...] = ()
    """The ids and partitions of the topics that a KIP-848 member is assigned."""
    must_tell: bool = False
    """The assignment is new: the next heartbeat says what is owned."""
    owned_here_only: frozenset[tuple[Any, int]] = frozenset()
    """Partitions of `assigned` or of the other side's, not of both: what a commit of them gets depends on
    the assignor."""
    is_classic: bool = False
    """Whether the member joined last by the classic protocol."""
    producer: tuple[int, int] = (-1, -1)
    """The producer's id and epoch."""
    sequences: dict[tuple[str, int], int] = dataclasses.field(default_factory=dict)
    """The sequence number of the producer's next record, by topic and partition."""
    sent: tuple[tuple[str, int], int] | None = None
    """Where the last batch of the producer went, and the sequence number after it."""
    session: tuple[int, int] = (0, 0)
    """The fetch session's id and its next epoch."""

    def owned(self) -> set[tuple[Any, int]]:
        return {(topic, number) for topic, numbers in self.assigned for number in numbers}


def learn(slot: Slot, api: str, entity: Any) -> None:
    """Note in the slot what an answer tells it."""
    learner = _LEARNERS.get(api)
    if learner is not None:
        learner(slot, entity)


def _joined(slot: Slot, entity: Any) -> None:
    error = entity.error_code.value
    if error == 0:
        slot.member_id, slot.generation = entity.member_id, entity.generation_id
        slot.is_leader = entity.leader == entity.member_id
        slot.others = tuple(sorted(member.member_id for member in entity.members))
        slot.protocol = entity.protocol_name or ""
        slot.state, slot.is_classic = JOINED, True
    elif error == 79:
        slot.member_id, slot.state = entity.member_id, PENDING
    elif error in _LOST:
        slot.member_id, slot.state = "", OUT


def _synced(slot: Slot, entity: Any) -> None:
    error = entity.error_code.value
    if error == 0:
        slot.state = SETTLED
    _troubled(slot, error)


def _beaten(slot: Slot, entity: Any) -> None:
    _troubled(slot, entity.error_code.value)


def _troubled(slot: Slot, error: int) -> None:
    if error == 27:
        slot.state = REBALANCING
    elif error in _LOST:
        slot.member_id, slot.state = "", OUT


def _told(slot: Slot, entity: Any) -> None:
    error = entity.error_code.value
    if error in _FENCED:
        slot.state, slot.epoch, slot.assigned, slot.must_tell = OUT, 0, (), False
    if error != 0:
        return
    if entity.member_id is not None:
        slot.member_id = entity.member_id
    slot.epoch, slot.state, slot.is_classic = entity.member_epoch, SETTLED, False
    if slot.epoch < 0:
        slot.state, slot.epoch, slot.assigned = OUT, 0, ()
    if entity.assignment is not None:
        parts = entity.assignment.topic_partitions
        slot.assigned = tuple((part.topic_id, tuple(part.partitions)) for part in parts)
        slot.must_tell = True


def _producing(slot: Slot, entity: Any) -> None:
    named = (getattr(entity, "producer_id", -1), getattr(entity, "producer_epoch", -1))
    if entity.error_code.value == 0 and named[0] >= 0 and named != slot.producer:
        slot.producer, slot.sequences = named, {}


def _produced(slot: Slot, entity: Any) -> None:
    codes = [part.error_code.value for topic in entity.responses for part in topic.partition_responses]
    if slot.sent is not None and codes == [0]:
        where, following = slot.sent
        slot.sequences[where] = following
    slot.sent = None


def _fetched(slot: Slot, entity: Any) -> None:
    session_id, error = getattr(entity, "session_id", 0), getattr(entity, "error_code", None)
    if error is None or error.value:
        return
    epoch = slot.session[1] if session_id == slot.session[0] else 0
    slot.session = (session_id, epoch + 1 if session_id else 0)


_LEARNERS = {
    "join_group": _joined,
    "sync_group": _synced,
    "heartbeat": _beaten,
    "consumer_group_heartbeat": _told,
    "init_producer_id": _producing,
    "end_txn": _producing,
    "produce": _produced,
    "fetch": _fetched,
}
