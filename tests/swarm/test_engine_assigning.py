"""What the leader of a classic group shares out."""

from __future__ import annotations

from random import Random

import pytest

from actors.protocol.consumer_protocol import Subscription
from bench.member.assigning import (
    CLASSIC_COOPERATIVE,
    CLASSIC_OPAQUE,
    CLASSIC_RANGE,
    Joiner,
    Sharing,
    by_range,
    cooperative,
)


def joiner(name: str, *topics: str, owned: dict[str, list[int]] | None = None, generation: int = 1) -> Joiner:
    mine = tuple((topic, tuple(numbers)) for topic, numbers in (owned or {}).items())
    return Joiner(name, None, Subscription(topics, None, mine, generation))


def test_range_gives_the_first_members_one_more_and_orders_static_ones_by_their_instance() -> None:
    static = Joiner("z", "a", Subscription(("clicks",)))
    told = by_range([joiner("b", "clicks"), static, joiner("c", "orders")], {"clicks": 3, "orders": 2})
    assert told == {"b": {"clicks": [2]}, "z": {"clicks": [0, 1]}, "c": {"orders": [0, 1]}}


def test_a_partition_that_must_move_is_nobodys_until_its_owner_gave_it_up() -> None:
    a, b = joiner("a", "t", owned={"t": [0, 1, 2, 3]}), joiner("b", "t")
    first = cooperative([a, b], {"t": 4})
    assert first == {"a": {"t": [0, 1]}, "b": {}}
    second = cooperative([joiner("a", "t", owned={"t": [0, 1]}, generation=2), b], {"t": 4})
    assert second == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_of_two_that_claim_a_partition_the_later_generation_is_right() -> None:
    old, new = (
        joiner("a", "t", owned={"t": [0]}, generation=3),
        joiner("b", "t", owned={"t": [0]}, generation=4),
    )
    assert cooperative([old, new], {"t": 1}) == {"a": {}, "b": {"t": [0]}}


@pytest.mark.parametrize("seed", range(20))
def test_two_rounds_of_cooperative_give_out_everything_evenly(seed: int) -> None:
    chance = Random(seed)
    partitions = {f"t{n}": chance.randint(1, 12) for n in range(chance.randint(1, 4))}
    everything = [(topic, number) for topic, count in partitions.items() for number in range(count)]
    names = [f"m{n}" for n in range(chance.randint(1, 6))]
    owned: dict[str, dict[str, list[int]]] = {name: {} for name in names}
    for topic, number in chance.sample(everything, chance.randint(0, len(everything))):
        owned[chance.choice(names)].setdefault(topic, []).append(number)
    for _ in range(2):
        owned = cooperative([joiner(name, *partitions, owned=owned[name]) for name in names], partitions)
    counts = [sum(map(len, topics.values())) for topics in owned.values()]
    assert sorted((t, n) for topics in owned.values() for t, ns in topics.items() for n in ns) == sorted(
        everything
    )
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("protocol", [CLASSIC_RANGE, CLASSIC_COOPERATIVE, CLASSIC_OPAQUE])
def test_members_read_what_their_leader_wrote(protocol: str) -> None:
    sharing = Sharing(protocol, ("clicks",), lambda topics: dict.fromkeys(topics, 2))
    raw = sharing.metadata({}, -1)
    told = sharing.share_out([("a", None, raw), ("b", None, raw)])
    assert sharing.read(told["a"]) == {"clicks": (0,)}
    assert sharing.read(told["b"]) == {"clicks": (1,)}
