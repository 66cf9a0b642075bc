"""Topics of a backup come back under their ids, led by the nodes that are there now."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.spec import BrokerSettings
from actors.metadata.commands import (
    AllocateProducerIds,
    CreateTopics,
    NewTopic,
    Outcome,
    RestoredTopic,
    RestoreTopics,
    pack,
    unpack,
)
from tests.metadata.driver import Host, new_shard, state_of, tier

ORDERS = RestoredTopic("orders", b"o" * 16, 6, (("retention.ms", "60000"),))
PAYMENTS = RestoredTopic("payments", b"p" * 16, 1)
COMMAND = RestoreTopics((ORDERS, PAYMENTS), 5_000)


def test_topics_have_their_ids_and_configs_and_leaders_of_this_tier() -> None:
    host = tier(nodes=(7, 8))
    assert host.submit(unpack(pack(COMMAND))) == Outcome()
    topics = host.shard.image().topics
    for topic in COMMAND.topics:
        found = topics[topic.name]
        assert (found.topic_id, found.partition_count, found.configs) == topic[1:]
        assert set(found.partition_leaders) <= {7, 8}
    assert set(topics["orders"].partition_leaders) == {7, 8}


def test_producer_ids_go_on_where_the_old_tier_stood() -> None:
    """The ids of the new tier begin after those of the old one."""
    host = tier()
    host.submit(COMMAND)
    assert host.submit(AllocateProducerIds(1)).first_producer_id == 5_000
    host.submit(RestoreTopics((), 100))
    assert host.submit(AllocateProducerIds(1)).first_producer_id == 6_000


def test_a_command_may_be_repeated() -> None:
    host = tier()
    host.submit(COMMAND)
    before = state_of(host.shard)
    assert host.submit(COMMAND) == Outcome()
    assert state_of(host.shard) == before


def test_a_name_that_is_taken_refuses_all() -> None:
    host = tier()
    host.submit(CreateTopics((NewTopic("payments", 1),)))
    before = state_of(host.shard)
    answer = host.submit(COMMAND)
    assert answer.error_code == ErrorCode.topic_already_exists
    assert answer.error_message == "topic payments was created here meanwhile"
    assert state_of(host.shard) == before


@pytest.mark.parametrize(
    ("settings", "said"),
    [(BrokerSettings(topics_max=1), "topics.max"), (BrokerSettings(partitions_max=6), "partitions.max")],
)
def test_a_tier_that_is_too_small_says_which_setting(settings: BrokerSettings, said: str) -> None:
    host = tier(settings)
    before = state_of(host.shard)
    answer = host.submit(COMMAND)
    assert answer.error_code == ErrorCode.policy_violation
    assert said in answer.error_message
    assert state_of(host.shard) == before


def test_before_any_broker_has_registered_it_is_too_early() -> None:
    host = Host(new_shard())
    assert host.submit(COMMAND).error_code == ErrorCode.broker_not_available
