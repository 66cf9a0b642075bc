"""An offsets partition becomes part of a transaction that a real Kafka coordinates: Kafka 4.4 and 4.3."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.leader.upstream_transactions import UpstreamTransactions
from actors.network.wire import Wire
from actors.protocol.api_keys import FIND_COORDINATOR
from actors.protocol.transaction_messages import TransactionPartitions
from actors.upstream.connecting import connector
from bench.peers.kafka_nodes import KafkaNodes
from tests.upstream.kafka import asked, wired
from tests.upstream.offsets_log.cast import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

ID = "moves-money"
PARTITION = 2


async def coordinator(wire: Wire, key_type: int, key: str) -> tuple[str, int]:
    """Return where a group or a transactional id is coordinated; Kafka makes its internal topics first."""
    answer = await until(
        lambda: wire.call("find_coordinator", 4, key_type=key_type, coordinator_keys=[key]),
        lambda answer: answer["coordinators"][0]["error_code"] == 0,
    )
    [found] = answer["coordinators"]
    return found["host"], found["port"]


async def producer(wire: Wire) -> tuple[int, int]:
    """Return the id and epoch of a producer of the transactional id."""
    answer = await until(
        lambda: wire.call(
            "init_producer_id",
            5,
            transactional_id=ID,
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        ),
        lambda answer: answer["error_code"] == 0,
    )
    return answer["producer_id"], answer["producer_epoch"]


async def transaction(wire: Wire) -> tuple[str, list[tuple[str, list[int]]]]:
    """Return the state of the transaction, and its partitions."""
    answer = await wire.call("describe_transactions", 0, transactional_ids=[ID])
    [state] = answer["transaction_states"]
    return state["transaction_state"], [(each["topic"], each["partitions"]) for each in state["topics"]]


def test_a_partition_is_added_to_a_transaction_and_verified(kafka: KafkaNodes) -> None:
    async def story() -> None:
        async with wired(*kafka.address(1)) as wire:

            async def ask_broker(api_key: int, api_version: int, entity: Any) -> Any:
                assert api_key == FIND_COORDINATOR
                host, port = await coordinator(wire, entity.key_type, entity.coordinator_keys[0])
                row = codec.build(
                    codec.nested(api_key, api_version, "Coordinator"),
                    key=ID,
                    node_id=1,
                    host=host,
                    port=port,
                    error_code=ErrorCode.none,
                    error_message=None,
                )
                return codec.build(codec.response_class(api_key, api_version), coordinators=(row,))

            await coordinator(wire, 0, "any group")  # there is a topic of offsets
            await coordinator(wire, 1, ID)
            named = TransactionPartitions(ID, *await producer(wire), ((OFFSETS_TOPIC, (PARTITION,)),), True)
            work = UpstreamTransactions(ask_broker, connector("story"))
            assert await work.verify(named) in (ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable)
            assert await work.verify(named._replace(verify_only=False)) == 0
            assert await transaction(wire) == ("Ongoing", [(OFFSETS_TOPIC, [PARTITION])])
            assert await work.verify(named) == 0
            fenced = named._replace(producer_id=named.producer_id + 1_000)
            assert await work.verify(fenced) == ErrorCode.invalid_producer_id_mapping
            await work.close()
            await asked(
                wire,
                "end_txn",
                5,
                transactional_id=ID,
                producer_id=named.producer_id,
                producer_epoch=named.producer_epoch,
                committed=True,
            )

    asyncio.run(story())
