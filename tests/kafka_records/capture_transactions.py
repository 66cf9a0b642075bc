"""Transactions of every kind on a real Kafka, and the bytes that it keeps of them: golden_transactions.jsonl.

    python -m tests.kafka_records.capture_transactions HOST:PORT

Lines are as `capture` writes them. Each transactional id lives through one story, which
`test_transactions_as_kafka` plays to a shard here, and expires. The broker needs EXTRA among its settings, so
that this takes seconds, and no other transactions.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from actors.ground.topic_names import TRANSACTIONS_TOPIC
from actors.network.wire import Wire
from tests.kafka_records.capture import DEADLINE_S, TOPIC, create_topic, keep, read_topic, until

GOLDEN = Path(__file__).parent / "golden_transactions.jsonl"
EXTRA = """
transactional.id.expiration.ms=20000
transaction.remove.expired.transaction.cleanup.interval.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
"""
GROUP = "golden-group"
PASSING = (14, 15, 16, 51)
"""Errors after which a client asks again: the coordinator loads or is not there, or writes markers."""

Step = tuple[str, tuple[int, ...], dict[str, Any]]
"""What a producer does: a method of Story, with its arguments."""


def _step(method: str, *arguments: int, **fields: Any) -> Step:
    return method, arguments, fields


STORIES: dict[str, tuple[Step, ...]] = {
    "committed": (
        _step("init"),
        _step("add", 2, 0),
        _step("add_group"),
        _step("end", 4, committed=True),
    ),
    "aborted": (
        _step("init"),
        _step("add", 1),
        _step("add", 3),
        _step("end", 4, committed=False),
        _step("init"),
    ),
    # Each end gives the next epoch; nothing may be aborted too.
    "second": (
        _step("init"),
        _step("add", 0),
        _step("end", 5, committed=True),
        _step("commit_offset"),
        _step("end", 5, committed=False),
        _step("end", 5, committed=False),
    ),
    "timed-out": (_step("init", timeout_ms=1_000), _step("add", 0), _step("time_out")),
    # A second producer ends the transaction of the first.
    "fenced": (_step("init"), _step("add", 0), _step("init")),
    "recovers": (_step("init"), _step("init", recovers=True)),
}
"""Transactional id -> what its producer does, one step when the one before has come to rest."""

_KEY = {"transactionalId": "older"}
_VALUE = {
    "producerId": 2**40,
    "producerEpoch": 32_766,
    "transactionTimeoutMs": 60_000,
    "transactionStatus": 1,
    "transactionPartitions": [{"topic": TOPIC, "partitionIds": [0, 5]}, {"topic": "ü", "partitionIds": []}],
    "transactionLastUpdateTimestampMs": 1_700_000_000_001,
    "transactionStartTimestampMs": 1_700_000_000_000,
}
_ROTATED = {
    "previousProducerId": 7,
    "nextProducerId": 8,
    "nextProducerEpoch": 9,
    "clientTransactionVersion": 2,
}


def _line(version: int, value: dict[str, Any]) -> dict[str, Any]:
    return {"key": {"type": 0, "data": _KEY}, "value": {"version": version, "data": _VALUE | value}}


OLDER = [
    _line(0, {}),
    _line(0, {"transactionStatus": 0, "transactionPartitions": None}),
    _line(1, _ROTATED),
    _line(1, {"transactionStatus": 2}),
]
"""Records with what takes long to come about, and of the version that Kafka writes with transaction.version
0, as Kafka's formatters print them."""


class Story:
    """What one producer with a transactional id asks for."""

    def __init__(self, wire: Wire, transactional_id: str) -> None:
        self._wire = wire
        self._id = transactional_id
        self.producer = {"producer_id": -1, "producer_epoch": -1}

    async def _ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Return the answer once it is no passing error."""
        return await until(
            lambda: self._wire.call(api, version, **fields), lambda answer: not _codes(answer) & set(PASSING)
        )

    async def init(self, *, timeout_ms: int = 60_000, recovers: bool = False) -> None:
        before = self.producer if recovers else {"producer_id": -1, "producer_epoch": -1}
        asked = {"transactional_id": self._id, "transaction_timeout": timeout_ms, **before}
        self._go_on_as(await self._ask("init_producer_id", 4, **asked))

    async def add(self, *partitions: int) -> None:
        fields: dict[str, Any] = {"transactional_id": self._id, **self.producer}
        fields = {f"v3_and_below_{name}": value for name, value in fields.items()}
        topics = [{"name": TOPIC, "partitions": list(partitions)}]
        await self._ask("add_partitions_to_txn", 3, v3_and_below_topics=topics, **fields)

    async def add_group(self) -> None:
        await self._ask("add_offsets_to_txn", 3, transactional_id=self._id, group_id=GROUP, **self.producer)

    async def commit_offset(self) -> None:
        """Commit an offset as clients of the second generation do, without a word before (KIP-890)."""
        partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
        topics = [{"name": TOPIC, "partitions": [partition | {"committed_leader_epoch": -1}]}]
        member = {"generation_id": -1, "member_id": "", "group_instance_id": None}
        fields = {"transactional_id": self._id, "group_id": GROUP, **self.producer, **member}
        await self._ask("txn_offset_commit", 5, topics=topics, **fields)

    async def end(self, version: int, *, committed: bool) -> None:
        fields = {"transactional_id": self._id, "committed": committed, **self.producer}
        answer = await self._ask("end_txn", version, **fields)
        if version >= 5:
            self._go_on_as(answer)

    def _go_on_as(self, answer: dict[str, Any]) -> None:
        assert answer["error_code"] == 0, (self._id, answer)
        self.producer = {name: answer[name] for name in self.producer}

    async def time_out(self) -> None:
        """Do nothing until the coordinator has ended the transaction."""
        await self._rest("Ongoing", "PrepareCommit", "PrepareAbort")

    async def play(self) -> None:
        for method, arguments, fields in STORIES[self._id]:
            await getattr(self, method)(*arguments, **fields)
            await self._rest("PrepareCommit", "PrepareAbort")

    async def _rest(self, *states: str) -> None:
        """Wait until the transactional id is in none of these states."""
        await until(
            lambda: self._wire.call(
                "list_transactions",
                0,
                state_filters=list(states),
                producer_id_filters=[],
            ),
            lambda answer: all(each["transactional_id"] != self._id for each in answer["transaction_states"]),
        )


def _codes(answer: Any) -> set[int]:
    """Return all error codes of an answer."""
    if isinstance(answer, list):
        return {code for each in answer for code in _codes(each)}
    if not isinstance(answer, dict):
        return set()
    own = {value for name, value in answer.items() if name.endswith("error_code")}
    return own.union(*(_codes(value) for value in answer.values()))


async def make_transactions(address: str) -> None:
    host, port = address.rsplit(":", 1)
    wire = await Wire.connect(host, int(port), "golden")
    try:
        found = {"key_type": 0, "coordinator_keys": [GROUP]}
        await until(lambda: wire.call("find_coordinator", 4, **found), lambda answer: _codes(answer) == {0})
        found = {"key_type": 1, "coordinator_keys": list(STORIES)}
        await until(lambda: wire.call("find_coordinator", 4, **found), lambda answer: _codes(answer) == {0})
        for transactional_id in STORIES:
            await Story(wire, transactional_id).play()
        asked: dict[str, Any] = {"state_filters": [], "producer_id_filters": []}
        await until(
            lambda: wire.call("list_transactions", 0, **asked),
            lambda answer: not answer["transaction_states"],
        )
    finally:
        await wire.close()


def main(bootstrap: str) -> None:
    create_topic(bootstrap)
    asyncio.run(asyncio.wait_for(make_transactions(bootstrap), 3 * DEADLINE_S))
    keep(GOLDEN, TRANSACTIONS_TOPIC, read_topic(bootstrap, TRANSACTIONS_TOPIC), OLDER)


if __name__ == "__main__":
    main(sys.argv[1])
