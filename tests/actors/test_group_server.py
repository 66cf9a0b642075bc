"""Frames in, answers out: what a leader's actor does between its sockets and its replica."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from actors.coordinator.records import RECORD_TYPES
from actors.coordinator.settings import GroupSettings
from actors.coordinator.shard import CoordinatorShard
from actors.group_server import ElsewhereError, GroupServer
from actors.metadata.image import MetadataImage
from actors.network.identity import ClientIdentity
from actors.protocol.headers import parse_header
from actors.protocol.java_hash import partition_for
from actors.replica import RecordType, Replica
from cluster.wire import parse_answer, request_frame

PARTITIONS = 4
CLIENT = ClientIdentity("/127.0.0.1", "127.0.0.1:1")
UNKNOWN_MEMBER_ID = 25
NOT_COORDINATOR = 16
UNKNOWN_SERVER_ERROR = -1


class Log:
    """A log of one replica: what is proposed is committed by `commit`."""

    is_leader = True
    term = 1
    pending_bytes = 0
    last_index = 0

    def propose(self, command: bytes) -> int:
        self.last_index += 1
        return self.last_index

    def has_lease(self) -> bool:
        return True


class Leader:
    """A GroupServer over a leading replica, fed with frames."""

    def __init__(self, partition: int) -> None:
        ids = itertools.count()
        self.late: list[bytes] = []
        self.log = Log()
        self.replica = Replica(
            new_shard=lambda: CoordinatorShard(
                GroupSettings(group_initial_rebalance_delay_ms=0),
                lambda: f"id-{next(ids)}",
                MetadataImage(),
            ),
            record_types={kind: RecordType(*types) for kind, types in RECORD_TYPES.items()},
            release=lambda token, body: self.server.release(token, body),
            clock_ms=lambda: 0,
            on_events=lambda events: None,
        )
        self.replica.log = self.log
        self.server = GroupServer(self.replica, partition, PARTITIONS, lambda: 0)
        self.replica.on_leading(1)

    def serve(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Answer of one request on a connection of its own, committed if need be."""
        frame = request_frame(api, version, 7, "test", fields)[4:]
        header, body_offset = parse_header(frame)
        answered, _ = self.server.serve(header, frame, body_offset, CLIENT, self.late.append)
        return self._answer(api, version, answered)

    def relayed(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        frame = request_frame(api, version, 7, "test", fields)[4:]
        header, body_offset = parse_header(frame)
        answered = self.server.serve_relayed(header, frame, body_offset, CLIENT, self.late.append)
        return self._answer(api, version, answered)

    def _answer(self, api: str, version: int, answered: bytes | None) -> dict[str, Any]:
        if answered is None:
            if self.replica.can_flush:
                self.replica.flush()
                self.replica.apply(self.log.last_index, 1, b"")
            answered = self.late.pop()
        correlation_id, fields = parse_answer(api, version, answered[4:])
        assert correlation_id == 7
        return fields


def group_of(partition: int) -> str:
    return next(f"g{n}" for n in itertools.count() if partition_for(f"g{n}", PARTITIONS) == partition)


@pytest.fixture
def leader() -> Leader:
    return Leader(1)


def test_repeated_heartbeat_is_answered_without_being_decoded_and_another_members_is_not(
    leader: Leader,
) -> None:
    """C20: only a frame that is the same to the byte, correlation id apart, may be taken for the last one."""
    beat = {"group_id": group_of(1), "generation_id": 1, "member_id": "m1"}
    frame = request_frame("heartbeat", 4, 7, "test", beat)[4:]
    header, body_offset = parse_header(frame)
    _, last = leader.server.serve(header, frame, body_offset, CLIENT, leader.late.append)
    assert last is not None
    again = request_frame("heartbeat", 4, -5, "test", beat)[4:]
    assert last.is_same(again)
    answered = leader.server.serve_again(last, again, CLIENT, leader.late.append)
    assert answered is not None
    assert parse_answer("heartbeat", 4, answered[4:]) == (
        -5,
        {"throttle_time": 0, "error_code": UNKNOWN_MEMBER_ID},
    )
    others = [
        request_frame("heartbeat", 4, 7, "test", {**beat, "member_id": "m2"})[4:],
        request_frame("heartbeat", 4, 7, "other", beat)[4:],
        request_frame("heartbeat", 3, 7, "test", beat)[4:],
        frame + b"\0",
    ]
    assert [last.is_same(other) for other in others] == [False] * 4


def test_group_of_another_partition_is_for_the_broker(leader: Leader) -> None:
    """W17: the leader does not answer for partitions that it does not lead."""
    with pytest.raises(ElsewhereError):
        leader.serve("heartbeat", 4, group_id=group_of(2), generation_id=1, member_id="m")


def test_relayed_batch_is_answered_for_own_groups_and_refused_for_others(leader: Leader) -> None:
    """W17: each group has its own answer, in the order asked."""
    mine, other = group_of(1), group_of(2)
    answer = leader.relayed("describe_groups", 6, groups=[other, mine], include_authorized_operations=False)
    assert [(group["group_id"], group["error_code"]) for group in answer["groups"]] == [
        (other, NOT_COORDINATOR),
        (mine, 69),
    ]


def test_join_is_answered_when_its_record_is_committed(leader: Leader) -> None:
    """C3: the answer that names a new member id waits for the new group's record."""
    join = {
        "group_id": group_of(1),
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    answer = leader.serve("join_group", 9, **join)
    assert answer["error_code"] == 79
    assert leader.log.last_index == 1
    joined = leader.serve("join_group", 9, **{**join, "member_id": answer["member_id"]})
    assert (joined["error_code"], joined["generation_id"]) == (0, 1)


def test_metadata_that_no_record_can_hold_is_refused(leader: Leader) -> None:
    """Kafka answers UNKNOWN_SERVER_ERROR when a group's record is too large for its offsets topic."""
    answered = leader.serve(
        "join_group",
        7,
        group_id=group_of(1),
        session_timeout=10_000,
        rebalance_timeout=10_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": bytes(13 << 20)}],
    )
    assert answered["error_code"] == UNKNOWN_SERVER_ERROR
    assert leader.replica.is_settled
