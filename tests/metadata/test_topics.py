"""Topics as the controller decides them: Kafka's checks, codes and words (ReplicationControlManager)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.spec import BrokerSettings
from actors.metadata.commands import (
    NO_TOPIC_ID,
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    SetNodeAlive,
    TopicToDelete,
)
from tests.metadata.driver import Host, tier


def create(host: Host, *topics: NewTopic, validate_only: bool = False) -> tuple[CreatedTopic, ...]:
    created: tuple[CreatedTopic, ...] = host.submit(CreateTopics(topics, validate_only)).topics
    return created


def test_a_topic_without_wishes_gets_the_defaults_and_leaders_on_all_nodes() -> None:
    host = tier()
    (created,) = create(host, NewTopic("orders"))
    assert (created.error_code, created.partition_count, created.replication_factor) == (0, 3, 1)
    topic = host.shard.image().topics["orders"]
    assert topic.topic_id == created.topic_id != NO_TOPIC_ID
    assert sorted(topic.partition_leaders) == [1, 2, 3]


def test_one_partition_topics_are_spread_over_nodes_by_their_names() -> None:
    host = tier()
    create(host, *(NewTopic(f"t{number}", 1) for number in range(60)))
    leaders = [topic.partition_leaders[0] for topic in host.shard.image().created_topics.values()]
    assert min(leaders.count(node) for node in (1, 2, 3)) >= 10


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a b", "other than ASCII alphanumerics"),
        ("ä", "other than ASCII alphanumerics"),
        ("a\n", "other than ASCII alphanumerics"),
        ("x" * 250, "longer than the max allowed length 249"),
    ],
)
def test_a_bad_name_is_refused_with_invalid_topic(name: str, words: str) -> None:
    (created,) = create(tier(), NewTopic(name))
    assert created.error_code == ErrorCode.invalid_topic_exception
    assert words in (created.error_message or "")


def test_the_longest_name_is_249_letters() -> None:
    assert create(tier(), NewTopic("x" * 249))[0].error_code == 0


def test_a_dot_and_an_underscore_collide_also_within_one_request() -> None:
    host = tier()
    first, second = create(host, NewTopic("a.b_c"), NewTopic("a_b.c"))
    (third,) = create(host, NewTopic("a_b_c"))
    assert first.error_code == 0
    for refused in (second, third):
        assert refused.error_code == ErrorCode.invalid_topic_exception
        assert "collides with existing topic: a.b_c" in (refused.error_message or "")


def test_an_existing_or_repeated_name_is_refused_and_the_rest_is_created() -> None:
    host = tier()
    create(host, NewTopic("a"))
    codes = [
        topic.error_code for topic in create(host, NewTopic("a"), NewTopic("b"), NewTopic("c"), NewTopic("c"))
    ]
    assert codes == [ErrorCode.topic_already_exists, 0, ErrorCode.invalid_request]
    assert set(host.shard.image().created_topics) == {"a", "b"}


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("t", 0), ErrorCode.invalid_partitions),
        (NewTopic("t", -2), ErrorCode.invalid_partitions),
        (NewTopic("t", 1, 0), ErrorCode.invalid_replication_factor),
        (NewTopic("t", 1, -2), ErrorCode.invalid_replication_factor),
        (NewTopic("t", 1, 4), ErrorCode.invalid_replication_factor),
        (NewTopic("t", 1, -1, ((0, (1,)),)), ErrorCode.invalid_request),
        (NewTopic("t", -1, 1, ((0, (1,)),)), ErrorCode.invalid_request),
        (NewTopic("t", -1, -1, ((1, (1,)),)), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", -1, -1, ((0, ()),)), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", -1, -1, ((0, (1, 1)),)), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", -1, -1, ((0, (9,)),)), ErrorCode.invalid_replica_assignment),
        (NewTopic("t", configs=(("no.such", "1"),)), ErrorCode.invalid_config),
        (NewTopic("t", configs=(("retention.ms", "soon"),)), ErrorCode.invalid_config),
        (NewTopic("t", configs=(("retention.ms", None),)), ErrorCode.invalid_config),
        (NewTopic("__cluster_metadata"), ErrorCode.invalid_request),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_nothing_changes(topic: NewTopic, code: ErrorCode) -> None:
    host = tier()
    version = host.shard.image().version
    (created,) = create(host, topic)
    assert created.error_code == code
    assert created.error_message
    assert (host.shard.image().version, len(host.shard.image().created_topics)) == (version, 0)


def test_a_manual_assignment_names_the_leaders_the_first_living_node_counts() -> None:
    host = tier()
    host.submit(SetNodeAlive(2, False))
    create(host, NewTopic("t", assignments=((0, (3, 1)), (1, (2, 1)), (2, (1,)))))
    assert host.shard.image().topics["t"].partition_leaders == (3, 1, 1)


def test_validate_only_says_what_would_be_and_creates_nothing() -> None:
    host = tier()
    (created,) = create(host, NewTopic("t", 7), validate_only=True)
    assert (created.error_code, created.partition_count) == (0, 7)
    assert created.topic_id != NO_TOPIC_ID, "Kafka tells the id that the topic would have had"
    assert not host.shard.image().created_topics


def test_without_a_living_node_no_topic_is_created() -> None:
    (created,) = create(tier(nodes=()), NewTopic("t"))
    assert created.error_code == ErrorCode.invalid_replication_factor


def test_limits_on_topics_and_partitions_are_policy_violations() -> None:
    host = tier(BrokerSettings(topics_max=2, partitions_max=10))
    created = create(host, NewTopic("a", 8), NewTopic("b", 3), NewTopic("c", 2), NewTopic("d", 1))
    expected = [0, ErrorCode.policy_violation, 0, ErrorCode.policy_violation]
    assert [topic.error_code for topic in created] == expected
    more = host.submit(CreatePartitions((MorePartitions("a", 9),))).topics
    assert more[0].error_code == ErrorCode.policy_violation
    huge = create(tier(), NewTopic("huge", 2**31 - 1))
    assert huge[0].error_code == ErrorCode.policy_violation


def test_a_deleted_topics_name_is_free_at_once_with_another_id() -> None:
    host = tier()
    (first,) = create(host, NewTopic("t"))
    (deleted,) = host.submit(DeleteTopics((TopicToDelete("t"),))).topics
    (second,) = create(host, NewTopic("t"))
    assert deleted == DeletedTopic("t", first.topic_id)
    assert second.error_code == 0
    assert second.topic_id != first.topic_id
    assert {each.topic_id for each in host.shard.image().created_topics.values()} == {second.topic_id}


def test_a_topic_that_is_to_be_deleted_twice_is_refused_in_one_entry() -> None:
    """It may be named once by its name and once by its id: each of them had an entry of its own before."""
    host = tier()
    a, b = create(host, NewTopic("a"), NewTopic("b"))

    def codes(*topics: TopicToDelete) -> list[tuple[str | None, bytes, int]]:
        told = host.submit(DeleteTopics(topics)).topics
        return [(topic.name, topic.topic_id, topic.error_code) for topic in told]

    by_name, by_id = TopicToDelete("a"), TopicToDelete(None, a.topic_id)
    wrong = ErrorCode.invalid_request
    assert codes(by_name, by_name) == [("a", NO_TOPIC_ID, wrong)]
    assert codes(by_id, by_id) == [(None, a.topic_id, wrong)]
    assert codes(by_id, by_name) == [("a", a.topic_id, wrong)]
    assert codes(TopicToDelete("no"), TopicToDelete("no")) == [("no", NO_TOPIC_ID, wrong)]
    assert codes(by_name, by_name, by_id) == [("a", NO_TOPIC_ID, wrong), ("a", a.topic_id, 0)]
    assert codes(TopicToDelete("b")) == [("b", b.topic_id, 0)]


def test_partitions_of_a_topic_that_comes_twice_are_refused_in_one_entry() -> None:
    host = tier()
    create(host, NewTopic("a", 1))
    told = host.submit(CreatePartitions((MorePartitions("a", 2), MorePartitions("a", 3)))).topics
    assert [(each.name, each.error_code) for each in told] == [("a", ErrorCode.invalid_request)]


def test_topics_are_deleted_by_name_or_id() -> None:
    host = tier()
    a, _ = create(host, NewTopic("a"), NewTopic("b"))
    deleted = host.submit(
        DeleteTopics(
            (
                TopicToDelete(None, a.topic_id),
                TopicToDelete("nope"),
                TopicToDelete(None, b"\7" * 16),
                TopicToDelete("b", a.topic_id),
                TopicToDelete(),
            )
        )
    ).topics
    assert deleted[0] == DeletedTopic("a", a.topic_id)
    assert [topic.error_code for topic in deleted] == [
        0,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
    ]
    assert set(host.shard.image().created_topics) == {"b"}


def test_partitions_are_added_behind_the_old_ones_which_keep_their_leaders() -> None:
    host = tier()
    create(host, NewTopic("t", 2))
    before = host.shard.image().topics["t"].partition_leaders
    outcome = host.submit(CreatePartitions((MorePartitions("t", 4, ((2,), (3,))),))).topics[0]
    assert outcome.error_code == 0
    assert host.shard.image().topics["t"].partition_leaders == (*before, 2, 3)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (MorePartitions("t", 2), ErrorCode.invalid_partitions),
        (MorePartitions("t", 1), ErrorCode.invalid_partitions),
        (MorePartitions("t", -1), ErrorCode.invalid_partitions),
        (MorePartitions("none", 3), ErrorCode.unknown_topic_or_partition),
        (MorePartitions("t", 4, ((1,),)), ErrorCode.invalid_replica_assignment),
        (MorePartitions("t", 3, ((9,),)), ErrorCode.invalid_replica_assignment),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(more: MorePartitions, code: ErrorCode) -> None:
    host = tier()
    create(host, NewTopic("t", 2))
    (outcome,) = host.submit(CreatePartitions((more,))).topics
    assert outcome.error_code == code
    assert host.shard.image().topics["t"].partition_count == 2
