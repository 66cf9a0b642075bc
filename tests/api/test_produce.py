"""What fails a Produce request as a whole (W32)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.protocol.api_keys import PRODUCE
from tests.api.brokers import Broker, part
from tests.api.test_data import one_topic, run, topic_id
from tests.topics.batches import batch, with_field

GOOD = batch(b"a")
STRANGE = with_field(batch(b"a"), 21, ">h", 5)
"""A batch of a codec that there is not."""


async def produced(broker: Broker, version: int, *pieces: tuple[str, bytes]) -> dict[str, ErrorCode]:
    """Produce to partition 0 of each topic. Return the topics' errors."""
    topics = [
        part(
            PRODUCE,
            version,
            "TopicProduceData",
            name=name,
            topic_id=topic_id(broker, name),
            partition_data=(part(PRODUCE, version, "PartitionProduceData", index=0, records=records),),
        )
        for name, records in pieces
    ]
    fields: dict[str, Any] = {"acks": -1, "transactional_id": None, "timeout": timedelta(seconds=1)}
    answer = await broker.ask(PRODUCE, version, topic_data=tuple(topics), **fields)
    return {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}


@pytest.mark.parametrize("version", [3, 6])
def test_an_unknown_codec_of_an_old_producer_fails_the_whole_request(version: int) -> None:
    """The good batch was appended, and the topic that is not there was told of by itself."""

    async def story() -> None:
        _, one, _ = one_topic()
        wrong = ErrorCode.unknown_server_error
        assert await produced(one, version, ("t", STRANGE), ("none", GOOD)) == {"t": wrong, "none": wrong}
        assert await produced(one, version, ("t", GOOD)) == {"t": ErrorCode.none}
        topic = one.apis.image.topics["t"]
        assert one.context.logs.log(topic, 0).end_offset == 1

    run(story())


def test_an_unknown_codec_for_a_topic_that_is_not_there_fails_nothing_else() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        told = await produced(one, 6, ("t", GOOD), ("none", STRANGE))
        assert told == {"t": ErrorCode.none, "none": ErrorCode.unknown_topic_or_partition}

    run(story())


def test_an_unknown_codec_of_a_newer_producer_fails_its_batch_alone() -> None:
    async def story() -> None:
        _, one, _ = one_topic()
        told = await produced(one, 7, ("t", STRANGE), ("none", GOOD))
        assert told == {"t": ErrorCode.unknown_server_error, "none": ErrorCode.unknown_topic_or_partition}

    run(story())
