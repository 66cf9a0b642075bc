"""What clients are told, against what was committed when they were told it.

    commits      what is acknowledged is in the committed log: an offset, a topic, an assignment, an epoch
    reads        an answer shows every commit acknowledged before it was asked for, and never goes back
    ownership    no partition belongs to two members at one generation or epoch, nor is one given away while
                 its owner may still believe to have it
    producer ids no block is given out twice

The committed state is `checkers.State`. A commit of unknown outcome may or may not be in it, now or later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.coordinator.ground import partitions
from actors.ground.records import (
    CLASSIC_MEMBER,
    CURRENT_MEMBER_ASSIGNMENT,
    GROUP_METADATA,
    OFFSET_COMMIT,
)
from actors.metadata.commands import (
    AllocateProducerIds,
    CreateTopics,
    CreateTopicsResult,
    ProducerIdBlock,
)
from actors.metadata.records import PRODUCER_IDS
from actors.metadata.records import TOPIC as TOPIC_RECORD
from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from tests.coordinator.unpacked import to_lists
from tests.simulation.asked import Ask, Asked
from tests.simulation.checkers import Violation
from tests.simulation.machines import GROUP_SETTINGS
from tests.simulation.parts import World

NO_ERROR = 0
SESSION_S = GROUP_SETTINGS.group_consumer_session_timeout_ms / 1_000 / 1.06
"""The shortest that a session lasts: the leader's clock may be fast."""


class Histories:
    def __init__(self, world: World) -> None:
        self._world = world
        self._state = world.state
        self._floors: dict[Any, int] = {}
        """The index that each key's state has to reach. For an offset key, an acknowledged or read value is
        there or later; for a group, the highest generation that a member was told to have begun."""
        self._owners: dict[tuple[str, int, str, int], str] = {}
        """The owner of each partition, by group, generation or epoch, topic and partition."""
        self._claims: dict[tuple[str, int], tuple[str, float]] = {}
        """The consumer member that holds each partition of a group, and at least until when."""
        self._blocks: set[int] = set()
        self._topics: set[str] = set()
        self.commits = 0
        self.reads = 0
        self._judges: dict[type, Callable[[Asked, Any], None]] = {
            OffsetCommitResponse: self._commit,
            OffsetFetchResponse: self._fetch,
            SyncGroupResponse: self._sync,
            HeartbeatResponse: self._heartbeat,
            ConsumerGroupHeartbeatResponse: self._consumer_heartbeat,
            CreateTopicsResult: self._created,
            ProducerIdBlock: self._producer_ids,
        }

    def floors(self, ask: Ask) -> dict[Any, int]:
        """Return what an answer to this request, if it were sent now, must not fall behind."""
        if ask.api_key == api_keys.OFFSET_FETCH:
            keys = [
                (OFFSET_COMMIT, group.group_id, topic, partition)
                for group in ask.body.groups
                for topic, numbers in group.topics
                for partition in numbers
            ]
            return {key: self._floors.get(key, 0) for key in keys}
        if ask.api_key == api_keys.HEARTBEAT:
            return {ask.body.group_id: self._floors.get(ask.body.group_id, 0)}
        if isinstance(ask.body, CreateTopics):
            return {topic.name: int(topic.name in self._topics) for topic in ask.body.topics}
        return {}

    def judge(self, asked: Asked, body: Any) -> None:
        judge = self._judges.get(type(body))
        if judge is not None:
            judge(asked, body)

    def _raise_floor(self, key: Any, floor: int) -> None:
        self._floors[key] = max(floor, self._floors.get(key, 0))

    # -- offsets ------------------------------------------------------------------------------------

    def _commit(self, asked: Asked, answer: OffsetCommitResponse) -> None:
        request = asked.request.body
        sent = {
            (topic, partition[0]): partition for topic, numbers in request.topics for partition in numbers
        }
        for topic, errors in answer.topics:
            for partition, error in errors:
                if error != NO_ERROR:
                    continue
                _, offset, _, text = sent[topic, partition]
                key = (OFFSET_COMMIT, request.group_id, topic, partition)
                index = self._written_at(key, offset, text)
                if index is None:
                    raise Violation(
                        f"commits: {asked.process.name} acknowledges offset {offset} ({text:.40}) of {key}, "
                        "which is not committed"
                    )
                self.commits += 1
                self._raise_floor(key, index)

    def _written_at(self, key: Any, offset: int, text: str) -> int | None:
        index: int
        for index, value in reversed(self._state.writes(key)):
            if value is not None and (value[0], value[2]) == (offset, text):
                return index
        return None

    def _fetch(self, asked: Asked, answer: OffsetFetchResponse) -> None:
        for group in answer.groups:
            if group.error_code != NO_ERROR:
                continue
            for topic, numbers in group.topics:
                for partition, offset, _, text, error in numbers:
                    key = (OFFSET_COMMIT, group.group_id, topic, partition)
                    if error == NO_ERROR:
                        self._read(asked, key, (offset, text))

    def _read(self, asked: Asked, key: Any, shown: tuple[int, str]) -> None:
        """Check that a read shows what the key held at or after the floor. Raises Violation."""
        self.reads += 1
        floor = asked.floors[key]
        writes = [(0, None), *self._state.writes(key)]
        for (index, value), following in zip(writes, [*writes[1:], None], strict=True):
            held = (-1, "") if value is None else (value[0], value[2])
            if held == shown and (following is None or following[0] > floor):
                self._raise_floor(key, index)
                return
        raise Violation(
            f"reads: {asked.process.name} shows offset {shown[0]} ({shown[1]:.40}) of {key}, and entry "
            f"{floor} was acknowledged or read before"
        )

    # -- classic groups -----------------------------------------------------------------------------

    def _sync(self, asked: Asked, answer: SyncGroupResponse) -> None:
        if answer.error_code != NO_ERROR:
            return
        request = asked.request.body
        group_id, generation, member_id = request.group_id, request.generation_id, request.member_id
        generations = self._state.writes((GROUP_METADATA, group_id))
        assignments = self._state.writes((CLASSIC_MEMBER, group_id, member_id))
        if not any(value is not None and value[1] == generation for _, value in generations) or not any(
            value is not None and value[6] == answer.assignment for _, value in assignments
        ):
            raise Violation(
                f"commits: {asked.process.name} gives {member_id} an assignment of generation {generation} "
                f"of {group_id} that is not committed"
            )
        for partition in partitions.unpack(answer.assignment):
            self._own(group_id, generation, partition, member_id)
        self._raise_floor(group_id, generation)

    def _own(self, group_id: str, epoch: int, partition: int, member_id: str, topic: str = "") -> None:
        owner = self._owners.setdefault((group_id, epoch, topic, partition), member_id)
        if owner != member_id:
            raise Violation(
                f"ownership: partition {partition} of {group_id} belongs to {owner} and to {member_id} at "
                f"epoch {epoch}"
            )

    def _heartbeat(self, asked: Asked, answer: HeartbeatResponse) -> None:
        request = asked.request.body
        if not asked.process.machine.serving:
            return  # while a leader loads, heartbeats are answered as if all were well (W4)
        if answer.error_code == NO_ERROR and request.generation_id < asked.floors[request.group_id]:
            raise Violation(
                f"reads: {asked.process.name} confirms generation {request.generation_id} of "
                f"{request.group_id} after generation {asked.floors[request.group_id]} began"
            )

    # -- consumer groups ----------------------------------------------------------------------------

    def _consumer_heartbeat(self, asked: Asked, answer: ConsumerGroupHeartbeatResponse) -> None:
        request = asked.request.body
        if answer.error_code != NO_ERROR or answer.member_epoch < 1:
            return
        group_id, member_id, epoch = request.group_id, request.member_id, answer.member_epoch
        written = self._state.writes((CURRENT_MEMBER_ASSIGNMENT, group_id, member_id))
        if not any(
            value is not None
            and value[0] == epoch
            and (answer.assignment is None or value[3] == answer.assignment)
            for _, value in written
        ):
            raise Violation(
                f"commits: {asked.process.name} tells {member_id} epoch {epoch} of {group_id} and an "
                "assignment that is not committed"
            )
        told = [p for numbers in to_lists(answer.assignment or ()).values() for p in numbers]
        for partition in told:
            self._own(group_id, epoch, partition, member_id, "consumer")
        if asked.is_abandoned:
            if request.topic_partitions is not None:
                # It comes late, after its member had been answered on another connection: the coordinator
                # believes what it says the member owns, which for a join is nothing, and gives the rest to
                # others. KIP-848 has no means to tell that a later one has been answered; Kafka believes it,
                # too (CurrentAssignmentBuilder.ownsRevokedPartitions).
                owned = to_lists(request.topic_partitions).values()
                self.keeps(group_id, member_id, {number for numbers in owned for number in numbers})
            return
        until = asked.sent_at + SESSION_S
        for partition in told:
            self._claim(asked, group_id, partition, member_id)
        for key, (holder, held_until) in list(self._claims.items()):
            if holder == member_id and key[0] == group_id:
                self._claims[key] = (holder, max(held_until, until))

    def _claim(self, asked: Asked, group_id: str, partition: int, member_id: str) -> None:
        now = self._world.now
        holder, until = self._claims.get((group_id, partition), (member_id, 0.0))
        if holder != member_id and until > now:
            raise Violation(
                f"ownership: {asked.process.name} gives partition {partition} of {group_id} to {member_id} "
                f"at {now:.3f}, {holder} holds it until {until:.3f}"
            )
        self._claims[group_id, partition] = (member_id, asked.sent_at + SESSION_S)

    def keeps(self, group_id: str, member_id: str, owned: set[int]) -> None:
        """The member says from now on that it owns these and no others."""
        for key, (holder, _) in list(self._claims.items()):
            if holder == member_id and key[0] == group_id and key[1] not in owned:
                del self._claims[key]

    # -- metadata -----------------------------------------------------------------------------------

    def _created(self, asked: Asked, answer: CreateTopicsResult) -> None:
        for topic in answer.topics:
            if topic.error_code != NO_ERROR:
                continue
            if asked.floors[topic.name]:
                raise Violation(f"reads: {asked.process.name} creates {topic.name}, which was there before")
            written = self._state.writes((TOPIC_RECORD, topic.name))
            if not any(value is not None and value[0] == topic.topic_id for _, value in written):
                raise Violation(f"commits: {topic.name} is created, it is told, and is not committed")
            self._topics.add(topic.name)
            self.commits += 1

    def _producer_ids(self, asked: Asked, answer: ProducerIdBlock) -> None:
        if answer.error_code != NO_ERROR:
            return
        assert isinstance(asked.request.body, AllocateProducerIds)
        first, following = answer.first_producer_id, answer.first_producer_id + answer.size
        if first in self._blocks:
            raise Violation(f"producer ids: the block from {first} on is given out twice")
        self._blocks.add(first)
        if not any(value[0] == following for _, value in self._state.writes((PRODUCER_IDS, ""))):
            raise Violation(f"commits: producer ids from {first} on are given out and not committed")
        self.commits += 1
