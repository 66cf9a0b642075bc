"""Topics and groups through a Kafka AdminClient: works against this tier and any other Kafka.

Every function raises TierError in words for the user; results are plain values, ready for JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from cluster.tier_file import TierError

REQUEST_TIMEOUT_S = 15.0


class KafkaAdmin:
    """One AdminClient with short time-outs."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        quiet = logging.getLogger("groupd.cli.librdkafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._client = AdminClient(
            {"bootstrap.servers": bootstrap, "socket.timeout.ms": 10_000, "client.id": "groupd-cli"},
            logger=quiet,
        )

    # Topics.

    def create_topic(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(configs))
        self._each(self._client.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S))

    def delete_topics(self, names: list[str]) -> None:
        self._each(self._client.delete_topics(names, request_timeout=REQUEST_TIMEOUT_S))

    def list_topics(self) -> list[dict[str, Any]]:
        try:
            metadata = self._client.list_topics(timeout=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise self._failed(error) from None
        return [
            {
                "name": name,
                "partitions": len(topic.partitions),
                "leaders": [topic.partitions[number].leader for number in sorted(topic.partitions)],
                "internal": name.startswith("__"),
            }
            for name, topic in sorted(metadata.topics.items())
        ]

    # Groups.

    def list_groups(self) -> list[dict[str, Any]]:
        listing = self._one(self._client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S))
        if listing.errors and not listing.valid:
            raise self._failed(listing.errors[0])
        return [
            {"group": group.group_id, "state": _enum(group.state), "type": _enum(group.type)}
            for group in sorted(listing.valid, key=lambda group: group.group_id)
        ]

    def describe_group(self, group_id: str) -> dict[str, Any]:
        """Raises TierError, also if there is no such group."""
        futures = self._client.describe_consumer_groups([group_id], request_timeout=REQUEST_TIMEOUT_S)
        described = self._one(futures[group_id])
        if described.state == ConsumerGroupState.DEAD:
            # What DescribeGroups before version 6 says of a group that does not exist.
            raise TierError(f"{group_id}: there is no such group")
        members = [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": member.group_instance_id,
                "partitions": sorted(
                    [partition.topic, partition.partition]
                    for partition in (member.assignment.topic_partitions if member.assignment else [])
                ),
            }
            for member in described.members
        ]
        return {
            "group": described.group_id,
            "state": _enum(described.state),
            "type": _enum(described.type),
            "assignor": described.partition_assignor,
            "coordinator": None if described.coordinator is None else described.coordinator.id,
            "members": members,
            "offsets": self._offsets(group_id, members),
        }

    def _offsets(self, group_id: str, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        asked = [ConsumerGroupTopicPartitions(group_id)]
        futures = self._client.list_consumer_group_offsets(asked, request_timeout=REQUEST_TIMEOUT_S)
        committed = [
            partition
            for partition in self._one(futures[group_id]).topic_partitions or []
            if partition.error is None and partition.offset >= 0
        ]
        ends = self._ends(committed)
        owners = {
            (topic, number): member["member_id"]
            for member in members
            for topic, number in member["partitions"]
        }
        rows = []
        for partition in sorted(committed, key=lambda partition: (partition.topic, partition.partition)):
            place = (partition.topic, partition.partition)
            end = ends.get(place)
            rows.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "committed": partition.offset,
                    "end": end,
                    "lag": None if end is None else max(end - partition.offset, 0),
                    "member_id": owners.get(place),
                }
            )
        return rows

    def _ends(self, committed: list[Any]) -> dict[tuple[str, int], int]:
        """End offsets where they can be had: a deleted topic has none."""
        if not committed:
            return {}
        wanted = {TopicPartition(p.topic, p.partition): OffsetSpec.latest() for p in committed}
        futures = self._client.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=REQUEST_TIMEOUT_S
        )
        ends = {}
        for partition, future in futures.items():
            try:
                ends[partition.topic, partition.partition] = future.result(REQUEST_TIMEOUT_S).offset
            except (KafkaException, FutureTimeoutError):
                continue
        return ends

    # What futures bring.

    def _each(self, futures: Mapping[str, Future[Any]]) -> None:
        failed = []
        for name, future in futures.items():
            try:
                self._one(future)
            except TierError as error:
                failed.append(f"{name}: {error}")
        if failed:
            raise TierError("; ".join(failed))

    def _one(self, future: Future[Any]) -> Any:
        try:
            return future.result(REQUEST_TIMEOUT_S + 5)
        except FutureTimeoutError:
            raise TierError(f"{self._bootstrap} did not answer within {REQUEST_TIMEOUT_S:.0f} s") from None
        except KafkaException as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> TierError:
        cause = error.args[0] if error.args else error
        code = cause.name() if hasattr(cause, "name") else type(error).__name__
        text = cause.str() if hasattr(cause, "str") else str(error)
        if code in ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN"):
            return TierError(f"no Kafka answers at {self._bootstrap} ({text})")
        return TierError(f"{text} ({code})")


def parse_configs(assignments: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE of a topic's configs. Raises TierError."""
    parsed = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise TierError(f"--config {assignment}: NAME=VALUE is expected")
        parsed[name] = value
    return parsed


def _enum(value: Any) -> str | None:
    return None if value is None else str(value.name).lower()
