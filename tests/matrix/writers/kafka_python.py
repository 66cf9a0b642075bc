"""A writer of kafka-python, from version 2.0.2 on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import kafka

from tests.matrix.writers.serve import REQUEST_BYTES_MAX, Record, Refused, serve

ACKNOWLEDGED_S = 60


def writer(bootstrap: str) -> Callable[[Record], int]:
    @cache
    def producer_of(codec: str) -> kafka.KafkaProducer:
        return kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            max_request_size=REQUEST_BYTES_MAX,
            acks="all",
        )

    def write(record: Record) -> int:
        future = producer_of(record.codec).send(record.topic, record.value, partition=record.partition)
        try:
            offset: int = future.get(ACKNOWLEDGED_S).offset
        except kafka.errors.BrokerResponseError as error:
            raise Refused(error.errno, error) from error
        return offset

    return write


if __name__ == "__main__":
    serve(writer)
