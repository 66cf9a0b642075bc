"""The log that brokers are given of a coordinator's groups, and what Kafka's coordinators make of it."""

from __future__ import annotations

import asyncio

from actors.coordinator.kafka_records.codec import decode, kind_of
from actors.coordinator.kafka_records.schemas import SCHEMAS
from actors.ground import records as ours
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.node.made_log import Bounds, MadeLog, Place
from actors.protocol.offsets_feed import Piece
from actors.topics.batch_contents import contents, whole_batches
from tests.coordinator.host import Host

BEGIN = 1 << 40
RECORDS_A_PIECE = 7


class Given:
    """A log that begins with the state of a coordinator and goes on with what that commits
    (replica.neighbours.Feed)."""

    def __init__(self, host: Host, bounds: Bounds | None = None) -> None:
        self._host = host
        self.made = MadeLog(
            Place(OFFSETS_TOPIC, 0),
            lambda place, size_bytes: None,
            lambda: host.now_ms,
            bounds or Bounds(),
            is_for_brokers=True,
        )
        self.made.begin_at(BEGIN)
        host.commit()
        self.state()
        host.replica.feeds += (self,)

    def state(self) -> None:
        """Take the whole state, once more if it is not the first time."""
        build = self._host.replica.begin_fed(may_have_rows=True)
        while (part := build.take(RECORDS_A_PIECE)) is not None:
            asyncio.run(self.made.take(Piece.STATE, part))
        asyncio.run(self.made.take(Piece.STATE_END, b""))

    def committed(self, command: bytes) -> None:
        asyncio.run(self.made.take(Piece.COMMITTED, command))

    def end(self) -> None:
        """The coordinator leads no more."""

    def raw(self) -> bytes:
        """Commit what was decided, and return the whole log. Kafka must be able to load it."""
        self._host.commit()
        log = self.made.log
        raw = log.read(log.log_start_offset, 2**31)
        Loader().load(raw)
        return raw


class Loader:
    """What org.apache.kafka GroupMetadataManager.replay does not bear: a member or group that ends before
    its parts are, or a record of a classic group where a consumer group is. Such a log cannot be loaded, or
    loses the group."""

    def __init__(self) -> None:
        self.members: dict[tuple[str, str], set[int]] = {}
        """(group id, member id) -> the types of records that are there of it. Kafka's members have an epoch
        from the beginning."""
        self.groups: dict[str, set[int]] = {}

    def load(self, raw: bytes) -> None:
        for header, batch in whole_batches(raw):
            if not header.is_control:
                for record in contents(batch, header):
                    assert record.key is not None
                    self._replay(record.key, record.value)

    def _replay(self, key: bytes, value: bytes | None) -> None:
        if kind_of(key) not in SCHEMAS:
            return
        read = decode(key, value)
        match read.kind:
            case ours.GROUP_METADATA:
                assert read.key["group"] not in self.groups, f"{read} takes a consumer group's place"
            case ours.CONSUMER_GROUP_METADATA | ours.TARGET_ASSIGNMENT_METADATA:
                self._of_group(read.key["groupId"], read.kind, is_there=value is not None)
            case ours.CONSUMER_MEMBER_METADATA:
                self._of_member(*read.key.values(), read.kind, is_there=value is not None)
            case ours.TARGET_ASSIGNMENT_MEMBER | ours.CURRENT_MEMBER_ASSIGNMENT:
                self._of_member(*read.key.values(), read.kind, is_there=value is not None)

    def _of_group(self, group_id: str, kind: int, *, is_there: bool) -> None:
        if is_there:
            self.groups.setdefault(group_id, set()).add(kind)
            return
        if group_id not in self.groups:
            return
        if kind == ours.CONSUMER_GROUP_METADATA:
            left = [member for member in self.members if member[0] == group_id]
            assert not left, f"group {group_id} is deleted, and has {left}"
            assert self.groups.pop(group_id) <= {kind}, f"group {group_id} is deleted, and has a target"
        else:
            self.groups[group_id].discard(kind)

    def _of_member(self, group_id: str, member_id: str, kind: int, *, is_there: bool) -> None:
        member = group_id, member_id
        if is_there:
            self.groups.setdefault(group_id, set())
            parts = self.members.setdefault(member, {ours.CURRENT_MEMBER_ASSIGNMENT})
            parts.add(kind)
            return
        if member not in self.members:
            return
        if kind == ours.CONSUMER_MEMBER_METADATA:
            assert self.members.pop(member) <= {kind}, f"{member} is deleted before its parts"
        else:
            self.members[member].discard(kind)
