"""Offsets are deleted by OffsetDelete, and when their topic is deleted."""

from __future__ import annotations

from actors.coordinator.ground.timers import SLOT_MS
from actors.coordinator.offsets.walk import STOPS_PER_SLICE_MAX
from actors.ground.image import MetadataImage, TopicImage, Upstream
from actors.ground.records import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.protocol import api_keys
from actors.protocol.messages import OffsetDeleteRequest
from tests.coordinator.driver import Driver, image_of, topic_id


def _set_image(tier: Driver, image: MetadataImage) -> None:
    """Take a newer image, and let the time pass that a small shard's sweep needs."""
    tier.set_image(image)
    tier.advance(2 * SLOT_MS)


def test_offset_delete_of_a_simple_group_removes_what_is_there() -> None:
    """O12: a partition without an offset is no error, an unknown partition gets error 3."""
    tier = Driver(t=2)
    tier.commit_offsets("g", offsets={0: 1})
    answer = tier.delete_offsets("g", "t", 1, 0, 5)
    assert (answer.error_code, answer.topics) == (0, (("t", ((1, 0), (0, 0), (5, 3))),))
    assert tier.last.records == [(OffsetCommitKey(OFFSET_COMMIT, "g", "t", 0), None)]
    assert tier.records() == {}


def test_offset_delete_without_a_group() -> None:
    """O12: the error is 69, whether the topics of the request exist or not. W2: the group id "" gets 24."""
    tier = Driver(t=1)
    assert tier.delete_offsets("none", "t", 0).error_code == 69
    assert tier.delete_offsets("none", "t", 0).topics == ()
    assert tier.delete_offsets("", "t", 0).error_code == 24
    unknown = tier.delete_offsets("none", "nope", 0)
    assert (unknown.error_code, unknown.topics) == (69, ())


def test_offset_delete_spares_topics_that_a_live_group_is_subscribed_to() -> None:
    """O12: a consumer-type group whose subscription cannot be read counts as subscribed to everything."""
    tier = Driver(t=1)
    [joined] = tier.stable_group("g")
    assert tier.commit_offsets("g", generation=1, member_id=joined.member_id) == {0: 0}
    answer = tier.delete_offsets("g", "t", 0)
    assert (answer.error_code, answer.topics) == (0, (("t", ((0, 86),)),))
    assert not tier.last.records
    tier.leave("g", joined.member_id)
    assert tier.delete_offsets("g", "t", 0).topics == (("t", ((0, 0),)),)
    assert tier.offsets("g") == {}


def test_offset_delete_twice_in_one_request_is_harmless() -> None:
    tier = Driver(t=1)
    tier.commit_offsets("g")
    body = OffsetDeleteRequest("g", (("t", (0, 0)), ("t", (0,))))
    assert tier.ask(api_keys.OFFSET_DELETE, body, 0).topics == (("t", ((0, 0), (0, 0))), ("t", ((0, 0),)))
    assert tier.records() == {}


def test_offsets_of_a_deleted_topic_go_in_all_groups() -> None:
    """This is rule O16."""
    tier = Driver(t=1, u=1)
    for group_id in ("a", "b"):
        tier.commit_offsets(group_id, "t", {0: 1})
        tier.commit_offsets(group_id, "u", {0: 2})
    _set_image(tier, MetadataImage(version=2, topics=(tier.image.topics["u"],)))
    assert {key[1:] for key in tier.records()} == {("a", "u", 0), ("b", "u", 0)}
    deadline_ms = tier.shard.next_deadline_ms
    _set_image(tier, MetadataImage(version=3, topics=(tier.image.topics["u"],)))
    assert tier.shard.next_deadline_ms == deadline_ms


def test_a_topic_that_was_recreated_starts_without_offsets() -> None:
    """O16: offsets go by the topic's id, even if one image has both the deletion and the new topic of that
    name."""
    tier = Driver(t=1)
    tier.commit_offsets("g")
    reborn = MetadataImage(version=5, topics=(TopicImage(topic_id(77), "t", (0,)),))
    _set_image(tier, reborn)
    assert tier.offsets("g") == {}
    tier.commit_offsets("g", offsets={0: 3})
    tier.commit()
    tier.fail_over()
    assert tier.offsets("g") == {("t", 0): 3}


def test_offsets_without_a_topic_id_go_by_the_name() -> None:
    """O16: the topic id has to match, or be ZERO_UUID."""
    tier = Driver(t=1)
    tier.commit_offsets("g")
    [(key, value)] = tier.records().items()
    assert isinstance(value, OffsetCommitValue)
    tier.shard.apply(key, value._replace(topic_id=bytes(16)))
    _set_image(tier, MetadataImage(version=2, topics=(TopicImage(topic_id(77), "t", (0,)),)))
    assert tier.records() == {}


def test_an_internal_topic_that_gets_its_id_from_a_cluster_was_not_deleted() -> None:
    """O16: a group that reads `__consumer_offsets` keeps its offsets, topic ids or not."""
    tier = Driver(image=MetadataImage(version=1, offsets_leaders=(1,)))
    tier.commit_offsets("g", OFFSETS_TOPIC)
    [(key, value)] = tier.records().items()
    assert isinstance(value, OffsetCommitValue)
    tier.shard.apply(key, value._replace(topic_id=bytes(16)))
    _set_image(tier, MetadataImage(version=2, offsets_leaders=(1,), upstream=Upstream(topic_id(7))))
    assert list(tier.records()) == [key]


def test_a_follower_that_saw_a_deletion_cleans_up_when_it_is_elected() -> None:
    """O16: the leader may fall between the image and the commit of its tombstones."""
    tier = Driver(t=1, u=1)
    tier.commit_offsets("g", "t", {0: 1})
    tier.commit_offsets("g", "u", {0: 2})
    tier.commit()
    follower = tier.restored()
    follower.on_metadata(MetadataImage(version=2, topics=(tier.image.topics["u"],)), tier.now_ms)
    assert len(list(follower.records())) == 2
    follower.on_elected(tier.now_ms)
    result = follower.expire(tier.now_ms + SLOT_MS)
    assert list(result.records) == [(OffsetCommitKey(OFFSET_COMMIT, "g", "t", 0), None)]


def test_a_failover_in_the_middle_of_a_sweep_does_not_spare_the_rest() -> None:
    """O16: the new leader's sweep reaches the offsets that the old leader's slices had not come to."""
    tier = Driver(t=STOPS_PER_SLICE_MAX + 10)
    tier.commit_offsets("g", offsets=dict.fromkeys(range(STOPS_PER_SLICE_MAX + 10), 1))
    tier.set_image(MetadataImage(version=2))
    tier.advance(SLOT_MS)
    assert len(tier.records()) == 10
    tier.commit()
    tier.fall()
    tier.lead()
    tier.advance(SLOT_MS)
    assert tier.records() == {}


def test_a_sweep_begins_again_when_another_topic_is_deleted_under_it() -> None:
    """O16: the second topic's offsets may be where the first sweep has been already."""
    tier = Driver(t=1, u=STOPS_PER_SLICE_MAX)
    tier.commit_offsets("a", "t")
    tier.commit_offsets("b", "u", dict.fromkeys(range(STOPS_PER_SLICE_MAX), 1))
    tier.set_image(MetadataImage(version=2, topics=(tier.image.topics["t"],)))
    tier.advance(SLOT_MS)
    assert {key[2] for key in tier.records()} == {"t", "u"}
    _set_image(tier, MetadataImage(version=3))
    assert tier.records() == {}


def test_an_image_that_only_grows_deletes_nothing() -> None:
    """The first image of a process comes after an empty one."""
    tier = Driver()
    tier.set_image(image_of(1, t=1))
    tier.commit_offsets("g")
    tier.set_image(image_of(2, t=4, u=2))
    assert tier.offsets("g") == {("t", 0): 1}
