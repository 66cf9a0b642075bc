"""A replica's memory under constant load ends where it was at half time, however many members came."""

from __future__ import annotations

from actors.coordinator.ground import alike
from bench.replica.soak import Load, Rise, Sample, rise, soak

MINUTES = 10
LOAD = Load(groups=3, members=3, life_ms=8_000)
BLOCKS_MAX = 2
"""How many blocks each member may leave behind. One that is kept for good has twenty and more."""
HEAP_BYTES_MAX = 50


def test_members_that_are_gone_leave_nothing_behind() -> None:
    """Groups of both protocols, of which half of the members leave, half vanish. The tables of what members
    share are full from the beginning, history's ring and all else that has a bound at half time."""
    for number in range(alike.SHARED_MAX):
        topic_id = number.to_bytes(16, "big")
        alike.shared_text(f"member {number}")
        alike.shared(("member", number))
        alike.shared_topics(((topic_id, b""),))
    samples = list(soak(MINUTES, LOAD, samples=4))
    found = rise(samples)
    assert found.members > 250
    assert found.blocks < BLOCKS_MAX, samples
    assert found.heap_bytes < HEAP_BYTES_MAX, samples


def test_the_rise_is_that_of_the_second_half() -> None:
    samples = [
        Sample(1, 0, 100, 1_000, 5_000, 0, 0, 100, 90),
        Sample(2, 0, 200, 2_000, 6_000, 0, 0, 200, 190),
        Sample(3, 0, 300, 2_100, 6_500, 0, 0, 300, 195),
        Sample(4, 0, 400, 2_200, 7_000, 0, 0, 400, 200),
    ]
    assert rise(samples) == Rise(200, 1.0, 5.0, 51.2)
