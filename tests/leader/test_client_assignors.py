"""A group whose members compute, from frames to frames: what they are told and send on their connections."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.serial import entity_reader

from actors.catalog.headers import parse_header
from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.settings import GroupSettings
from actors.leader.group_server import GroupServer, Share
from actors.protocol import api_keys as k
from actors.protocol.entities import build, nested, request_class, response_class
from actors.protocol.partitioning import Partitioning
from actors.protocol.schema_classes import made_classes
from tests.coordinator.alone import commit, lead, new_replica
from tests.coordinator.shards import new_shard
from tests.leader.asking import Line
from tests.protocol.random_entities import kio_bytes, request_head

IMAGE = MetadataImage(
    version=1,
    topics=(TopicImage(b"orders----------", "orders", (0,) * 4),),
    features=Features(1, ((GROUPD_VERSION, 2),)),
)
SETTINGS = GroupSettings(group_rebalance_batch_max_ms=0, group_consumer_assignment_interval_ms=0)
ASKED = made_classes("consumer_group_heartbeat", 1, "request")
TOLD = made_classes("consumer_group_heartbeat", 1, "response")
CLIENT = ClientIdentity("/127.0.0.1", "127.0.0.1:1")


class Leader:
    """The leader of the one offsets partition, with a connection for each member."""

    def __init__(self) -> None:
        self.late: list[bytes] = []
        self.replica = new_replica(
            lambda: new_shard(SETTINGS, image=IMAGE), lambda token, body: self.server.release(token, body)
        )
        self.server = GroupServer(self.replica, Share(0, lambda: Partitioning(1)), lambda: 0)
        lead(self.replica)

    def ask(self, api_key: int, version: int, entity: Any, answer_class: Any) -> Any:
        frame = request_head(api_key, version) + kio_bytes(entity)
        header, body_offset = parse_header(frame)
        answer, _ = self.server.serve(header, frame, body_offset, Line(CLIENT, self.late.append))
        if answer is None:
            commit(self.replica)
            answer = self.late.pop()
        return entity_reader(answer_class)(answer, 9)[0]

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Any:
        given = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "topic_partitions": None}
        entity = build(ASKED.ConsumerGroupHeartbeatRequest, **given | fields)
        return self.ask(k.CONSUMER_GROUP_HEARTBEAT, 1, entity, TOLD.ConsumerGroupHeartbeatResponse)

    def own(self, api_key: int, **fields: Any) -> Any:
        entity = build(request_class(api_key, 0), group_id="g", **fields)
        return self.ask(api_key, 0, entity, response_class(api_key, 0))


def test_a7_a9_a10_a_member_is_asked_is_handed_the_group_and_installs_what_it_computed() -> None:
    leader = Leader()
    capacity = ASKED.ClientAssignor(
        name="weighted",
        minimum_version=0,
        maximum_version=1,
        reason=0,
        metadata_version=1,
        metadata_bytes=b"3",
    )
    joined = leader.beat(
        "m",
        0,
        rebalance_timeout=timedelta(seconds=60),
        subscribed_topic_names=("orders",),
        topic_partitions=(),
        client_assignors=(capacity,),
    )
    assert (joined.member_epoch, joined.should_compute_assignment) == (1, True)
    who = {"member_id": "m", "member_epoch": 1}
    prepared = leader.own(k.CONSUMER_GROUP_PREPARE_ASSIGNMENT, **who)
    assert (prepared.assignor_name, prepared.group_epoch) == ("weighted", 2)
    assert prepared.members[0].metadata_bytes == b"3"
    [topic] = prepared.topics
    key = k.CONSUMER_GROUP_INSTALL_ASSIGNMENT
    all_of_it = nested(key, 0, "TopicPartitions", "request")(
        topic_id=topic.topic_id, partitions=tuple(range(topic.partition_count))
    )
    member = nested(key, 0, "Member", "request")(
        member_id="m",
        error=0,
        topic_partitions=(all_of_it,),
        metadata_version=1,
        metadata_bytes=b"all of it",
    )
    result = {"group_epoch": 2, "error": 0, "members": (member,)}
    assert leader.own(key, **who, **result).error_code == 0
    told = leader.beat("m", 1)
    assert (told.member_epoch, told.should_compute_assignment) == (2, False)
    assert told.assignment.topic_partitions[0].partitions == (0, 1, 2, 3)
    assert (told.metadata_version, told.metadata_bytes) == (1, b"all of it")
    steady = leader.beat("m", 2)
    assert (steady.member_epoch, steady.assignment, steady.metadata_bytes) == (2, None, None)
