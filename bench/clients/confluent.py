"""A member of confluent-kafka (librdkafka), both protocols."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.clients.line import Line, play

POLL_S = 0.05
NAMES = {
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
}


class Member:
    def __init__(self, line: Line) -> None:
        self._line = line
        self._polled: dict[tuple[str, int], int] = {}
        settings = {NAMES.get(name, name): value for name, value in line.settings.items()}
        if settings.get("group.protocol") == "classic":
            del settings["group.protocol"]  # what every version does unasked; old ones do not know the name
        settings = {"fetch.wait.max.ms": "100", "log_level": "0"} | settings
        self._consumer = Consumer({**settings, "error_cb": self._complained})

    def run(self) -> None:
        line = self._line
        topics = line.topics if line.pattern is None else [f"^{line.pattern}"]
        if topics:
            self._subscribe(topics)
        line.serve(self._poll, self._commit, self._subscribe)
        self._consumer.close()
        line.tell("closed")

    def _subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(
            topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _poll(self) -> None:
        by_partition: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        for message in self._consumer.consume(100, POLL_S):
            if message.error() is None:
                records = by_partition.setdefault((message.topic(), message.partition()), [])
                records.append((message.offset(), message.value()))
        for partition, records in by_partition.items():
            self._polled[partition] = records[-1][0] + 1
            self._line.tell_records(partition, records)
        if by_partition and self._line.commits_each_poll:
            self._commit()

    def _commit(self) -> None:
        offsets = dict(self._polled)
        if not offsets:
            return
        try:
            self._consumer.commit(
                offsets=[TopicPartition(*key, offset) for key, offset in offsets.items()], asynchronous=False
            )
        except KafkaException as error:
            self._line.tell("refused", error=str(error))
        else:
            self._line.tell_committed(offsets)

    def _complained(self, error: Any) -> None:
        self._line.tell("complained", error=str(error))

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        self._line.tell_partitions("assigned", partitions)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        if partitions:
            time.sleep(self._line.revoke_ms / 1_000)
        self._drop("revoked", partitions)

    def _lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._drop("lost", partitions)

    def _drop(self, event: str, partitions: list[Any]) -> None:
        for each in partitions:
            self._polled.pop((each.topic, each.partition), None)
        self._line.tell_partitions(event, partitions)


if __name__ == "__main__":
    play(lambda line: Member(line).run())
