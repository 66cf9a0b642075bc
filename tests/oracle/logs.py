"""Topics whose logs transcripts write and read: batches as producers make them, and what is asked of logs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from actors.topics.leader_epochs import NO_LEADER_EPOCH
from tests.oracle.play import Client, Play
from tests.topics.batches import batch, with_field

NOBODYS_TOPIC = uuid.UUID(int=0xABCD)
BYTES_MAX = 1_000_000


def log_topic(
    play: Play, name: str = "t", partitions: int = 1, configs: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Create a topic, and wait until its leaders serve it: Kafka's know of it a little after Metadata."""
    unique = play.unique(name)
    play.create_log(unique, partitions, configs)
    asked = [{"partition_index": number, "timestamp": -1} for number in range(partitions)]

    def are_led() -> bool:
        topics = [{"name": unique, "partitions": asked}]
        told = play.admin.quietly("list_offsets", 7, replica_id=-1, topics=topics).topics[0].partitions
        return all(each.error_code.value == 0 for each in told)

    play.until(are_led, f"leaders of {unique}")
    return unique


def produced(play: Play, topic: str, records: Mapping[int, bytes | None]) -> list[dict[str, Any]]:
    """The field of Produce, in any version, that brings this for the topic's partitions."""
    data = [{"index": index, "records": each} for index, each in records.items()]
    return [{"name": topic, "topic_id": play.topic_id(topic) or NOBODYS_TOPIC, "partition_data": data}]


def filled(play: Play, topic: str, records: Mapping[int, bytes]) -> None:
    """Append without a trace in the record."""
    answer = play.admin.quietly("produce", 9, topic_data=produced(play, topic, records))
    errors = [each.error_code.value for each in answer.responses[0].partition_responses]
    assert errors == [0] * len(records), answer


def append(play: Play, client: Client, what: str, topic: str, records: bytes, version: int = 9) -> None:
    """Produce one batch, and record what came of it rather than its bytes: they have a random producer id."""
    asked = produced(play, topic, {0: records})
    answer = client.quietly("produce", version, topic_data=asked).responses[0].partition_responses[0]
    code = answer.error_code
    error = "none" if code.value == 0 else f"{code.value} {code.name}"
    play.note(what, [error, answer.base_offset, answer.log_start_offset])


def of_producer(producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    """The batch of an idempotent producer."""
    return batch(*[b"v"] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)


def changed(records: bytes, **fields: int) -> bytes:
    """The batch with other fields in its header, and its CRC made right again."""
    for name, value in fields.items():
        at, layout = _FIELDS[name]
        records = with_field(records, at, layout, value)
    return records


_FIELDS = {
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}


def wanted(
    play: Play, topic: str, offsets: Mapping[int, int] | Sequence[int], **fields: Any
) -> dict[str, Any]:
    """A topic of Fetch, in any version: its partitions from these offsets on, or from the beginning."""
    starts = offsets if isinstance(offsets, Mapping) else dict.fromkeys(offsets, 0)
    partitions = [
        {
            "partition": partition,
            "fetch_offset": offset,
            "partition_max_bytes": BYTES_MAX,
            "current_leader_epoch": NO_LEADER_EPOCH,
            **fields,
        }
        for partition, offset in starts.items()
    ]
    return {"topic": topic, "topic_id": play.topic_id(topic) or NOBODYS_TOPIC, "partitions": partitions}


def forgotten(play: Play, topic: str, *partitions: int) -> dict[str, Any]:
    """A topic that a session is to forget partitions of."""
    return {"topic": topic, "topic_id": play.topic_id(topic) or NOBODYS_TOPIC, "partitions": partitions}


def fetch(client: Client, version: int, topics: Sequence[Mapping[str, Any]], **fields: Any) -> Any:
    """Fetch without a wait, and without a session unless told otherwise."""
    known = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": BYTES_MAX, "session_epoch": -1}
    return client.ask(
        "fetch",
        version,
        topics=topics,
        unordered=("responses", "partitions"),
        **{**known, "forgotten_topics_data": [], **fields},
    )
