"""Produce and Fetch, to the leader of partitions, and what their answers say. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from actors.network.wire import parse_answer
from bench.member.requests import Request, by_schema
from bench.swarm.records.batches import next_offset

Partition = tuple[str, int]
PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 7
ALL_COPIES: Final = -1
NO_SESSION: Final = -1
EARLIEST: Final = -2
PARTITION_BYTES_MAX: Final = 1024 * 1024
FETCH_BYTES_MAX: Final = 50 * 1024 * 1024
OUT_OF_RANGE: Final = 1
MOVED: Final = frozenset({3, 5, 6, 9, 74, 76, 100})
"""The leader is another, or not there yet: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_
FOLLOWER, REPLICA_NOT_AVAILABLE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_ID."""


class Fetched(NamedTuple):
    """What the answer to Fetch says of one partition."""

    error_code: int
    high_watermark: int
    next_offset: int | None
    """The offset behind the records that came; None: none came."""


def produce(batches: Mapping[Partition, bytes], timeout_ms: int) -> Request:
    """Produce with acks=all: the answer comes when all replicas have the batches."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), records in batches.items():
        topics.setdefault(topic, []).append({"index": partition, "records": records})
    data = [{"name": topic, "partition_data": rows} for topic, rows in topics.items()]
    fields = {"transactional_id": None, "acks": ALL_COPIES, "timeout": timeout_ms, "topic_data": data}
    return by_schema("produce", PRODUCE_VERSION, fields)


def produced(answer: bytes) -> dict[Partition, tuple[int, int]]:
    """Read the answer to Produce: error code and offset of the first record, by partition."""
    _, told = parse_answer("produce", PRODUCE_VERSION, answer)
    return {
        (topic["name"], row["index"]): (int(row["error_code"]), row["base_offset"])
        for topic in told["responses"]
        for row in topic["partition_responses"]
    }


def fetch(offsets: Mapping[Partition, int], max_wait_ms: int) -> Request:
    """Fetch from these offsets on, without a fetch session."""
    return by_schema("fetch", FETCH_VERSION, fetch_fields(offsets, max_wait_ms))


def fetch_fields(offsets: Mapping[Partition, int], max_wait_ms: int) -> dict[str, Any]:
    """Return the fields of `fetch`, for shells that make their frames themselves."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), offset in offsets.items():
        row = {
            "partition": partition,
            "fetch_offset": offset,
            "partition_max_bytes": PARTITION_BYTES_MAX,
        }
        topics.setdefault(topic, []).append(row)
    return {
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": FETCH_BYTES_MAX,
        "session_epoch": NO_SESSION,
        "topics": [{"topic": topic, "partitions": rows} for topic, rows in topics.items()],
        "forgotten_topics_data": [],
    }


def fetched(answer: bytes) -> dict[Partition, Fetched]:
    """Read the answer to Fetch, by partition."""
    _, told = parse_answer("fetch", FETCH_VERSION, answer)
    return {
        (topic["topic"], row["partition_index"]): Fetched(
            int(row["error_code"]) or int(told["error_code"]),
            row["high_watermark"],
            next_offset(row["records"]),
        )
        for topic in told["responses"]
        for row in topic["partitions"]
    }


def earliest(partition: Partition) -> Request:
    """Ask ListOffsets where a partition begins."""
    topic, number = partition
    row = {"partition_index": number, "timestamp": EARLIEST}
    topics = [{"name": topic, "partitions": [row]}]
    fields = {"replica_id": -1, "isolation_level": 0, "topics": topics}
    return by_schema("list_offsets", LIST_OFFSETS_VERSION, fields)


def listed(answer: bytes) -> tuple[int, int]:
    """Read the answer to ListOffsets of one partition: error code and offset."""
    _, told = parse_answer("list_offsets", LIST_OFFSETS_VERSION, answer)
    row = told["topics"][0]["partitions"][0]
    return int(row["error_code"]), row["offset"]
