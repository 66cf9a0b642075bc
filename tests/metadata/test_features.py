"""Levels of features change all or none, are replicated, and go out with every image (W44)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, Features
from actors.metadata.commands import FeatureUpdate, UpdateFeatures
from actors.metadata.wire import pack_image, unpack_image
from tests.metadata.driver import Host, new_shard, state_of, tier

GROUP, METADATA, TRANSACTION = "group.version", "metadata.version", "transaction.version"
Update = tuple[str, int, int]


def update(host: Host, *updates: Update, validate_only: bool = False) -> int:
    asked = tuple(FeatureUpdate(*each) for each in updates)
    return int(host.submit(UpdateFeatures(asked, validate_only)).error_code)


def test_w44_levels_rise_and_fall_and_the_epoch_only_rises() -> None:
    host = tier()
    assert host.shard.image().features == Features()
    assert update(host, (GROUP, 0, SAFE_DOWNGRADE), (TRANSACTION, 1, SAFE_DOWNGRADE)) == 0
    assert host.shard.image().features.finalized() == [(METADATA, 33), (TRANSACTION, 1)]
    assert update(host, (GROUP, 1, UPGRADE), (TRANSACTION, 0, UNSAFE_DOWNGRADE)) == 0
    assert host.shard.image().features.finalized() == [(GROUP, 1), (METADATA, 33)]
    assert host.shard.image().features.epoch == 2
    assert update(host, (GROUP, 1, UPGRADE), (METADATA, 33, SAFE_DOWNGRADE)) == 0
    assert update(host, (GROUP, 0, SAFE_DOWNGRADE), validate_only=True) == 0
    assert host.shard.image().features.epoch == 2


def test_w44_a_replica_that_comes_later_and_every_actor_know_the_levels() -> None:
    host = tier()
    update(host, (GROUP, 0, SAFE_DOWNGRADE))
    other = new_shard()
    for key, value in state_of(host.shard):
        other.apply(key, value)
    assert unpack_image(pack_image(other.image())).features == Features(1, ((GROUP, 0),))
    host.take_back()
    assert host.shard.image().features == Features()


@pytest.mark.parametrize(
    "wrong",
    [
        ("no.such", 1, UPGRADE),
        ("no.such", 0, SAFE_DOWNGRADE),
        (GROUP, 2, UPGRADE),
        (GROUP, -1, SAFE_DOWNGRADE),
        (GROUP, 0, UPGRADE),
        (GROUP, 1, 0),
        (GROUP, 1, 4),
        (TRANSACTION, 3, UPGRADE),
        (TRANSACTION, 1, UPGRADE),
        (METADATA, 34, UPGRADE),
        (METADATA, 32, SAFE_DOWNGRADE),
        (METADATA, 32, UNSAFE_DOWNGRADE),
    ],
)
def test_w44_one_wrong_feature_refuses_the_whole_request(wrong: Update) -> None:
    host = tier()
    good = (TRANSACTION, 1, SAFE_DOWNGRADE) if wrong[0] != TRANSACTION else (GROUP, 0, SAFE_DOWNGRADE)
    assert update(host, good, wrong) == ErrorCode.invalid_update_version
    assert host.shard.image().features == Features()


def test_w44_of_a_feature_named_twice_the_last_entry_counts() -> None:
    host = tier()
    assert update(host, (GROUP, 9, UPGRADE), (GROUP, 0, SAFE_DOWNGRADE)) == 0
    assert host.shard.image().features.level(GROUP) == 0
