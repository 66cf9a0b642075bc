"""A writer of aiokafka, from version 0.10 on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka

from tests.matrix.writers.serve import REQUEST_BYTES_MAX, Record, Refused, serve


def writer(bootstrap: str) -> Callable[[Record], int]:
    runner = asyncio.Runner()
    producers: dict[str, aiokafka.AIOKafkaProducer] = {}

    async def written(record: Record) -> int:
        if record.codec not in producers:
            producers[record.codec] = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if record.codec == "none" else record.codec,
                max_request_size=REQUEST_BYTES_MAX,
                enable_idempotence=True,
            )
            await producers[record.codec].start()
        try:
            told = await producers[record.codec].send_and_wait(
                record.topic, record.value, partition=record.partition
            )
        except aiokafka.errors.BrokerResponseError as error:
            raise Refused(error.errno, error) from error
        offset: int = told.offset
        return offset

    return lambda record: runner.run(written(record))


if __name__ == "__main__":
    serve(writer)
