"""Produce in transactions: with which sequence a producer may begin, and who refuses older epochs (W33)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.oracle.logs import changed, log_topic, of_producer, produced
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.transactions import init, passed
from tests.oracle.transcripts.transactions_second import add_partitions, end
from tests.topics.batches import batch

TRANSACTIONAL = 0x10
OLD, SECOND = 11, 12
"""The last version of Produce that asks whether its partitions are in the transaction, and the first that
adds them."""
GENERATIONS = {f"v{version}": version for version in (9, OLD, SECOND, 13)}

Producer = Mapping[str, Any]


class Sender:
    """Sends batches to the one partition of a topic, and records what came of each."""

    def __init__(self, play: Play, client: Client, name: str = "t") -> None:
        self.topic = log_topic(play, name)
        self._play = play
        self._client = client

    def send(self, what: str, producer: Producer, sequence: int, version: int, **fields: Any) -> None:
        """A batch in the producer's transaction; `plain` of the same producer, and in no transaction."""
        records = of_producer(producer["producer_id"], sequence, epoch=producer["producer_epoch"])
        if not fields.pop("plain", False):
            records = changed(records, attributes=TRANSACTIONAL)
            fields.setdefault("transactional_id", producer["transactional_id"])
        self.send_records(what, records, version, **fields)

    def send_records(self, what: str, records: bytes, version: int, **fields: Any) -> None:
        asked = produced(self._play, self.topic, {0: records})
        answer = self._client.quietly("produce", version, topic_data=asked, **fields)
        told = answer.responses[0].partition_responses[0]
        code = told.error_code
        error = "none" if code.value == 0 else f"{code.value} {code.name}"
        self._play.note(f"v{version}, {what}", [error, told.base_offset, told.log_start_offset])


def _begun(play: Play, client: Client, sender: Sender, version: int) -> Producer:
    """A new producer whose transaction may have the sender's partition."""
    producer = init(client, play.unique("tx"))
    if version < SECOND:
        add_partitions(client, producer, {sender.topic: [0]})
    return producer


@transcript(rows=("W33", "O18"), cases=GENERATIONS)
def first_sequence_in_a_transaction(play: Play, version: int) -> None:
    """It is 0 in the second generation, and any in the first. In no transaction it is any in either."""
    a = play.connect("a")
    sender = Sender(play, a)
    producer = _begun(play, a, sender, version)
    for sequence in (5, 0, 7, 1):
        sender.send(f"from {sequence}", producer, sequence, version)
    other = Sender(play, a, "other")
    of_none = init(a, play.unique("plain"))
    other.send("plain, from 5", of_none, 5, version, plain=True)


@transcript(rows=("W33", "O18"))
def first_sequence_of_the_next_epoch(play: Play) -> None:
    """A marker makes the next epoch known, with which a producer begins with 0 as with any newer one."""
    a = play.connect("a")
    sender = Sender(play, a)
    producer = _begun(play, a, sender, SECOND)
    sender.send("from 0", producer, 0, SECOND)
    after = end(a, producer, True)
    add_partitions(a, after, {sender.topic: [0]})
    for sequence in (1, 3, 0, 1):
        sender.send(f"next epoch, from {sequence}", after, sequence, SECOND)


@transcript(rows=("W33",))
def lowest_sequence_that_was_verified(play: Play) -> None:
    """The log remembers the lowest sequence of the newest epoch of what a coordinator has refused, and takes
    none above it until the producer has a batch in the log."""
    a = play.connect("a")
    sender, other = Sender(play, a), Sender(play, a, "other")
    producer = init(a, play.unique("tx"))
    for sequence in (4, 6, 3):
        sender.send(f"not added, from {sequence}", producer, sequence, OLD)
    add_partitions(a, producer, {sender.topic: [0]})
    for sequence in (5, 4, 3, 4):
        sender.send(f"added, from {sequence}", producer, sequence, OLD)
    a.ask_until(passed, "end_txn", 4, committed=True, **producer)
    add_partitions(a, producer, {other.topic: [0]})  # which waits for the marker
    sender.send("not added any more, from 4", producer, 4, OLD)
    add_partitions(a, producer, {sender.topic: [0]})
    for sequence in (5, 4):
        sender.send(f"added again, from {sequence}", producer, sequence, OLD)
    sender.send("plain, from 5", producer, 5, OLD, plain=True)


@transcript(rows=("W33",))
def generation_that_was_verified_first(play: Play) -> None:
    """The version of the first request, which the coordinator refused, decides for those after it."""
    a = play.connect("a")
    sender, other, third = (Sender(play, a, name) for name in ("one", "two", "three"))
    producer = init(a, play.unique("tx"))
    sender.send("not added, from 3", producer, 3, OLD)
    sender.send("from 3", producer, 3, SECOND)
    unseen = {**producer, "transactional_id": play.unique("unseen")}
    other.send("of an id that nobody has, from 3", unseen, 3, SECOND)
    add_partitions(a, producer, {other.topic: [0]})
    other.send("added, from 3", producer, 3, OLD)
    other.send("plain, from 3", producer, 3, OLD, plain=True)
    other.send("plain, from 0", producer, 0, OLD, plain=True)
    other.send("from 1", producer, 1, OLD)
    third.send("of an id that nobody has, from 3", unseen, 3, OLD)
    for sequence in (4, 3):
        third.send(f"plain, from {sequence}", producer, sequence, OLD, plain=True)


@transcript(rows=("W33",), cases=GENERATIONS)
def older_epoch_in_a_transaction(play: Play, version: int) -> None:
    """The log refuses it before any coordinator is asked, and so without its start."""
    a = play.connect("a")
    sender = Sender(play, a)
    producer = _begun(play, a, sender, version)
    sender.send("from 0", producer, 0, version)
    after = end(a, producer, True)
    add_partitions(a, after, {sender.topic: [0]})  # which waits for the marker
    for name, transactional_id in (
        ("its", producer["transactional_id"]),
        ("nobody's", play.unique("unseen")),
        ("no", ""),
    ):
        fields = {"transactional_id": transactional_id}
        sender.send(f"the next, {name} id", producer, 1, version, **fields)
        sender.send(f"again, {name} id", producer, 0, version, **fields)
    sender.send("to 7 replicas", producer, 1, version, acks=7)
    sender.send("plain", producer, 1, version, plain=True)
    for name, transactional_id in (("nobody's", play.unique("unseen")), ("no", ""), ("null", None)):
        sender.send(f"next epoch, {name} id", after, 0, version, transactional_id=transactional_id)


@transcript(rows=("W33",), cases=GENERATIONS)
def transactional_batch_without_a_producer(play: Play, version: int) -> None:
    a = play.connect("a")
    sender = Sender(play, a)
    records = changed(batch(b"v"), attributes=TRANSACTIONAL)
    for transactional_id in (play.unique("tx"), None):
        sender.send_records("no producer", records, version, transactional_id=transactional_id)
