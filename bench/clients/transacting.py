"""A member that reads, processes and writes in transactions (confluent-kafka, librdkafka): every record goes
into another topic, and the group's offsets are committed by the same transaction.

The setting `output.topic` is ours. "records" and "committed" are told when the transaction has committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from bench.clients.line import Line, play

POLL_S = 0.2
TRANSACTION_S = 60.0
CONSUMED_MAX = 100
TRIES_MAX = 5
WAY = ("bootstrap.", "security.", "sasl.", "ssl.")
"""How the settings begin that say where the cluster is, and how to log in there."""


class Member:
    """A consumer and a transactional producer."""

    def __init__(self, line: Line) -> None:
        self._line = line
        settings = dict(line.settings)
        self._output = settings.pop("output.topic")
        if settings.get("group.protocol") == "classic":
            del settings["group.protocol"]  # what every version does unasked; old ones do not know the name
        settings["fetch.wait.max.ms"] = settings.pop("fetch.max.wait.ms", "100")
        way = {name: value for name, value in settings.items() if name.startswith(WAY)}
        self._way = way | {"log_level": "0"}
        self._transactional_id = f"{settings['group.id']}-{uuid.uuid4()}"
        self._consumer = Consumer({**settings, "isolation.level": "read_committed", "log_level": "0"})
        self._producer: Producer | None = None
        self._unfinished: list[Message] = []
        """Records of a transaction that was aborted: they are in the next one, unless they are taken away."""

    def run(self) -> None:
        self._subscribe()
        self._line.serve(self._poll, lambda: None)
        self._consumer.close()
        self._line.tell("closed")

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            self._line.topics,
            on_assign=lambda _, partitions: self._line.tell_partitions("assigned", partitions),
            on_revoke=lambda _, partitions: self._drop("revoked", partitions),
            on_lost=lambda _, partitions: self._drop("lost", partitions),
        )

    def _drop(self, event: str, partitions: list[Any]) -> None:
        taken = {(each.topic, each.partition) for each in partitions}
        self._unfinished = [each for each in self._unfinished if _place(each) not in taken]
        self._line.tell_partitions(event, partitions)

    def _poll(self) -> None:
        polled = self._consumer.consume(CONSUMED_MAX, POLL_S)
        self._unfinished += [each for each in polled if each.error() is None]
        if not self._unfinished:
            return
        try:
            offsets = self._transaction(self._unfinished)
        except KafkaException as error:
            self._line.tell("refused", error=str(error))
            self._give_up(error)
            return
        for partition in offsets:
            records = [
                (each.offset(), each.value()) for each in self._unfinished if _place(each) == partition
            ]
            self._line.tell_records(partition, records)
        self._unfinished = []
        self._line.tell_committed(offsets)

    def _transaction(self, messages: list[Message]) -> dict[tuple[Any, Any], int]:
        """Write the records and commit their offsets, all or nothing. Raises KafkaException."""
        producer = self._ready()
        offsets = {_place(each): each.offset() + 1 for each in messages}
        producer.begin_transaction()
        for message in messages:
            producer.produce(self._output, f"{message.partition()}:{message.offset()}".encode())
        committed = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        group = self._consumer.consumer_group_metadata()
        _tried(lambda: producer.send_offsets_to_transaction(committed, group, TRANSACTION_S))
        _tried(lambda: producer.commit_transaction(TRANSACTION_S))
        return offsets

    def _ready(self) -> Producer:
        if self._producer is None:
            made = Producer({**self._way, "transactional.id": self._transactional_id})
            _tried(lambda: made.init_transactions(TRANSACTION_S))
            self._producer = made
        return self._producer

    def _give_up(self, error: KafkaException) -> None:
        """Abort the transaction. Whoever cannot say what became of it reads on where the group stands."""
        if (producer := self._producer) is not None and error.args[0].txn_requires_abort():
            try:
                _tried(lambda: producer.abort_transaction(TRANSACTION_S))
            except KafkaException as worse:
                self._line.tell("refused", error=str(worse))
            else:
                return
        self._producer = None  # the next one, which has the same id, ends what this one has begun
        self._consumer.unsubscribe()
        self._unfinished = []
        self._subscribe()


def _place(message: Message) -> tuple[Any, Any]:
    return message.topic(), message.partition()


def _tried(work: Callable[[], object]) -> None:
    """Do what may be tried again if it says so. Raises KafkaException."""
    for left in reversed(range(TRIES_MAX)):
        try:
            work()
        except KafkaException as error:
            if not left or not error.args[0].retriable():
                raise
        else:
            return


if __name__ == "__main__":
    play(lambda line: Member(line).run())
