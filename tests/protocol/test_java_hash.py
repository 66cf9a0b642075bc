"""W1: groups land on the offsets partition that Kafka would choose."""

from __future__ import annotations

import random

import pytest

from actors.protocol.java_hash import LONG_CACHED_CHARACTERS_MAX, java_hash, partition_for

JAVA_VALUES = [
    ("", 0),
    ("a", 97),
    ("ab", 3105),
    ("hello", 99162322),
    ("Hello World", -862545276),
    ("polygenelubricants", -(2**31)),
    ("ä", 228),
    # Two code units, D83D DE00: 31 * 0xD83D + 0xDE00.
    ("😀", 31 * 0xD83D + 0xDE00),
]


@pytest.mark.parametrize(("text", "code"), JAVA_VALUES)
def test_w1_known_hash_codes_of_java_strings(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_w1_hash_is_javas_polynomial_over_utf16_units() -> None:
    rng = random.Random(1)
    for _ in range(500):
        text = "".join(chr(rng.choice((65, 0xE4, 0x6F22, 0x1F600)) + rng.randrange(20)) for _ in range(30))
        raw = text.encode("utf-16-be")
        units = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
        whole = sum(unit * 31 ** (len(units) - 1 - place) for place, unit in enumerate(units))
        assert java_hash(text) == (whole + 2**31) % 2**32 - 2**31


def test_w1_the_smallest_int_has_no_absolute_value_and_goes_to_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("polygenelubricants", 7) == 0


def test_w1_a_negative_hash_goes_by_its_absolute_value() -> None:
    assert partition_for("Hello World", 50) == 862545276 % 50
    assert partition_for("test-group", 50) == abs(java_hash("test-group")) % 50 == 12


def test_w1_a_lone_surrogate_has_a_partition_too() -> None:
    assert partition_for("\ud800", 50) == 0xD800 % 50


def test_group_ids_as_long_as_kafka_allows_do_not_stay_in_memory() -> None:
    longest = 32_767
    for number in range(3 * LONG_CACHED_CHARACTERS_MAX // longest):
        group_id = f"{number}".rjust(longest, "g")
        assert partition_for(group_id, 50) == abs(java_hash(group_id)) % 50
    assert partition_for.cache_info().currsize <= LONG_CACHED_CHARACTERS_MAX // longest
