"""Commits and fetches of groups that are nothing but offsets, and the rules of every commit."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.ground.timers import SLOT_MS
from actors.coordinator.offsets import pending as transactional
from actors.ground.contract import Record
from actors.ground.image import MetadataImage
from actors.ground.records import (
    NO_EXPIRY,
    OFFSET_COMMIT,
    PENDING_TXN_OFFSET,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingTxnOffsetKey,
)
from actors.protocol import api_keys
from actors.protocol.messages import (
    NO_ERROR,
    CommittedPartition,
    ConsumerGroupHeartbeatRequest,
    FetchedGroup,
    FetchedOffset,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from tests.coordinator.driver import START_MS, Driver, topic_id


@pytest.fixture
def tier() -> Driver:
    return Driver(t=3, u=1)


def commit_body(
    *topics: tuple[str, tuple[CommittedPartition, ...]], generation: int = -1, retention_time_ms: int = -1
) -> OffsetCommitRequest:
    return OffsetCommitRequest("g", generation, "", None, retention_time_ms, topics)


def test_a_commit_to_no_group_makes_a_simple_group_and_one_record_a_partition(tier: Driver) -> None:
    """These are rules O1 and O17."""
    body = commit_body(("t", (CommittedPartition(0, 7, 3, "note"), CommittedPartition(2, 9))))
    answer = tier.ask(api_keys.OFFSET_COMMIT, body, 9)
    assert answer.topics == (("t", ((0, 0), (2, 0))),)
    assert tier.last.records == [
        Record(
            OffsetCommitKey(OFFSET_COMMIT, "g", "t", 0),
            OffsetCommitValue(7, 3, "note", START_MS, NO_EXPIRY, topic_id(1)),
        ),
        Record(
            OffsetCommitKey(OFFSET_COMMIT, "g", "t", 2),
            OffsetCommitValue(9, -1, "", START_MS, NO_EXPIRY, topic_id(1)),
        ),
    ]
    assert tier.last.replies[0].group_id == "g"


def test_offset_epoch_and_metadata_come_back_as_committed(tier: Driver) -> None:
    """O17: leader epoch and metadata come back; null metadata comes back as ""."""
    tier.ask(api_keys.OFFSET_COMMIT, commit_body(("t", (CommittedPartition(1, 7, 3, "né"),))), 9)
    tier.ask(api_keys.OFFSET_COMMIT, commit_body(("t", (CommittedPartition(0, 8),))), 9)
    assert tier.fetch_group(OffsetFetchGroup("g", (("t", (0, 1)),))) == FetchedGroup(
        "g", (("t", (FetchedOffset(0, 8, -1, ""), FetchedOffset(1, 7, 3, "né"))),)
    )


def test_a_later_commit_replaces_an_earlier_one_even_with_a_lower_offset(tier: Driver) -> None:
    tier.commit_offsets("g", offsets={0: 100})
    tier.commit_offsets("g", offsets={0: 5})
    assert tier.offsets("g") == {("t", 0): 5}


@pytest.mark.parametrize(("version", "error"), [(8, 22), (2, 22), (9, 69)])
def test_a_generation_needs_a_group(tier: Driver, version: int, error: int) -> None:
    """O2: the error is ILLEGAL_GENERATION, and GROUP_ID_NOT_FOUND from version 9 on."""
    assert tier.commit_offsets("g", generation=0, version=version) == {0: error}
    assert not tier.last.records


def test_a_simple_group_has_no_members_to_commit_for(tier: Driver) -> None:
    """O1: an Empty group takes a generation below 0 with any member id; generation 0 gets error 25."""
    tier.commit_offsets("g")
    assert tier.commit_offsets("g", generation=-1, member_id="who") == {0: 0}
    assert tier.commit_offsets("g", generation=0) == {0: 25}


def test_the_empty_group_id_commits_and_fetches(tier: Driver) -> None:
    """This is rule W2."""
    assert tier.commit_offsets("", offsets={0: 4}) == {0: 0}
    assert tier.offsets("") == {("t", 0): 4}


def test_unknown_topics_and_partitions_get_error_3_and_the_rest_is_committed(tier: Driver) -> None:
    """W12: errors come first, and each topic comes once."""
    body = commit_body(
        ("nope", (CommittedPartition(0, 1),)),
        ("t", (CommittedPartition(3, 1), CommittedPartition(2, 1), CommittedPartition(-1, 1))),
    )
    answer = tier.ask(api_keys.OFFSET_COMMIT, body, 9)
    assert answer.topics == (("nope", ((0, 3),)), ("t", ((3, 3), (-1, 3), (2, 0))))
    assert tier.offsets("g") == {("t", 2): 1}


def test_a_refused_group_does_not_hide_that_a_partition_is_unknown(tier: Driver) -> None:
    """W12: unknown partitions are sorted out before the group is asked."""
    tier.commit_offsets("g")
    assert tier.commit_offsets("g", offsets={0: 1, 9: 1}, generation=0) == {0: 25, 9: 3}
    assert tier.commit_offsets("g", offsets={9: 1}, generation=0) == {9: 3}
    assert not tier.last.records


def test_a_topic_of_which_nothing_is_asked_is_left_out_unless_it_is_unknown(tier: Driver) -> None:
    """W12: Kafka does the same."""
    assert tier.ask(api_keys.OFFSET_COMMIT, commit_body(("t", ())), 9).topics == ()
    body = commit_body(("t", ()), ("u", (CommittedPartition(0, 1),)), ("nope", ()))
    assert tier.ask(api_keys.OFFSET_COMMIT, body, 9).topics == (("nope", ()), ("u", ((0, 0),)))


def test_an_empty_commit_is_answered_without_asking_the_group(tier: Driver) -> None:
    assert tier.ask(api_keys.OFFSET_COMMIT, commit_body(generation=5), 9).topics == ()


@pytest.mark.parametrize(
    ("metadata", "error"),
    [("x" * 4_096, 0), ("x" * 4_097, 12), ("é" * 4_096, 0), ("\N{GRINNING FACE}" * 2_049, 12)],
)
def test_metadata_is_measured_in_java_characters(tier: Driver, metadata: str, error: int) -> None:
    """O4: each partition is measured by itself, and the others are committed."""
    body = commit_body(("t", (CommittedPartition(0, 1, -1, metadata), CommittedPartition(1, 2))))
    assert tier.ask(api_keys.OFFSET_COMMIT, body, 9).topics == (("t", ((0, error), (1, 0))),)
    assert len(tier.offsets("g")) == (1 if error else 2)


def test_a_retention_named_by_the_commit_is_stored_as_an_expiry(tier: Driver) -> None:
    """This is rule O5."""
    body = commit_body(("t", (CommittedPartition(0, 1),)), retention_time_ms=60_000)
    tier.ask(api_keys.OFFSET_COMMIT, body, 4)
    [value] = tier.records().values()
    assert isinstance(value, OffsetCommitValue)
    assert value.expire_timestamp_ms == START_MS + 60_000


def test_fetch_of_what_was_never_committed_is_minus_one_and_no_error(tier: Driver) -> None:
    """O9: this holds for topics that do not exist, too."""
    tier.commit_offsets("g", offsets={0: 1})
    group = OffsetFetchGroup("g", (("t", (1,)), ("nope", (0,))))
    nothing = FetchedOffset(0, -1, -1, "", NO_ERROR)
    assert tier.fetch_group(group).topics == (("t", (nothing._replace(partition=1),)), ("nope", (nothing,)))
    unknown = tier.fetch_group(OffsetFetchGroup("no group", (("t", (0,)),)))
    assert unknown == FetchedGroup("no group", (("t", (nothing,)),))
    assert tier.fetch_group(OffsetFetchGroup("no group", None)) == FetchedGroup("no group", ())


def test_fetch_of_all_topics_groups_and_sorts_them(tier: Driver) -> None:
    tier.commit_offsets("g", "u", {0: 5})
    tier.commit_offsets("g", "t", {2: 7, 0: 6})
    fetched = tier.fetch_group(OffsetFetchGroup("g", None), version=2)
    assert fetched.topics == (
        ("t", (FetchedOffset(0, 6), FetchedOffset(2, 7))),
        ("u", (FetchedOffset(0, 5),)),
    )


def test_several_groups_in_one_fetch_are_answered_in_order(tier: Driver) -> None:
    """W6: an answer about several groups waits for all uncommitted records, one about one group for its
    own."""
    tier.commit_offsets("a", offsets={0: 1})
    tier.commit_offsets("b", offsets={0: 2})
    body = OffsetFetchRequest(tuple(OffsetFetchGroup(g, (("t", (0,)),)) for g in ("b", "none", "a")))
    groups = tier.ask(api_keys.OFFSET_FETCH, body, 8).groups
    found = [(g.group_id, g.topics[0][1][0][1], g.error_code) for g in groups]
    assert found == [("b", 2, 0), ("none", -1, 0), ("a", 1, 0)]
    assert tier.last.replies[0].group_id is None
    tier.fetch_group(OffsetFetchGroup("a", None))
    assert tier.last.replies[0].group_id == "a"


def test_a_classic_group_lets_anyone_fetch_whatever_member_they_name(tier: Driver) -> None:
    """O11: nobody looks at member id and epoch on a classic or simple group."""
    tier.commit_offsets("simple", offsets={0: 1})
    tier.stable_group("classic")
    for group_id in ("simple", "classic"):
        group = OffsetFetchGroup(group_id, (("t", (0,)),), "nobody", 17)
        assert tier.fetch_group(group).error_code == 0


def pend(tier: Driver, partition: int) -> None:
    """Commit an offset of partition `partition` of "t" in a transaction that stays open."""
    key = PendingTxnOffsetKey(PENDING_TXN_OFFSET, "g", "t", partition, 7)
    committed = OffsetCommitValue(50, -1, "", tier.now_ms, NO_EXPIRY, topic_id(1))
    tier.shard.apply(*transactional.pend(tier.shard.state, key, 0, committed))


def fetched_stable(tier: Driver, topics: tuple[tuple[str, tuple[int, ...]], ...] | None) -> FetchedGroup:
    body = OffsetFetchRequest((OffsetFetchGroup("g", topics),), require_stable=True)
    [group] = tier.ask(api_keys.OFFSET_FETCH, body, 9).groups
    assert isinstance(group, FetchedGroup)
    return group


def test_a_stable_fetch_is_told_of_open_transactions_partition_by_partition(tier: Driver) -> None:
    """O10: UNSTABLE_OFFSET_COMMIT with offset -1; any other fetch sees what is committed."""
    tier.commit_offsets("g", offsets={0: 1, 1: 2})
    pend(tier, 1)
    pend(tier, 2)
    unstable = ErrorCode.unstable_offset_commit
    assert fetched_stable(tier, (("t", (0, 1, 2)),)).topics == (
        (
            "t",
            (
                FetchedOffset(0, 1),
                FetchedOffset(1, error_code=unstable),
                FetchedOffset(2, error_code=unstable),
            ),
        ),
    )
    asked = OffsetFetchGroup("g", (("t", (0, 1, 2)),))
    assert tier.fetch_group(asked).topics == (
        ("t", (FetchedOffset(0, 1), FetchedOffset(1, 2), FetchedOffset(2))),
    )


def test_a_fetch_of_all_topics_hides_what_is_only_pending(tier: Driver) -> None:
    """O9: this holds for stable and other fetches; an offset that is committed, too, is unstable."""
    tier.commit_offsets("g", offsets={0: 1})
    pend(tier, 0)
    pend(tier, 1)
    unstable = FetchedOffset(0, error_code=ErrorCode.unstable_offset_commit)
    assert fetched_stable(tier, None).topics == (("t", (unstable,)),)
    assert tier.offsets("g") == {("t", 0): 1}


def test_offset_delete_takes_pending_offsets_along(tier: Driver) -> None:
    """O8: this holds for a partition with pending offsets alone, too."""
    tier.commit_offsets("g", offsets={0: 1})
    pend(tier, 0)
    pend(tier, 1)
    assert tier.delete_offsets("g", "t", 0, 1).topics == (("t", ((0, 0), (1, 0))),)
    assert tier.records() == {}


def test_an_open_transaction_does_not_keep_a_group_from_being_deleted(tier: Driver) -> None:
    """O13: the transaction's offsets go with the group."""
    pend(tier, 1)
    assert tier.describe("g").group_state == "Empty"
    assert [group.group_id for group in tier.list_groups()] == ["g"]
    assert tier.delete_groups("g") == {"g": 0}
    assert tier.records() == {}
    assert tier.describe("g").error_code == 69


def test_offsets_of_a_deleted_topic_go_with_what_is_pending(tier: Driver) -> None:
    """These are rules O16 and O8."""
    tier.commit_offsets("g", offsets={0: 1})
    pend(tier, 0)
    pend(tier, 1)
    tier.set_image(MetadataImage(version=2))
    tier.advance(2 * SLOT_MS)
    assert tier.records() == {}


def test_a_commit_of_which_nothing_can_be_stored_makes_no_group(tier: Driver) -> None:
    """These are rules O1 and O4."""
    body = commit_body(("t", (CommittedPartition(0, 1, -1, "x" * 5_000),)))
    assert tier.ask(api_keys.OFFSET_COMMIT, body, 9).topics == (("t", ((0, 12),)),)
    assert tier.describe("g").error_code == 69
    assert tier.commit_offsets("g", generation=0) == {0: 69}


def test_a_simple_group_becomes_a_real_one_of_either_type(tier: Driver) -> None:
    """R8: the group keeps its offsets, and this holds when all it has is an offset read from the log."""
    for group_id in ("classic", "consumer"):
        tier.commit_offsets(group_id, offsets={0: 5})
    tier.commit()
    tier.fail_over()
    tier.stable_group("classic")
    joining = ConsumerGroupHeartbeatRequest(
        "consumer", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("t",), topic_partitions=()
    )
    assert tier.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, joining, 1).error_code == 0
    types = {group.group_id: (group.group_type, group.group_state) for group in tier.list_groups()}
    assert types == {"classic": ("classic", "Stable"), "consumer": ("consumer", "Stable")}
    assert tier.offsets("classic") == tier.offsets("consumer") == {("t", 0): 5}
