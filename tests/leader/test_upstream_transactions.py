"""Commits in transactions are verified by the transaction coordinators of the cluster upstream."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.leader.upstream_transactions import UpstreamTransactions
from actors.protocol.api_keys import ADD_PARTITIONS_TO_TXN, FIND_COORDINATOR
from actors.protocol.transaction_messages import TransactionPartitions
from actors.upstream.connecting import connector
from tests.polling import reached
from tests.upstream.speaking import Speaker

PARTITION = 3
APIS = {
    18: ("api_versions", 0, 0),
    ADD_PARTITIONS_TO_TXN: ("add_partitions_to_txn", 0, 5),
}


class Coordinator(Speaker):
    """A transaction coordinator, which answers as a story wants."""

    apis = APIS

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str, ErrorCode] = {}
        self.error = ErrorCode.none
        """What the whole request is answered."""
        self.asked: list[list[tuple[str, bool]]] = []
        """The transactions that each request named, and whether each was only to be verified."""

    async def _add_partitions_to_txn(self, asked: Any) -> dict[str, Any]:
        self.asked.append([(each["transactional_id"], each["verify_only"]) for each in asked["transactions"]])
        results = [
            {
                "transactional_id": each["transactional_id"],
                "topic_results": [
                    {
                        "name": topic["name"],
                        "results_by_partition": [
                            {
                                "partition_index": number,
                                "partition_error_code": self.errors.get(
                                    each["transactional_id"], ErrorCode.none
                                ),
                            }
                            for number in topic["partitions"]
                        ],
                    }
                    for topic in each["topics"]
                ],
            }
            for each in asked["transactions"]
        ]
        return {"throttle_time": 0, "error_code": self.error, "results_by_transaction": results}


class World:
    """Two coordinators, and a node's broker that says which is asked."""

    def __init__(self, coordinators: list[Coordinator]) -> None:
        self.coordinators = coordinators
        self.which = 0
        self.is_known = True
        self.looked_up: Counter[str] = Counter()
        self.work = UpstreamTransactions(self._ask_broker, connector("story"))

    async def verify(self, transactional_id: str = "t", *, verify_only: bool = False) -> ErrorCode:
        topics = ((OFFSETS_TOPIC, (PARTITION,)),)
        return await self.work.verify(TransactionPartitions(transactional_id, 7, 0, topics, verify_only))

    async def _ask_broker(self, api_key: int, api_version: int, entity: Any) -> Any:
        assert (api_key, entity.key_type) == (FIND_COORDINATOR, 1)
        [key] = entity.coordinator_keys
        self.looked_up[key] += 1
        host, port = self.coordinators[self.which].address
        row = codec.build(
            codec.nested(FIND_COORDINATOR, api_version, "Coordinator"),
            key=key,
            node_id=self.which,
            host=host,
            port=port,
            error_code=ErrorCode.none if self.is_known else ErrorCode.coordinator_not_available,
            error_message=None,
        )
        return codec.build(codec.response_class(FIND_COORDINATOR, api_version), coordinators=(row,))


def run(story: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with AsyncExitStack() as stack:
            listening = [await stack.enter_async_context(Coordinator().listening()) for _ in range(2)]
            world = World(listening)
            await story(world)
            await world.work.close()

    asyncio.run(whole())


def test_a_partition_is_added_by_the_coordinator_which_is_looked_up_once() -> None:
    async def story(world: World) -> None:
        assert await world.verify() == 0
        assert await world.verify(verify_only=True) == 0
        assert world.coordinators[0].asked == [[("t", False)], [("t", True)]]
        assert world.looked_up == {"t": 1}

    run(story)


def test_what_the_coordinator_refuses_is_told() -> None:
    async def story(world: World) -> None:
        world.coordinators[0].errors["t"] = ErrorCode.invalid_txn_state
        assert await world.verify() == ErrorCode.invalid_txn_state
        world.coordinators[0].error = ErrorCode.cluster_authorization_failed
        assert await world.verify() == ErrorCode.cluster_authorization_failed

    run(story)


def test_the_next_coordinator_is_asked_when_the_first_is_none_any_more() -> None:
    async def story(world: World) -> None:
        assert await world.verify() == 0
        world.which = 1
        world.coordinators[0].errors["t"] = ErrorCode.not_coordinator
        assert await world.verify() == 0
        assert world.coordinators[1].asked == [[("t", False)]]
        world.which = 0
        await world.coordinators[1].hang_up()
        world.coordinators[0].errors.clear()
        assert await world.verify() == 0
        assert world.coordinators[0].asked[-1] == [("t", False)]

    run(story)


def test_who_is_not_coordinated_is_told_to_come_again() -> None:
    async def story(world: World) -> None:
        world.is_known = False
        assert await world.verify() == ErrorCode.coordinator_not_available
        world.is_known = True
        for coordinator in world.coordinators:
            coordinator.errors["t"] = ErrorCode.not_coordinator
        assert await world.verify() == ErrorCode.coordinator_not_available

    run(story)


def test_what_comes_while_a_request_is_under_way_goes_together_with_the_next() -> None:
    async def story(world: World) -> None:
        coordinator = world.coordinators[0]
        coordinator.is_frozen = True
        coordinator.errors["t-2"] = ErrorCode.invalid_producer_id_mapping
        asked = [asyncio.create_task(world.verify(f"t-{number % 5}")) for number in range(10)]
        await reached(lambda: len(world.looked_up) == 5, "all are looked up")
        coordinator.is_frozen = False
        errors = await asyncio.gather(*asked)
        assert [error for number, error in enumerate(errors) if number % 5 != 2] == [0] * 8
        assert errors[2] == errors[7] == ErrorCode.invalid_producer_id_mapping
        assert len(coordinator.asked) < 10
        assert all(len(set(names)) == len(names) for names in coordinator.asked)

    run(story)


def test_a_broker_that_verifies_nothing_is_not_asked() -> None:
    async def story(world: World) -> None:
        for coordinator in world.coordinators:
            coordinator.apis = APIS | {ADD_PARTITIONS_TO_TXN: ("add_partitions_to_txn", 0, 3)}
        assert await world.verify(verify_only=True) == 0
        assert await world.verify() == ErrorCode.unsupported_version

    run(story)
