"""Periods as one types them; the time is told."""

from __future__ import annotations

import datetime as dt

import pytest

from storage.history.period import DAY_MS, Period, PeriodError, of_days, parsed

NOW_MS = 1_795_348_800_000
"""The time 2026-11-22 12:00 UTC."""
MIDNIGHT_MS = NOW_MS - DAY_MS // 2
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [
        ("15m", None, Period(NOW_MS - 900_000, NOW_MS)),
        ("1h", None, Period(NOW_MS - HOUR_MS, NOW_MS)),
        ("2h", "1h", Period(NOW_MS - 2 * HOUR_MS, NOW_MS - HOUR_MS)),
        ("1d", None, Period(MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS)),
        ("7d", None, Period(MIDNIGHT_MS - 6 * DAY_MS, MIDNIGHT_MS + DAY_MS)),
        ("1w", "1h", Period(MIDNIGHT_MS - 6 * DAY_MS, NOW_MS - HOUR_MS)),
        ("2026-11-20", "2026-11-21", Period(MIDNIGHT_MS - 2 * DAY_MS, MIDNIGHT_MS)),
        ("2026-11-22T11:00", None, Period(NOW_MS - HOUR_MS, NOW_MS)),
        ("2026-11-22T13:00+02:00", "2026-11-22T11:30Z", Period(NOW_MS - HOUR_MS, NOW_MS - HOUR_MS // 2)),
    ],
)
def test_what_one_types_is_what_is_meant(since: str, until: str | None, found: Period) -> None:
    assert parsed(since, until, NOW_MS) == found


@pytest.mark.parametrize(
    ("since", "until", "why"),
    [
        ("soon", None, r"--since soon: minutes \(15m\), hours"),
        ("1h", "later", r"--until later: minutes"),
        ("2026-11-23", None, "--since 2026-11-23: that is still to come"),
        ("1h", "2h", "--until 2h: that is not after --since 1h"),
    ],
)
def test_what_cannot_be_meant_is_refused(since: str, until: str | None, why: str) -> None:
    with pytest.raises(PeriodError, match=why):
        parsed(since, until, NOW_MS)


def test_a_period_knows_its_days() -> None:
    """A period that ends at midnight does not have the day that begins then."""
    hour = Period(MIDNIGHT_MS - HOUR_MS, MIDNIGHT_MS)
    assert hour.first == hour.last == dt.date(2026, 11, 21)
    assert hour.days() == of_days(hour.first, hour.last)
    assert hour.wider() == of_days(dt.date(2026, 11, 20), dt.date(2026, 11, 22))
    assert str(hour) == "2026-11-21 23:00:00 to 2026-11-22 00:00:00"
    assert str(hour.days()) == "2026-11-21 to 2026-11-21"
