"""A coordinator goes by the settings and features that hold now, not by those it was started with (W43,
W44)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import Request
from actors.ground.features import Features
from actors.ground.image import MetadataImage
from actors.protocol import api_keys
from actors.protocol.messages import ConsumerGroupHeartbeatRequest
from tests.coordinator.shards import new_shard


def test_w43_a_newer_image_brings_settings_and_takes_them_back() -> None:
    shard = new_shard(image=MetadataImage(broker_configs={"": {"group.max.size": "7"}}), node_id=2)
    assert shard.state.settings.group_max_size == 7
    own = {"": {"group.max.size": "7"}, "2": {"group.max.size": "9"}, "3": {"group.max.size": "5"}}
    shard.on_metadata(MetadataImage(version=1, broker_configs=own), 0)
    assert shard.state.settings.group_max_size == 9
    shard.on_metadata(MetadataImage(version=2), 0)
    assert shard.state.settings.group_max_size == 2**31 - 1


def test_w44_group_version_0_refuses_consumer_groups_until_it_rises_again() -> None:
    off = MetadataImage(version=1, features=Features(1, (("group.version", 0),)))
    shard = new_shard(image=off)
    body = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=9_000, subscribed_topic_names=(), topic_partitions=()
    )
    request = Request(1, api_keys.CONSUMER_GROUP_HEARTBEAT, 1, "c", "/127.0.0.1", body)
    assert shard.handle(request, 0).replies[0].body.error_code == ErrorCode.unsupported_version
    shard.on_metadata(MetadataImage(version=2, features=Features(2, (("group.version", 1),))), 0)
    taken = shard.handle(request, 0)
    assert [reply for reply in taken.replies if reply.body.error_code] == []
    assert taken.records
    shard.on_metadata(off, 0)
    assert shard.handle(request, 0).replies[0].body.error_code == ErrorCode.unsupported_version
