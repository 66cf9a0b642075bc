"""Set algebra on packed assignments is compared with Python's sets, and so are held counts: the ground of
rules M11 to M13."""

from __future__ import annotations

import random
from struct import pack

import pytest

from actors.coordinator.consumer.model.metadata import metadata_hash
from actors.coordinator.ground import partitions
from tests.coordinator.consumer.driver import as_pairs, make_image, topic_id
from tests.coordinator.unpacked import to_lists

TOPICS = [topic_id(name) for name in ("a", "b", "c", "d")]


def random_assignment(rng: random.Random) -> partitions.TopicPartitions:
    return partitions.from_lists(
        {topic: rng.sample(range(7), rng.randrange(8)) for topic in rng.sample(TOPICS, rng.randrange(5))}
    )


def test_partitions_are_packed_as_on_the_wire() -> None:
    assert partitions.from_lists({b"t" * 16: [258, 1, 1], b"s" * 16: []}) == (
        (b"t" * 16, b"\x00\x00\x00\x01\x00\x00\x01\x02"),
    )
    assert partitions.unpack(pack(">3i", 1, 2, 3)) == (1, 2, 3)


@pytest.mark.parametrize("seed", range(200))
def test_the_algebra_is_that_of_sets(seed: int) -> None:
    rng = random.Random(seed)
    left, right = random_assignment(rng), random_assignment(rng)
    if rng.random() < 0.3:
        right = partitions.intersection(left, right)
    a, b = as_pairs(left), as_pairs(right)
    for operation, expected in (
        (partitions.union, a | b),
        (partitions.intersection, a & b),
        (partitions.difference, a - b),
    ):
        result = operation(left, right)
        assert as_pairs(result) == expected
        assert result == partitions.from_lists(to_lists(result)), "well formed"
    assert partitions.contains(left, right) == (b <= a)
    assert partitions.overlaps(left, right) == bool(a & b)
    assert partitions.count(left) == len(a)


def test_the_metadata_hash_is_the_same_everywhere() -> None:
    """M6: the hash is fixed, because replicas of any version compare it; order and absent names do not
    matter."""
    image = make_image(1, orders=4, returns=1)
    assert metadata_hash(["returns", "orders", "nowhere"], image) == metadata_hash(
        ["orders", "returns"], image
    )
    assert metadata_hash(["orders"], image) == 7671925954816064711
    assert metadata_hash(["nowhere"], image) == 0
    assert metadata_hash(["orders"], make_image(9, orders=5)) != metadata_hash(["orders"], image)
