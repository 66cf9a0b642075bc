"""Change and list topics through a Kafka AdminClient, which works against this tier and any other Kafka.

Every function raises TierError in words for the user; results are plain values, ready for JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.tier_file import TierError

REQUEST_TIMEOUT_S = 15.0


class KafkaAdmin:
    """An AdminClient with short time-outs."""

    def __init__(self, bootstrap: str, properties: Mapping[str, Any] | None = None) -> None:
        """Make the client. `properties` are librdkafka's, for a Kafka that wants clients to authenticate."""
        self._bootstrap = bootstrap
        quiet = logging.getLogger("groupd.cli.librdkafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._client = AdminClient(
            {
                "client.id": "groupd-cli",
                **(properties or {}),
                "bootstrap.servers": bootstrap,
                "socket.timeout.ms": 10_000,
            },
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

    # Results of futures.

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
