"""A real admin client gives offsets partitions back to their preferred leaders (W24)."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from actors.ground.topic_names import OFFSETS_TOPIC
from bench.ground.throwaway import Tier
from tests.polling import DEADLINE_S, until

pytestmark = pytest.mark.clients


def leaders(tier: Tier) -> list[dict[str, int | None]]:
    rows: list[dict[str, int | None]] = json.loads(tier.run("leaders", "--json", fine=(0, 1)))
    return rows


def test_elect_leaders_gives_an_offsets_partition_to_its_preferred_leader(
    tier: Tier, admin: AdminClient
) -> None:
    """Leadership is moved away; the preferred leader has it back when an election answers without error.
    Until its log is whole again, elections say that it is not available."""
    rows = until(lambda: found if (found := leaders(tier))[0]["leader"] is not None else None, "a leader")
    preferred = rows[0]["preferred"]
    if rows[0]["leader"] == preferred:
        assert json.loads(tier.run("leaders", "move", "0", "--json"))["to"] != preferred
    partition = TopicPartition(OFFSETS_TOPIC, 0)

    def is_elected() -> bool:
        elected = admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(DEADLINE_S)
        return list(elected.values()) == [None]

    until(is_elected, "an election of the preferred leader")
    assert leaders(tier)[0]["leader"] == preferred
