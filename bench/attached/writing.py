"""The producer of a story: numbered records at an even rate, each acknowledged by all brokers in sync."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Producer

FLUSH_TIMEOUT_S: Final = 120.0


class Writing:
    """Writes into one partition after the other, in a thread, until `stop`. A context manager."""

    def __init__(self, client: Mapping[str, Any], topic: str, partitions: int, per_second: float) -> None:
        self._producer = Producer({**client, "enable.idempotence": True, "linger.ms": 5})
        self._topic = topic
        self._pause_s = 1 / per_second
        self._lock = threading.Lock()
        self._acknowledged = {f"{topic}-{number}": 0 for number in range(partitions)}
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.errors: list[str] = []
        """What was refused for good, and records that were acknowledged at another offset than their
        number."""

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def acknowledged(self) -> dict[str, int]:
        """Return how many records each partition has, as far as that was acknowledged."""
        with self._lock:
            return dict(self._acknowledged)

    def stop(self) -> None:
        """Write nothing more, and wait until all is acknowledged."""
        self._halt.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._producer.flush(FLUSH_TIMEOUT_S):
            self.errors.append("the last records were not acknowledged")

    def _run(self) -> None:
        partitions, number = len(self._acknowledged), 0
        due = time.monotonic()
        while not self._halt.wait(max(0.0, due - time.monotonic())):
            self._producer.produce(
                self._topic,
                str(number // partitions).encode(),
                partition=number % partitions,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            number += 1
            due += self._pause_s

    def _delivered(self, error: Any, message: Any) -> None:
        with self._lock:
            if error is not None:
                self.errors.append(f"a record was refused: {error}")
                return
            name = f"{message.topic()}-{message.partition()}"
            if message.offset() != int(message.value()):
                self.errors.append(f"record {int(message.value())} of {name} is at {message.offset()}")
            self._acknowledged[name] = message.offset() + 1
