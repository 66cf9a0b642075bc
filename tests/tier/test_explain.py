"""`groupd explain` and `groupd top` against a real tier: a stuck group names the member it waits for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Consumer

from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S, until
from tests.tier.consumers import Reader

pytestmark = [pytest.mark.ray, pytest.mark.clients]

SLOW_MS = 60_000
"""How long a member that does not poll stays in the group."""


def explained(tier: Tier, group_id: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(tier.run("explain", group_id, "--json"))
    return told


def test_a_stuck_classic_group_names_the_member_it_waits_for(tier: Tier, topic: str, group_id: str) -> None:
    """A consumer that joined and is not polled again does not rejoin when another one comes."""
    until(lambda: _settled(tier), "leaders have come back from earlier tests' kills", 4 * DEADLINE_S)
    idle = Consumer(
        {
            "bootstrap.servers": tier.bootstrap,
            "group.id": group_id,
            "client.id": "idle",
            "max.poll.interval.ms": SLOW_MS,
        }
    )
    idle.subscribe([topic])
    until(lambda: idle.poll(0.1) is not None or idle.assignment(), "the first member has its partitions")
    newcomer = Reader(tier.bootstrap, topic, group_id, **{"client.id": "newcomer"})
    newcomer.start()
    try:
        told = until(lambda: _stuck(tier, group_id), "the group waits", 2 * DEADLINE_S)
        [waited] = told["now"]["waited_for"]
        assert (waited["client_id"], waited["client_host"]) == ("idle", "/127.0.0.1")
        assert 0 < waited["deadline_ms"] - told["now_ms"] <= SLOW_MS
        text = tier.run("explain", group_id)
        assert f"{waited['member_id']} (client idle at /127.0.0.1) has not yet joined again" in text
        joined = [row["client_software"] for row in told["events"] if row["kind"] == "member_joined"]
        assert all(software.startswith("confluent-kafka-python") for software in joined)
        [row] = [row for row in json.loads(tier.run("top", "--json")) if row["group_id"] == group_id]
        assert (row["state"], row["rebalances"], row["churn"]) == ("PreparingRebalance", 2, 2)
    finally:
        idle.close()
        newcomer.stop()
    ended = explained(tier, group_id)["rebalances"]
    assert [move["to_member"] for move in ended[-1]["moves"]] == [None] * 6


def _settled(tier: Tier) -> bool:
    """A leader that moves while a group rebalances knows nothing of that."""
    return all(row["is_preferred"] for row in json.loads(tier.run("leaders", "--json", fine=(0, 1))))


def _stuck(tier: Tier, group_id: str) -> dict[str, Any] | None:
    told = explained(tier, group_id)
    return told if told["now"] and told["now"]["state"] == "PreparingRebalance" else None


def test_what_a_new_leader_cannot_know_it_does_not_pretend(tier: Tier, topic: str, group_id: str) -> None:
    """Members and generation come from the replicated records, and the rebalances before are gone."""
    reader = Reader(tier.bootstrap, topic, group_id)
    reader.start()
    try:
        until(lambda: len(reader.owned) == 6, "the member has all partitions")
        before = explained(tier, group_id)
        tier.run("leaders", "move", str(before["offsets_partition"]))
        after = until(lambda: _led_anew(tier, group_id, before["term"]), "a new leader answers")
        assert after["now"]["members"] == 1
        assert after["now"]["group_epoch"] == before["now"]["group_epoch"]
        assert after["rebalances"] == []
        assert after["leads_since_ms"] > before["leads_since_ms"]
    finally:
        reader.stop()


def _led_anew(tier: Tier, group_id: str, term: int) -> dict[str, Any] | None:
    told = explained(tier, group_id)
    return told if told["term"] > term else None


def test_a_group_that_nobody_knows_is_one_line(tier: Tier) -> None:
    with pytest.raises(RuntimeError, match="the tier knows no such group, and nothing of its past"):
        tier.run("explain", "nobody's")
