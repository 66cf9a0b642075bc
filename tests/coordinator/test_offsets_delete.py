"""OffsetDelete, and what becomes of offsets whose topic is deleted."""

from __future__ import annotations

from actors.coordinator.offsets import forget_deleted_topics
from actors.coordinator.records import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from actors.metadata.image import MetadataImage, TopicImage
from actors.protocol import api_keys
from actors.protocol.messages import OffsetDeleteRequest
from tests.coordinator.driver import Driver, image_of, topic_id


def test_offset_delete_of_a_simple_group_removes_what_is_there() -> None:
    """O12: partitions without an offset are no error, unknown ones are error 3 each."""
    tier = Driver(t=2)
    tier.commit_offsets("g", offsets={0: 1})
    answer = tier.delete_offsets("g", "t", 1, 0, 5)
    assert (answer.error_code, answer.topics) == (0, (("t", ((1, 0), (0, 0), (5, 3))),))
    assert tier.last.records == [(OffsetCommitKey(OFFSET_COMMIT, "g", "t", 0), None)]
    assert tier.records() == {}


def test_offset_delete_without_a_group() -> None:
    """O12: 69; W2: 24; a request about nothing that exists does not get as far as the group."""
    tier = Driver(t=1)
    assert tier.delete_offsets("none", "t", 0).error_code == 69
    assert tier.delete_offsets("none", "t", 0).topics == ()
    assert tier.delete_offsets("", "t", 0).error_code == 24
    unknown = tier.delete_offsets("none", "nope", 0)
    assert (unknown.error_code, unknown.topics) == (0, (("nope", ((0, 3),)),))


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
    """O16."""
    tier = Driver(t=1, u=1)
    for group_id in ("a", "b"):
        tier.commit_offsets(group_id, "t", {0: 1})
        tier.commit_offsets(group_id, "u", {0: 2})
    tier.set_image(MetadataImage(version=2, topics=(tier.image.topics["u"],)))
    assert {key[1:] for key in tier.records()} == {("a", "u", 0), ("b", "u", 0)}
    tier.set_image(MetadataImage(version=3, topics=(tier.image.topics["u"],)))
    assert not tier.last.records


def test_a_topic_that_was_recreated_starts_without_offsets() -> None:
    """O16: by topic id, even if the deletion and the new topic of that name come in one image."""
    tier = Driver(t=1)
    tier.commit_offsets("g")
    reborn = MetadataImage(version=5, topics=(TopicImage(topic_id(77), "t", (0,)),))
    tier.set_image(reborn)
    assert tier.offsets("g") == {}
    tier.commit_offsets("g", offsets={0: 3})
    tier.commit()
    tier.fail_over()
    assert tier.offsets("g") == {("t", 0): 3}


def test_offsets_without_a_topic_id_go_by_the_name() -> None:
    """O16: matching topic id or ZERO_UUID."""
    tier = Driver(t=1)
    tier.commit_offsets("g")
    [(key, value)] = tier.records().items()
    assert isinstance(value, OffsetCommitValue)
    tier.shard.apply(key, value._replace(topic_id=bytes(16)))
    old_image = tier.image
    assert forget_deleted_topics(tier.shard.state, old_image, MetadataImage(version=2)) == [(key, None)]


def test_a_follower_that_saw_a_deletion_cleans_up_when_it_is_elected() -> None:
    """O16: the leader may fall between the image and the commit of its tombstones."""
    tier = Driver(t=1, u=1)
    tier.commit_offsets("g", "t", {0: 1})
    tier.commit_offsets("g", "u", {0: 2})
    tier.commit()
    follower = tier.restored()
    follower.on_metadata(MetadataImage(version=2, topics=(tier.image.topics["u"],)), tier.now_ms)
    assert len(list(follower.records())) == 2
    result = follower.on_elected(tier.now_ms)
    assert list(result.records) == [(OffsetCommitKey(OFFSET_COMMIT, "g", "t", 0), None)]


def test_an_image_that_only_grows_deletes_nothing() -> None:
    """The first image of a process comes after an empty one."""
    tier = Driver()
    tier.set_image(image_of(1, t=1))
    tier.commit_offsets("g")
    tier.set_image(image_of(2, t=4, u=2))
    assert tier.offsets("g") == {("t", 0): 1}
