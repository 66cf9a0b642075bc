"""Real clients and raw ones that make groups of every kind on a real Kafka, and stay in them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from actors.network.wire import Wire, request_frame
from bench.ground.steady_heartbeat import steady_heartbeat

DEADLINE_S = 60.0
ORDERS, RETURNS = "orders", "returns"
PARTITIONS = 6
WIDE, WIDE_PARTITIONS = "wide", 100
SUBSCRIPTION = struct.pack(">hih", 0, 1, len(ORDERS)) + ORDERS.encode() + struct.pack(">i", -1)
NO_MEMBER = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(ORDERS, PARTITIONS, 1), NewTopic(RETURNS, PARTITIONS, 1)]
    for future in admin.create_topics([*topics, NewTopic(WIDE, WIDE_PARTITIONS, 1)]).values():
        future.result(DEADLINE_S)


async def until(
    call: Callable[[], Awaitable[dict[str, Any]]], enough: Callable[[dict[str, Any]], Any]
) -> dict[str, Any]:
    """Ask again and again until the answer is enough."""
    async with asyncio.timeout(DEADLINE_S):
        while not enough(answer := await call()):
            await asyncio.sleep(0.05)
    return answer


def _join(group_id: str, member_id: str) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
    timeouts = {"session_timeout": 60_000, "rebalance_timeout": 300_000}
    who = {"group_id": group_id, "member_id": member_id, "protocol_type": "consumer"}
    return who | timeouts | {"protocols": protocols}


def _beat(group_id: str, joined: dict[str, Any]) -> dict[str, Any]:
    who = {"group_id": group_id, "member_id": joined["member_id"]}
    return who | {"generation_id": joined["generation_id"]}


class Cast:
    """All groups on one broker, whose only offsets partition has them all."""

    def __init__(self, bootstrap: str, wire: Wire) -> None:
        self._bootstrap = bootstrap
        self.wire = wire
        self._consumers: list[Consumer] = []
        self._lines: list[Wire] = []
        """The connections of members that wait."""
        self._producers: list[Producer] = []
        self._open: list[dict[str, Any]] = []
        """The transactions of the second generation that were left open."""
        self.rebalancing: dict[str, str] = {}
        """Group id -> its member, of groups in the middle of a rebalance."""
        self._aiokafka: AIOKafkaConsumer | None = None

    async def play(self) -> None:
        """Make the groups; at the end everybody is still there, and says nothing new."""
        await self.wait_until_coordinated()
        await self._confluent("classic", "classic-confluent", (ORDERS,), static=True)
        await self._confluent("consumer", "consumer-confluent", (ORDERS, RETURNS), static=True)
        await self._confluent("consumer", "consumer-regex", ("^ord.*",))
        await self._in_aiokafka()
        await self._commits()
        await self._leavers()
        await self._classic_in_consumer()
        await self._share_group()
        await self._transactions()
        await self._rebalancing()

    async def play_living(self) -> None:
        """Make the groups that live by themselves, or have no members, and transactions."""
        await self.wait_until_coordinated()
        await self._confluent("classic", "classic-confluent", (ORDERS,), static=True)
        await self._confluent("consumer", "consumer-confluent", (ORDERS, RETURNS), static=True)
        await self._confluent("consumer", "consumer-regex", ("^ord.*",))
        await self._commits()
        await self._share_group()
        await self._transactions()

    async def end_transactions(self) -> None:
        """Commit the transactions that were left open."""
        await asyncio.to_thread(self._producers[-1].commit_transaction, DEADLINE_S)
        for end in self._open:
            answer = await self.wire.call("end_txn", 5, **end, committed=True)
            assert answer["error_code"] == 0, answer
        self._open.clear()

    async def wait_until_coordinated(self) -> None:
        """Have Kafka make its internal topics, which it does for the first group and transaction."""
        for key_type in (0, 1):
            fields = {"key_type": key_type, "coordinator_keys": ["any"]}
            await until(
                lambda fields=fields: self.wire.call("find_coordinator", 4, **fields),  # type: ignore[misc]
                lambda answer: answer["coordinators"][0]["error_code"] == 0,
            )

    async def close(self) -> None:
        for line in self._lines:
            await line.close()
        for consumer in self._consumers:
            await asyncio.to_thread(consumer.close)
        if self._aiokafka is not None:
            await self._aiokafka.stop()

    async def _confluent(
        self, protocol: str, group_id: str, topics: tuple[str, ...], *, static: bool = False
    ) -> None:
        """Two members, perhaps one of them static; each commits what it has."""
        settings: dict[str, Any] = {"bootstrap.servers": self._bootstrap, "group.id": group_id}
        settings |= {"group.protocol": protocol, "enable.auto.commit": False}
        if protocol == "classic":
            settings |= {"session.timeout.ms": 60_000}
        members = [
            Consumer(settings | ({"group.instance.id": f"{group_id}-1"} if static else {})),
            Consumer(settings | {"client.id": "second"}),
        ]
        self._consumers += members
        for member in members:
            member.subscribe(list(topics))

        def are_settled() -> bool:
            for member in members:
                member.poll(0.05)
            counts = [len(member.assignment()) for member in members]
            share = PARTITIONS * (1 if topics[0].startswith("^") else len(topics)) // 2
            return counts == [share, share]

        async with asyncio.timeout(DEADLINE_S):
            while not await asyncio.to_thread(are_settled):
                pass
        for number, member in enumerate(members):
            offsets = [
                TopicPartition(each.topic, each.partition, 100 * number + each.partition)
                for each in member.assignment()
            ]
            await asyncio.to_thread(lambda m=member, o=offsets: m.commit(offsets=o, asynchronous=False))

    async def _in_aiokafka(self) -> None:
        consumer = self._aiokafka = AIOKafkaConsumer(
            ORDERS,
            bootstrap_servers=self._bootstrap,
            group_id="classic-aiokafka",
            enable_auto_commit=False,
            session_timeout_ms=60_000,
        )
        await consumer.start()
        async with asyncio.timeout(DEADLINE_S):
            while len(consumer.assignment()) < PARTITIONS:
                await consumer.getmany(timeout_ms=50)
        await consumer.commit({AioPartition(ORDERS, 2): OffsetAndMetadata(42, "the reason")})

    async def commit(
        self, group_id: str, offsets: dict[int, int], metadata: str | None = "", topic: str = ORDERS
    ) -> None:
        partitions = [
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": 0,
                "committed_metadata": metadata,
            }
            for partition, offset in offsets.items()
        ]
        topics = [{"name": topic, "partitions": partitions}]
        await until(
            lambda: self.wire.call("offset_commit", 9, group_id=group_id, **NO_MEMBER, topics=topics),
            lambda answer: answer["topics"][0]["partitions"][0]["error_code"] == 0,
        )

    async def _commits(self) -> None:
        """Offsets of groups without members, some of which are deleted again; a whole group, too."""
        await self.commit("simple", {0: 1, 1: 2, 2: 3})
        await self.commit("simple", {0: 10, 3: 4}, metadata="ü" * 90)
        deleted = [{"name": ORDERS, "partitions": [{"partition_index": 1}]}]
        await self.wire.call("offset_delete", 0, group_id="simple", topics=deleted)
        await self.commit("deleted", {0: 1})
        await self.wire.call("delete_groups", 2, groups_names=["deleted"])

    async def beat(self, group_id: str, member_id: str, epoch: int, **said: Any) -> dict[str, Any]:
        return await self.wire.call(
            "consumer_group_heartbeat", 1, **steady_heartbeat(group_id, member_id, epoch, **said)
        )

    async def _leavers(self) -> None:
        """A static member that will come back, one that has gone for good, and one that has yet to revoke."""
        full = {"subscribed_topic_names": [ORDERS], "rebalance_timeout": 300_000, "topic_partitions": []}
        joined = await self.beat("left", "static", 0, instance_id="i", **full)
        await self.beat("left", "gone", 0, **full)
        await self.beat("left", "static", -2, instance_id="i")
        await self.beat("left", "gone", -1)
        assert joined["error_code"] == 0, joined
        await until(
            lambda: self.beat("revoking", "first", 0, **full),
            lambda answer: answer["assignment"] and answer["assignment"]["topic_partitions"],
        )
        second = await self.beat("revoking", "second", 0, **full)
        assert second["error_code"] == 0, second
        await until(
            lambda: self.beat("revoking", "first", 1),
            lambda answer: answer["error_code"] != 0 or answer["assignment"] is not None,
        )

    async def _classic_in_consumer(self) -> None:
        """KIP-848: a member that speaks the classic protocol is in a consumer group."""
        names = {"subscribed_topic_names": [ORDERS], "rebalance_timeout": 300_000, "topic_partitions": []}
        await self.beat("mixed", "new", 0, **names)
        await self._join(self.wire, "mixed", "old")

    async def _rebalancing(self) -> None:
        """Classic groups in the middle of a rebalance: nothing of it is in the log."""
        for group_id, is_stable_first in (("preparing", True), ("completing", True), ("new", False)):
            joined = await self._join(self.wire, group_id, "")
            if is_stable_first:
                await self._sync(group_id, joined)
            if group_id == "preparing":
                host, port = self._bootstrap.rsplit(":", 1)
                self._lines.append(await Wire.connect(host, int(port), "waits"))
                await self._lines[-1].send_raw(
                    request_frame("join_group", 3, 1, "waits", _join(group_id, ""))
                )
                await until(
                    lambda joined=joined: self.wire.call(  # type: ignore[misc]
                        "heartbeat", 4, **_beat("preparing", joined), group_instance_id=None
                    ),
                    lambda answer: answer["error_code"] == ErrorCode.rebalance_in_progress,
                )
            elif group_id == "completing":
                await self._join(self.wire, group_id, joined["member_id"])
            self.rebalancing[group_id] = joined["member_id"]

    async def _join(self, wire: Wire, group_id: str, member_id: str) -> dict[str, Any]:
        answer = await wire.call("join_group", 3, **_join(group_id, member_id))
        assert answer["error_code"] == 0, answer
        return answer

    async def _sync(self, group_id: str, joined: dict[str, Any]) -> None:
        assignments = [{"member_id": joined["member_id"], "assignment": b"all of it"}]
        answer = await self.wire.call("sync_group", 2, **_beat(group_id, joined), assignments=assignments)
        assert answer["error_code"] == 0, answer

    async def _share_group(self) -> None:
        """A group of a kind that the tier does not serve."""
        beat = {"group_id": "shared", "member_id": "QQQQQQQQQQQQQQQQQQQQQQ", "rack_id": None}
        beat |= {"member_epoch": 0, "subscribed_topic_names": [ORDERS]}
        await until(
            lambda: self.wire.call("share_group_heartbeat", 1, **beat),
            lambda answer: answer["error_code"] == 0,
        )

    async def _transactions(self) -> None:
        """Transactions of the first generation by a real client, of the second one raw: each is committed,
        aborted, or left open."""
        consumer = self._consumers[0]
        for name, end in (
            ("committed", "commit_transaction"),
            ("aborted", "abort_transaction"),
            ("open", ""),
        ):
            settings = {"bootstrap.servers": self._bootstrap, "transactional.id": f"v1-{name}"}
            producer = Producer(settings | {"transaction.timeout.ms": 600_000})
            self._producers.append(producer)

            def story(
                producer: Producer = producer, number: int = len(self._producers), end: str = end
            ) -> None:
                producer.init_transactions(DEADLINE_S)
                producer.begin_transaction()
                mine = [TopicPartition(p.topic, p.partition, 1_000 * number) for p in consumer.assignment()]
                metadata = consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction(mine[:1], metadata, DEADLINE_S)
                if end:
                    getattr(producer, end)(DEADLINE_S)

            await asyncio.to_thread(story)
        await self.commit("second-generation", {0: 1, 1: 1, 2: 1})
        for partition, (name, ends) in enumerate((("done", True), ("undone", False), ("open", None))):
            await self.second_generation(f"v2-{name}", partition, ends)

    async def second_generation(self, transactional_id: str, partition: int, ends: bool | None) -> None:
        """Commit one offset in a transaction that is committed, aborted, or left open."""
        asked = {"transactional_id": transactional_id, "transaction_timeout": 600_000}
        made = await until(
            lambda: self.wire.call("init_producer_id", 5, **asked, producer_id=-1, producer_epoch=-1),
            lambda answer: answer["error_code"] == 0,
        )
        producer = {"producer_id": made["producer_id"], "producer_epoch": made["producer_epoch"]}
        offset = {
            "partition_index": partition,
            "committed_offset": 500 + partition,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        await until(
            lambda: self.wire.call(
                "txn_offset_commit",
                5,
                transactional_id=transactional_id,
                group_id="second-generation",
                **producer,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[{"name": ORDERS, "partitions": [offset]}],
            ),
            lambda answer: answer["topics"][0]["partitions"][0]["error_code"] == 0,
        )
        if ends is None:
            self._open.append({"transactional_id": transactional_id, **producer})
        else:
            ended = await self.wire.call(
                "end_txn", 5, transactional_id=transactional_id, **producer, committed=ends
            )
            assert ended["error_code"] == 0, ended
