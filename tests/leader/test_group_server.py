"""A leader's actor takes frames and gives answers: what it does between its sockets and its replica."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from actors.catalog.headers import parse_header
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.records import (
    CLASSIC_MEMBER,
    GROUP_METADATA,
    ClassicMemberKey,
    ClassicMemberValue,
    GroupMetadataKey,
    GroupMetadataValue,
)
from actors.ground.settings import GroupSettings
from actors.leader.group_server import Answer, ElsewhereError, GroupServer, Share
from actors.leader.large_answers import SMALL_MAX, Pack
from actors.network.wire import parse_answer, request_frame
from actors.protocol.java_hash import partition_for
from actors.protocol.partitioning import Partitioning
from tests.coordinator.alone import commit, lead, log_of, new_replica
from tests.coordinator.shards import new_shard
from tests.leader.asking import Line

PARTITIONS = 4
CLIENT = ClientIdentity("/127.0.0.1", "127.0.0.1:1")
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
NOT_COORDINATOR = 16
UNKNOWN_SERVER_ERROR = -1


class Leader:
    """A GroupServer over a leading replica, fed with frames."""

    def __init__(self, partition: int) -> None:
        settings = GroupSettings(group_initial_rebalance_delay_ms=0, group_rebalance_batch_max_ms=0)
        self.late: list[bytes] = []
        self.replica = new_replica(
            lambda: new_shard(settings), lambda token, body: self.server.release(token, body)
        )
        self.server = GroupServer(self.replica, Share(partition, lambda: Partitioning(PARTITIONS)), lambda: 0)
        lead(self.replica)

    def serve(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """The answer to one request on a connection of its own, committed if need be."""
        return self.answer(api, version, self.send(api, version, "test", **fields))

    def send(self, api: str, version: int, client_id: str, **fields: Any) -> bytes | None:
        """Send a request and return the frame of its answer if it is answered at once."""
        frame = request_frame(api, version, 7, client_id, fields)[4:]
        header, body_offset = parse_header(frame)
        return self.server.serve(header, frame, body_offset, Line(CLIENT, self.late.append))[0]

    def relayed(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        frame = request_frame(api, version, 7, "test", fields)[4:]
        header, body_offset = parse_header(frame)
        answered = self.server.serve_relayed(header, frame, body_offset, CLIENT, self.late.append)
        return self.answer(api, version, answered)

    def answer(self, api: str, version: int, answered: bytes | None) -> dict[str, Any]:
        if answered is None:
            commit(self.replica)
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
    _, last = leader.server.serve(header, frame, body_offset, Line(CLIENT, leader.late.append))
    assert last is not None
    again = request_frame("heartbeat", 4, -5, "test", beat)[4:]
    assert last.is_same(again)
    answered = leader.server.serve_again(last, again, leader.late.append)
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


def test_repeated_heartbeat_is_answered_by_what_the_group_is_now(leader: Leader) -> None:
    """C20: an answer's bytes are used again only for the same answer."""
    join = {
        "group_id": group_of(1),
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    member_id = leader.serve("join_group", 9, **join, member_id="")["member_id"]
    generation = {"group_id": group_of(1), "member_id": member_id, "generation_id": 1}
    leader.serve("join_group", 9, **join, member_id=member_id)
    leader.serve(
        "sync_group", 5, **generation, protocol_type="consumer", protocol_name="range", assignments=[]
    )
    frame = request_frame("heartbeat", 4, 7, "test", generation)[4:]
    header, body_offset = parse_header(frame)
    _, last = leader.server.serve(header, frame, body_offset, Line(CLIENT, leader.late.append))
    assert last is not None
    told = []
    for correlation_id in (1, -2):
        again = request_frame("heartbeat", 4, correlation_id, "test", generation)[4:]
        told.append(leader.server.serve_again(last, again, leader.late.append))
    other_id = leader.serve("join_group", 9, **join, member_id="")["member_id"]
    assert leader.send("join_group", 9, "test", **join, member_id=other_id) is None
    for correlation_id in (3, -4):
        again = request_frame("heartbeat", 4, correlation_id, "test", generation)[4:]
        told.append(leader.server.serve_again(last, again, leader.late.append))
    answers = [parse_answer("heartbeat", 4, each[4:]) for each in told if each is not None]
    assert [(correlation_id, fields["error_code"]) for correlation_id, fields in answers] == [
        (1, 0),
        (-2, 0),
        (3, REBALANCE_IN_PROGRESS),
        (-4, REBALANCE_IN_PROGRESS),
    ]


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
    assert log_of(leader.replica).last_index == 1
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
    assert leader.replica.is_committed


@pytest.mark.parametrize("client_id", ["c" * 32_767, "é" * 16_383])
def test_a_client_id_as_long_as_kafka_allows_makes_no_member_id_that_cannot_be_answered(
    leader: Leader, client_id: str
) -> None:
    """C7: the member id begins with the client id. JoinGroup 3 has no room for more than 32,767 bytes, and
    its answer leaves in the replica's own turn, where nothing may fail."""
    fields = {
        "group_id": group_of(1),
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    joined = leader.answer("join_group", 3, leader.send("join_group", 3, client_id, **fields))
    assert joined["error_code"] == 0
    assert joined["member_id"].startswith(client_id[:1_000])
    assert len(joined["member_id"].encode()) <= 32_767


def test_requests_of_a_partition_are_decided_one_after_the_other_before_any_is_committed(
    leader: Leader,
) -> None:
    """R1: the second join finds the group as the first has left it, and both wait for the one commit."""
    for member_id in ("first", "second"):
        fields = {
            "group_id": group_of(1),
            "member_id": member_id,
            "member_epoch": 0,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 10_000,
            "subscribed_topic_names": ["orders"],
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
        }
        assert leader.send("consumer_group_heartbeat", 1, "test", **fields) is None
    assert leader.late == []
    commit(leader.replica)
    told = [parse_answer("consumer_group_heartbeat", 1, each[4:])[1]["member_id"] for each in leader.late]
    assert told == ["first", "second"]
    asked = {"group_ids": [group_of(1)], "include_authorized_operations": False}
    (group,) = leader.serve("consumer_group_describe", 1, **asked)["groups"]
    assert group["group_epoch"] == 3, "1 to begin with, and one more for each member's subscription"
    assert [member["member_id"] for member in group["members"]] == ["first", "second"]


def test_a_large_answer_is_packed_beside(leader: Leader) -> None:
    """While a thread packs a large answer others are served: the server gives the work away and sends the
    answer later."""
    given_away: list[tuple[Pack, Answer]] = []
    server = GroupServer(
        leader.replica,
        Share(1, lambda: Partitioning(PARTITIONS)),
        lambda: 0,
        beside=lambda pack, answer: given_away.append((pack, answer)),
    )
    leader.server = server
    assert leader.relayed("list_groups", 5)["groups"] == []
    many = (f"many-{n}" for n in itertools.count())
    mine = itertools.islice((g for g in many if partition_for(g, PARTITIONS) == 1), SMALL_MAX + 1)
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    topics = [{"name": "t", "partitions": [offset | {"committed_metadata": None}]}]
    no_member = {"member_id": "", "generation_id_or_member_epoch": -1}
    leader.replica.on_metadata(MetadataImage(version=1, topics=(TopicImage(bytes(16), "t", (0,)),)), 0)
    for group_id in mine:
        leader.serve("offset_commit", 8, **no_member, group_id=group_id, topics=topics)
    frame = request_frame("list_groups", 5, 7, "test", {})[4:]
    header, body_offset = parse_header(frame)
    assert server.serve_relayed(header, frame, body_offset, CLIENT, leader.late.append) is None
    [(pack, answer)] = given_away
    answer(pack())
    assert len(parse_answer("list_groups", 5, leader.late.pop()[4:])[1]["groups"]) == SMALL_MAX + 1


def test_a_large_answer_that_cannot_be_packed_is_an_error(leader: Leader) -> None:
    """A client gets an answer even if a name in it is too long for the version that was asked in."""
    group_id, given_away = group_of(1), []
    leader.server = GroupServer(
        leader.replica,
        Share(1, lambda: Partitioning(PARTITIONS)),
        lambda: 0,
        beside=lambda pack, answer: given_away.append((pack, answer)),
    )
    too_long = ClassicMemberValue(None, "c" * 40_000, "/h", 300_000, 45_000, (("range", b""),), b"")
    for number in range(SMALL_MAX + 1):
        leader.replica.shard.apply(ClassicMemberKey(CLASSIC_MEMBER, group_id, f"m{number}"), too_long)
    metadata = GroupMetadataValue("consumer", 3, "range", "m0", 0)
    leader.replica.shard.apply(GroupMetadataKey(GROUP_METADATA, group_id), metadata)
    leader.replica.on_fallen()
    lead(leader.replica)
    fields = {"groups": [group_id], "include_authorized_operations": False}
    assert leader.send("describe_groups", 4, "test", **fields) is None
    [(pack, answer)] = given_away
    answer(pack())
    (group,) = parse_answer("describe_groups", 4, leader.late.pop()[4:])[1]["groups"]
    assert group["error_code"] == UNKNOWN_SERVER_ERROR
