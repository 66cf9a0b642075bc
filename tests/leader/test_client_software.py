"""The history names the software of the client that joined, whichever request was served last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.network.wire import request_frame, to_plain
from tests.fuzz.bystanders import group_of
from tests.fuzz.client import Client
from tests.fuzz.leaping import LeapingLoop
from tests.fuzz.stack import Stack

LIBRDKAFKA = ("librdkafka", "2.12.0")
SARAMA = ("sarama", "1.45.0")
COORDINATOR_LOAD_IN_PROGRESS = 14


def test_a_join_sent_again_after_a_leader_had_to_load_is_recorded_with_its_own_clients_software(
    tmp_path: Path,
) -> None:
    """A frame that is the same as the connection's last one is served without being read again (C20)."""

    async def story() -> None:
        stack = Stack(loop, str(tmp_path))
        await stack.start()
        partition, group_id = stack.partitions[0], group_of(0, "software")
        join = {
            "group_id": group_id,
            "member_epoch": 0,
            "rebalance_timeout": 300_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
        }
        early, late = Client(stack, 0, LIBRDKAFKA), Client(stack, 0, SARAMA)
        replica = partition._host.replica
        replica.serving = False
        beat(early, **join, member_id="early")
        assert [answer["error_code"] for _, answer in taken(early)] == [COORDINATOR_LOAD_IN_PROGRESS]
        replica.serving = True
        beat(late, **join, member_id="late")
        beat(early, **join, member_id="early")
        await stack.leap(1, 10)
        assert [answer["error_code"] for _, answer in (*taken(early), *taken(late))] == [0, 0]
        told = (await partition.explain(group_id))["events"]
        joined = {row["member_id"]: row["client_software"] for row in told if row["kind"] == "member_joined"}
        assert joined == {"early": "librdkafka 2.12.0", "late": "sarama 1.45.0"}

    loop = LeapingLoop()
    loop.run_until_complete(story())
    loop.close()


def beat(client: Client, **fields: Any) -> None:
    client.send(request_frame("consumer_group_heartbeat", 1, 7, "client", fields))


def taken(client: Client) -> list[tuple[Any, dict[str, Any]]]:
    return [(asked, to_plain(answer)) for asked, answer in client.take()]
