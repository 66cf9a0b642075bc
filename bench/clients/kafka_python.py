"""A member of kafka-python, from version 2.0.2 on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import kafka
from kafka.coordinator.assignors.range import RangePartitionAssignor

from bench.clients.line import Line, play

POLL_MS = 50
NO_EPOCH = (-1,) * (len(kafka.OffsetAndMetadata._fields) - 2)
"""The leader's epoch, which versions before 2.2 do not commit."""


def _assignor(name: str) -> Any:
    if name == "range":
        return RangePartitionAssignor
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor  # since 3.0

    return CooperativeStickyAssignor


class Member(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, line: Line) -> None:
        self._line = line
        self._polled: dict[Any, int] = {}
        settings = line.keywords() | {"enable_auto_commit": False}
        strategy = settings.pop("partition_assignment_strategy", "range")
        self._consumer = kafka.KafkaConsumer(
            partition_assignment_strategy=(_assignor(strategy),), **({"fetch_max_wait_ms": 100} | settings)
        )

    def run(self) -> None:
        line, consumer = self._line, self._consumer
        if line.pattern is None:
            consumer.subscribe(line.topics, listener=self)
        else:
            consumer.subscribe(pattern=f"^{line.pattern}$", listener=self)
        line.serve(self._poll, self._commit)
        consumer.close()
        line.tell("closed")

    def _poll(self) -> None:
        got = self._consumer.poll(POLL_MS)
        for partition, records in got.items():
            self._polled[partition] = records[-1].offset + 1
            self._line.tell_records(partition, [(record.offset, record.value) for record in records])
        if got and self._line.commits_each_poll:
            self._commit()

    def _commit(self) -> None:
        offsets = dict(self._polled)
        if not offsets:
            return
        try:
            self._consumer.commit(
                {each: kafka.OffsetAndMetadata(offset, "", *NO_EPOCH) for each, offset in offsets.items()}
            )
        except kafka.errors.KafkaError as error:
            self._line.tell("refused", error=repr(error))
        else:
            self._line.tell_committed(offsets)

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        self._line.tell_partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        self._drop("revoked", revoked)

    def on_partitions_lost(self, lost: Collection[Any]) -> None:
        self._drop("lost", lost)

    def _drop(self, event: str, partitions: Collection[Any]) -> None:
        for each in partitions:
            self._polled.pop(each, None)
        self._line.tell_partitions(event, partitions)


if __name__ == "__main__":
    play(lambda line: Member(line).run())
