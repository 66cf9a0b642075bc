"""A node finds out where logs end, from whoever leads them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.catalog import codec
from actors.ground.image import MetadataImage, NodeImage, TopicImage
from actors.network.peers import Peers
from actors.node import log_ends
from actors.node.log_ends import LogEnds
from actors.protocol.api_keys import LIST_OFFSETS
from actors.protocol.header import Header

HEADER = Header(LIST_OFFSETS, 1, 0)
HERE = 1
FROZEN, QUICK = 7, 8
"""Brokers of a cluster upstream, by their ids within the tier."""
END = 40


def _nested(kind: str, of: str) -> Any:
    return codec.nested(LIST_OFFSETS, 1, kind, of)


def asked(count: int) -> Any:
    partition, topic = _nested("ListOffsetsPartition", "request"), _nested("ListOffsetsTopic", "request")
    partitions = tuple(
        codec.build(partition, partition_index=number, timestamp=-1) for number in range(count)
    )
    topics = (codec.build(topic, name="t", partitions=partitions),)
    return codec.build(codec.request_class(LIST_OFFSETS, 1), replica_id=-1, topics=topics)


async def told(header: Header, entity: Any) -> Any:
    """Answer that every log ends at the same offset."""
    partition, topic = (
        _nested("ListOffsetsPartitionResponse", "response"),
        _nested("ListOffsetsTopicResponse", "response"),
    )
    topics = tuple(
        codec.build(
            topic,
            name=each.name,
            partitions=tuple(
                codec.build(
                    partition, partition_index=of.partition_index, error_code=0, timestamp=-1, offset=END
                )
                for of in each.partitions
            ),
        )
        for each in entity.topics
    )
    return codec.build(codec.response_class(LIST_OFFSETS, 1), topics=topics)


async def upstream(broker: int, header: Header, entity: Any) -> Any:
    if broker == FROZEN:
        await asyncio.Event().wait()
    return await told(header, entity)


def test_a_broker_that_hangs_hides_only_its_own_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_ends, "ANSWER_TIMEOUT_S", 0.1)
    node = NodeImage(HERE, "host", 1, None, True)
    topic = TopicImage(bytes(16), "t", (HERE, FROZEN, QUICK), ())
    image = MetadataImage(version=1, nodes=(node,), topics=(topic,))

    async def story() -> dict[int, int]:
        ends = LogEnds(HERE, Peers(b"", lambda _: ("", 0)), told, upstream)
        answer = await ends.answer(image, HEADER, asked(3))
        return {each.partition_index: each.offset for topic in answer.topics for each in topic.partitions}

    assert asyncio.run(asyncio.wait_for(story(), 10)) == {0: END, 2: END}
