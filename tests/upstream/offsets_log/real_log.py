"""The log of `__consumer_offsets` of a real Kafka, and what that Kafka says of its groups, asked raw."""

from __future__ import annotations

from actors.ground.image import MetadataImage, TopicImage
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.network.wire import Wire
from tests.coordinator.take_over.taker import newest

FETCH_VERSION = 12
FETCH_BYTES = 300_000


async def connected(bootstrap: str) -> Wire:
    host, port = bootstrap.rsplit(":", 1)
    return await Wire.connect(host, int(port), "raw")


async def fetched(wire: Wire, offset: int, partition: int = 0) -> bytes:
    """Return what a Fetch from an offset on brings, b"" at the end of the log."""
    asked = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": FETCH_BYTES,
    }
    answer = await wire.call(
        "fetch",
        FETCH_VERSION,
        replica_id=-1,
        max_wait=0,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": OFFSETS_TOPIC, "partitions": [asked]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    [told] = answer["responses"][0]["partitions"]
    assert told["error_code"] == 0, told
    return bytes(told["records"] or b"")


async def image_of(wire: Wire) -> MetadataImage:
    """Return the cluster's topics as an image."""
    told = await wire.call(
        "metadata",
        12,
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    topics = tuple(
        TopicImage(topic["topic_id"].bytes, topic["name"], (0,) * len(topic["partitions"]))
        for topic in told["topics"]
        if topic["name"] != OFFSETS_TOPIC
    )
    return newest(*topics)
