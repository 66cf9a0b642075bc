"""Costs by rate: a curve through what was measured."""

from __future__ import annotations

import pytest

from cluster.capacity.curve import Curve, Point

CURVE = Curve.through([Point(1_000, 30), Point(10, 300)])


def test_what_was_measured_is_what_it_says() -> None:
    assert [CURVE.each(per_s) for per_s in (10, 1_000)] == [300, 30]


def test_between_two_measurements_it_goes_evenly_from_one_to_the_other() -> None:
    assert CURVE.each(100) == pytest.approx((300 * 30) ** 0.5)
    values = [CURVE.each(per_s) for per_s in range(10, 1_000, 10)]
    assert values == sorted(values, reverse=True)


def test_beyond_what_was_measured_nothing_becomes_cheaper_or_dearer() -> None:
    assert CURVE.each(0) == CURVE.each(9.9) == 300
    assert CURVE.each(1e6) == 30


def test_one_rate_says_nothing_about_others() -> None:
    with pytest.raises(ValueError, match="two rates"):
        Curve.through([Point(100, 20)])
    with pytest.raises(ValueError, match="each once"):
        Curve.through([Point(100, 20), Point(100, 21), Point(200, 10)])
