"""Stretches of time as one types them: 15m, 1h, 7d, a date, a moment; all in UTC. Pure: told the time."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final, NamedTuple

DAY_MS: Final = 86_400_000
_BACK: Final = re.compile(r"(\d{1,5})([mhdw])")
_EXACT_MS: Final = {"m": 60_000, "h": 3_600_000}
"""Units of a time before now that is taken to the millisecond."""
_DAYS: Final = {"d": 1, "w": 7}
"""Units of a time in whole days, of which today is the last."""
EXPECTED: Final = (
    "minutes (15m), hours (1h), days (7d), weeks (4w), a date (2026-03-02) or a time (2026-03-02T12:30)"
)


class PeriodError(ValueError):
    """A period that cannot be meant; says what is expected."""


class Period(NamedTuple):
    """A span of time from one moment to another, the last one excluded."""

    since_ms: int
    until_ms: int

    @property
    def first(self) -> dt.date:
        """The day of UTC on which it begins."""
        return _moment(self.since_ms).date()

    @property
    def last(self) -> dt.date:
        """The last day that it touches."""
        return _moment(max(self.since_ms, self.until_ms - 1)).date()

    @property
    def is_whole_days(self) -> bool:
        return self.since_ms % DAY_MS == self.until_ms % DAY_MS == 0

    def days(self) -> Period:
        """The whole days that it touches."""
        return of_days(self.first, self.last)

    def wider(self) -> Period:
        """The period's days, the day before and the day after: what began before or ends after is seen
        whole."""
        day = dt.timedelta(days=1)
        return of_days(self.first - day, self.last + day)

    def __str__(self) -> str:
        if self.is_whole_days:
            return f"{self.first} to {self.last}"
        return " to ".join(f"{_moment(at_ms):%Y-%m-%d %H:%M:%S}" for at_ms in self)


def of_days(first: dt.date, last: dt.date) -> Period:
    """Whole days of UTC, the last included."""
    return Period(_midnight_ms(first), _midnight_ms(last) + DAY_MS)


def parsed(since: str, until: str | None, now_ms: int) -> Period:
    """What `--since` and `--until` say. Without an end it goes on to now, or, where it begins with a day, to
    the end of today. Raises PeriodError."""
    since_ms = _at_ms("--since", since, now_ms)
    if since_ms > now_ms:
        raise PeriodError(f"--since {since}: that is still to come")
    if until is not None:
        until_ms = _at_ms("--until", until, now_ms) + (DAY_MS if _is_date(until) else 0)  # the day included
    elif since_ms % DAY_MS == 0:
        until_ms = now_ms - now_ms % DAY_MS + DAY_MS
    else:
        until_ms = now_ms
    if until_ms <= since_ms:
        raise PeriodError(f"--until {until}: that is not after --since {since}")
    return Period(since_ms, until_ms)


def _at_ms(option: str, text: str, now_ms: int) -> int:
    back = _BACK.fullmatch(text)
    if back is not None and back[2] in _DAYS:
        today_ms = now_ms - now_ms % DAY_MS
        return today_ms - (int(back[1]) * _DAYS[back[2]] - 1) * DAY_MS
    if back is not None:
        return now_ms - int(back[1]) * _EXACT_MS[back[2]]
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise PeriodError(f"{option} {text}: {EXPECTED} is expected") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1_000)


def _is_date(text: str) -> bool:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _moment(at_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(at_ms / 1_000, dt.UTC)


def _midnight_ms(date: dt.date) -> int:
    return int(dt.datetime.combine(date, dt.time(), dt.UTC).timestamp() * 1_000)
