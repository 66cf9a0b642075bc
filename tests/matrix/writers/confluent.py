"""A writer of confluent-kafka (librdkafka)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from confluent_kafka import Producer

from tests.matrix.writers.serve import REQUEST_BYTES_MAX, Record, Refused, serve

FLUSH_S = 60


def writer(bootstrap: str) -> Callable[[Record], int]:
    @cache
    def producer_of(codec: str) -> Producer:
        settings = {"compression.type": codec, "message.max.bytes": REQUEST_BYTES_MAX, "log_level": "0"}
        return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **settings})

    def write(record: Record) -> int:
        delivered: list[tuple[Any, Any]] = []
        producer = producer_of(record.codec)
        producer.produce(
            record.topic,
            record.value,
            partition=record.partition,
            on_delivery=lambda error, message: delivered.append((error, message)),
        )
        producer.flush(FLUSH_S)
        ((error, message),) = delivered
        if error is not None:
            raise Refused(error.code(), error)
        offset: int = message.offset()
        return offset

    return write


if __name__ == "__main__":
    serve(writer)
