"""Groups of every kind on a real Kafka, and the bytes that it keeps of them: golden.jsonl.

    python -m tests.kafka_records.capture HOST:PORT

Each line has a record's key and value in hex and what Kafka's own classes read in them. What Kafka writes no
more but may still have on its disks is made by the same classes from OLDER. Needs a JDK, mvn, and a broker
without other groups.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from actors.ground.topic_names import OFFSETS_TOPIC
from actors.network.wire import Wire
from bench.ground.steady_heartbeat import steady_heartbeat as _beat
from tests.kafka import jvm

GOLDEN = Path(__file__).parent / "golden.jsonl"
DEADLINE_S = 60.0
TOPIC = "golden"
SUBSCRIPTION = bytes.fromhex("0000000000010006") + TOPIC.encode() + bytes.fromhex("ffffffff")
ASSIGNMENT = bytes.fromhex("0000000000010006") + TOPIC.encode() + bytes.fromhex("0000000100000000ffffffff")

_MEMBER = {
    "memberId": "m",
    "clientId": "c",
    "clientHost": "/10.0.0.1",
    "sessionTimeout": 10_000,
    "subscription": "AAEAAAAA/////w==",
    "assignment": "",
}
_GROUP = {"protocolType": "consumer", "generation": 7, "protocol": "range", "leader": "m"}
_OFFSET_KEY = {"group": "old", "topic": TOPIC, "partition": 2}
_SINCE = {"currentStateTimestamp": 1_700_000_000_000}
_V1 = _MEMBER | {"rebalanceTimeout": 300_000}


def _line(kind: int, key: dict[str, Any], version: int, value: dict[str, Any]) -> dict[str, Any]:
    return {"key": {"type": kind, "data": key}, "value": {"version": version, "data": value}}


OLDER = [
    _line(0, _OFFSET_KEY, 0, {"offset": 5, "metadata": "", "commitTimestamp": 1}),
    _line(1, _OFFSET_KEY, 0, {"offset": 5, "metadata": "é", "commitTimestamp": 1}),
    _line(1, _OFFSET_KEY, 2, {"offset": 2**62, "metadata": "", "commitTimestamp": 2}),
    _line(1, _OFFSET_KEY, 3, {"offset": 6, "leaderEpoch": 4, "metadata": "m", "commitTimestamp": 3}),
    _line(2, {"group": "v0"}, 0, _GROUP | {"members": [_MEMBER]}),
    _line(2, {"group": "v1"}, 1, _GROUP | {"members": [_V1]}),
    _line(2, {"group": "v2"}, 2, _GROUP | _SINCE | {"members": [_V1]}),
    _line(2, {"group": "v4"}, 4, _GROUP | _SINCE | {"members": [_V1 | {"groupInstanceId": "i"}]}),
    _line(
        4,
        {"groupId": "old"},
        0,
        {
            "topics": [
                {
                    "topicId": "AAAAAAAAAAAAAAAAAAAAAQ",
                    "topicName": TOPIC,
                    "numPartitions": 2,
                    "partitionMetadata": [{"partition": 0, "racks": ["a", "b"]}],
                }
            ]
        },
    ),
]
"""Records as Kafka's formatters print them in older versions."""


async def make_groups(address: str) -> None:
    host, port = address.rsplit(":", 1)
    wire = await Wire.connect(host, int(port), "golden")
    try:
        # The first that asks makes __consumer_offsets.
        found = {"key_type": 0, "coordinator_keys": ["classic"]}
        await until(
            lambda: wire.call("find_coordinator", 4, **found),
            lambda answer: answer["coordinators"][0]["error_code"] == 0,
        )
        for story in (_classic, _offsets, _consumer, _regex, _classic_in_consumer, _deleted):
            await story(wire)
    finally:
        await wire.close()


async def _classic(wire: Wire) -> None:
    """A static and a dynamic member; then only the dynamic one."""
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}, {"name": "roundrobin", "metadata": b"\x00\x01"}]
    group: dict[str, Any] = {"group_id": "classic", "protocol_type": "consumer", "protocols": protocols}
    group |= {"session_timeout": 45_000, "rebalance_timeout": 300_000}
    joined = await until(
        lambda: wire.call("join_group", 5, **group, member_id="", group_instance_id="static-1"),
        lambda answer: answer["error_code"] == 0,
    )
    member_id = joined["member_id"]
    await wire.call(
        "sync_group",
        3,
        group_id="classic",
        generation_id=joined["generation_id"],
        member_id=member_id,
        group_instance_id="static-1",
        assignments=[{"member_id": member_id, "assignment": ASSIGNMENT}],
    )
    left = {"member_id": member_id, "group_instance_id": "static-1"}
    await wire.call("leave_group", 4, group_id="classic", members=[left])


async def _offsets(wire: Wire) -> None:
    def partition(number: int, metadata: str | None) -> dict[str, Any]:
        offset = {"partition_index": number, "committed_offset": 100 + number, "committed_metadata": metadata}
        return {"topics": [{"name": TOPIC, "partitions": [offset]}]}

    simple = {"group_id": "simple", "generation_id_or_member_epoch": -1, "member_id": ""}
    await wire.call("offset_commit", 2, **simple, retention_time=3_600_000, **partition(0, "kept an hour"))
    await wire.call("offset_commit", 7, **simple, group_instance_id=None, **_epoch(partition(1, None), 9))
    await wire.call(
        "offset_commit", 9, **simple, group_instance_id=None, **_epoch(partition(2, "ü" * 90), -1)
    )
    deleted = [{"name": TOPIC, "partitions": [{"partition_index": 1}]}]
    await wire.call("offset_delete", 0, group_id="simple", topics=deleted)


def _epoch(commit: dict[str, Any], leader_epoch: int) -> dict[str, Any]:
    commit["topics"][0]["partitions"][0]["committed_leader_epoch"] = leader_epoch
    return commit


async def _beats(
    wire: Wire, beat: dict[str, Any], enough: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    return await until(lambda: wire.call("consumer_group_heartbeat", 1, **beat), enough)


async def _consumer(wire: Wire) -> None:
    """Have one member own everything, a second one take a part of it, and the first one leave."""
    names = {"subscribed_topic_names": [TOPIC], "rebalance_timeout": 300_000, "topic_partitions": []}
    full = names | {"instance_id": "static-2", "rack_id": "rack-a", "server_assignor": "range"}
    first = await _beats(wire, _beat("consumer", "first", 0, **full), lambda answer: _assigned(answer) == 6)
    owned = [_plain(each) for each in first["assignment"]["topic_partitions"]]
    await _beats(wire, _beat("consumer", "second", 0, **names), lambda answer: answer["error_code"] == 0)
    keeps = _beat("consumer", "first", first["member_epoch"], instance_id="static-2", topic_partitions=owned)
    told = await _beats(wire, keeps, lambda answer: _assigned(answer) == 3)
    rest = [_plain(each) for each in told["assignment"]["topic_partitions"]]
    await _beats(wire, keeps | {"topic_partitions": rest}, lambda answer: answer["member_epoch"] > 2)
    await _beats(wire, _beat("consumer", "second", 0, **names), lambda answer: _assigned(answer) == 3)
    await wire.call("consumer_group_heartbeat", 1, **_beat("consumer", "first", -1, instance_id="static-2"))


def _plain(topic: dict[str, Any]) -> dict[str, Any]:
    return {"topic_id": topic["topic_id"], "partitions": topic["partitions"]}


def _assigned(answer: dict[str, Any]) -> int:
    assert answer["error_code"] == 0, answer
    topics = (answer["assignment"] or {"topic_partitions": []})["topic_partitions"]
    return sum(len(topic["partitions"]) for topic in topics)


async def _regex(wire: Wire) -> None:
    beat = _beat("regex", "one", 0, rebalance_timeout=60_000, topic_partitions=[])
    await _beats(wire, beat | {"subscribed_topic_regex": "gol.*"}, lambda answer: _assigned(answer) == 6)


async def _classic_in_consumer(wire: Wire) -> None:
    """KIP-848: a member that speaks the classic protocol joins a consumer group."""
    names = {"subscribed_topic_names": [TOPIC], "rebalance_timeout": 60_000, "topic_partitions": []}
    await _beats(wire, _beat("mixed", "new", 0, **names), lambda answer: answer["error_code"] == 0)
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
    join = {"group_id": "mixed", "session_timeout": 45_000, "rebalance_timeout": 60_000, "member_id": "old"}
    join |= {"protocol_type": "consumer", "protocols": protocols}
    joined = await wire.call("join_group", 3, **join)
    assert joined["error_code"] == 0, joined


async def _deleted(wire: Wire) -> None:
    names = {"subscribed_topic_names": [TOPIC], "rebalance_timeout": 60_000, "topic_partitions": []}
    await _beats(wire, _beat("gone", "one", 0, **names), lambda answer: answer["error_code"] == 0)
    await wire.call("consumer_group_heartbeat", 1, **_beat("gone", "one", -1))
    await wire.call("delete_groups", 2, groups_names=["gone"])


async def until(
    call: Callable[[], Awaitable[dict[str, Any]]], enough: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        answer = await call()
        if enough(answer):
            return answer
        assert time.monotonic() < deadline, answer
        await asyncio.sleep(0.1)


def read_topic(bootstrap: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    """Return every record of an internal topic, partition by partition."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[tuple[bytes, bytes | None]] = []
        ended = 0
        while ended < len(partitions):
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "Kafka is silent"
            if message.error():
                ended += 1
            else:
                found.append((message.key(), message.value()))
        return found
    finally:
        consumer.close()


def ask_kafka(asked: list[dict[str, Any]], topic: str = OFFSETS_TOPIC) -> list[dict[str, Any]]:
    """Return what Kafka's own classes make of each question, one line each (see Records.java)."""
    lines = "".join(f"{json.dumps(each)}\n" for each in asked)
    command = jvm.command(jvm.build(), "groupd.Records", topic)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 6, 1)])[TOPIC].result(DEADLINE_S)


def keep(
    file: Path, topic: str, found: list[tuple[bytes, bytes | None]], older: list[dict[str, Any]]
) -> None:
    """Write a golden file: the records that were found, and the older ones as Kafka's classes write them."""
    lines = [{"key": key.hex(), "value": None if value is None else value.hex()} for key, value in found]
    written = ask_kafka([{"json": each} for each in older], topic)
    lines += [{"key": line["key"], "value": line["value"]} for line in written]
    with file.open("w") as golden:
        for line, shown in zip(lines, ask_kafka(lines, topic), strict=True):
            golden.write(json.dumps(line | shown, ensure_ascii=False) + "\n")


def main(bootstrap: str) -> None:
    create_topic(bootstrap)
    asyncio.run(make_groups(bootstrap))
    keep(GOLDEN, OFFSETS_TOPIC, read_topic(bootstrap, OFFSETS_TOPIC), OLDER)


if __name__ == "__main__":
    main(sys.argv[1])
