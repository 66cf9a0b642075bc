"""Members who mind their own business while others send rubbish: nothing of it may reach them."""

from __future__ import annotations

import itertools
from typing import Any

from actors.network.wire import request_frame, to_plain
from actors.protocol.java_hash import partition_for
from bench.ground.steady_heartbeat import steady_heartbeat
from tests.fuzz.client import Client
from tests.fuzz.plausible import SUBSCRIPTION
from tests.fuzz.stack import PARTITIONS, Stack

TOPIC = "bystanders-topic"
SESSION_MS = 45_000


def group_of(partition: int, prefix: str) -> str:
    """Return the id of a group that belongs to this offsets partition."""
    return next(g for n in itertools.count() if partition_for(g := f"{prefix}-{n}", PARTITIONS) == partition)


class Bystanders:
    """One classic and one consumer member on each partition; somebody must call `beat` every few seconds."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._correlation_ids = itertools.count(1)
        self._clients = [Client(stack, number) for number in range(len(stack.partitions))]
        self._classic: list[tuple[Client, str, str]] = []
        self._consumer: list[tuple[Client, str, str, int]] = []

    async def join(self) -> None:
        broker = Client(self._stack, -1)
        await self._call(
            broker,
            "create_topics",
            7,
            topics=[
                {
                    "name": TOPIC,
                    "num_partitions": 2,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
            ],
            timeout=1_000,
            validate_only=False,
        )
        for partition, client in enumerate(self._clients):
            await self._join_classic(client, group_of(partition, "bystander-classic"))
            await self._join_consumer(client, group_of(partition, "bystander-consumer"), f"b-{partition}")

    async def beat(self) -> None:
        """Every member's heartbeat finds its group as it left it, and every commit is taken."""
        await self._switch_on()
        for client, group_id, member_id in self._classic:
            ids = {"group_id": group_id, "generation_id": 1, "member_id": member_id}
            answer = await self._call(client, "heartbeat", 3, **ids, group_instance_id=None)
            assert answer["error_code"] == 0, f"the heartbeat of {group_id} was answered {answer}"
            committed = await self._commit(client, group_id, member_id, 1)
            assert committed == 0, f"a commit of {group_id} was answered {committed}"
        for client, group_id, member_id, epoch in self._consumer:
            answer = await self._call(
                client, "consumer_group_heartbeat", 1, **steady_heartbeat(group_id, member_id, epoch)
            )
            seen = (answer["error_code"], answer["member_epoch"])
            assert seen == (0, epoch), f"the heartbeat of {group_id} was answered {answer}"

    async def _switch_on(self) -> None:
        """Have the consumer protocol on again, in case a frame has switched it off."""
        level = {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}
        answer = await self._call(
            Client(self._stack, -1),
            "update_features",
            2,
            timeout=1_000,
            feature_updates=[level],
            validate_only=False,
        )
        assert answer["error_code"] == 0, f"the consumer protocol stays off: {answer}"

    async def _join_classic(self, client: Client, group_id: str) -> None:
        join = {
            "group_id": group_id,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": SESSION_MS,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        }
        named = await self._call(client, "join_group", 5, **join)
        joined = await self._call(client, "join_group", 5, **{**join, "member_id": named["member_id"]})
        ids = {"group_id": group_id, "generation_id": 1, "member_id": named["member_id"]}
        mine = [{"member_id": named["member_id"], "assignment": b""}]
        synced = await self._call(client, "sync_group", 3, **ids, group_instance_id=None, assignments=mine)
        assert (joined["error_code"], synced["error_code"], joined["generation_id"]) == (0, 0, 1)
        self._classic.append((client, group_id, named["member_id"]))

    async def _join_consumer(self, client: Client, group_id: str, member_id: str) -> None:
        first = {**steady_heartbeat(group_id, member_id, 0), "rebalance_timeout": SESSION_MS}
        first |= {"subscribed_topic_names": [TOPIC], "topic_partitions": []}
        joined = await self._call(client, "consumer_group_heartbeat", 1, **first)
        assert joined["error_code"] == 0, joined
        self._consumer.append((client, group_id, member_id, joined["member_epoch"]))

    async def _commit(self, client: Client, group_id: str, member_id: str, generation_id: int) -> int:
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        answer = await self._call(
            client,
            "offset_commit",
            7,
            group_id=group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            group_instance_id=None,
            topics=[{"name": TOPIC, "partitions": [{**partition, "committed_leader_epoch": -1}]}],
        )
        return int(answer["topics"][0]["partitions"][0]["error_code"])

    async def _call(self, client: Client, api: str, version: int, /, **fields: Any) -> dict[str, Any]:
        client.send(request_frame(api, version, next(self._correlation_ids), "bystander", fields))
        deadline = self._stack.loop.time() + SESSION_MS / 1_000
        while True:
            await self._stack.settle()
            answers = client.take()
            if answers:
                ((_, entity),) = answers
                return dict(to_plain(entity))
            assert not client.closed, f"{api} closed its connection"
            assert self._stack.loop.time() < deadline, f"{api} was never answered"
            await self._stack.leap(0.1, 1)
