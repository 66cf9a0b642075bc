"""Says when recorded events happen in a replay, and how long sessions lasted. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bench.swarm.planning.plan import CONSUMER_SESSION_MS
from bench.swarm.replay.past import EXPIRED, GroupPast, Life
from bench.swarm.replay.software import client_of
from storage.history.period import Period

SETTLE_S: Final = 10.0
"""How long the members take to start that were there already."""
CALM_S: Final = 20.0
"""The calm at the end, at most half of the recorded time: the judge needs it to see that all groups are
stable again."""
ALIVE_S: Final = 1.0
"""How long a member has to join before it may crash."""
SESSION_MS: Final = 45_000
"""The default of session.timeout.ms of Kafka's consumers."""
SESSION_MS_MIN: Final = 6_000
"""The default of Kafka's group.min.session.timeout.ms."""
SESSION_MS_MAX: Final = 1_800_000
"""The default of Kafka's group.max.session.timeout.ms."""
AT_DIGITS: Final = 3
"""The digits of a time in seconds: times are in milliseconds."""


class Timeline(NamedTuple):
    """The parts of a replay."""

    span: Period
    faster: float
    lead_s: float
    calm_s: float

    @property
    def length_s(self) -> float:
        """How long the recorded time lasts, played as fast as wished."""
        return (self.span.until_ms - self.span.since_ms) / 1_000 / self.faster

    @property
    def duration_s(self) -> float:
        return self.lead_s + self.length_s + self.calm_s

    def at_s(self, at_ms: int | None) -> float:
        """The place of a recorded moment in the plan; earlier ones are at its beginning."""
        since_ms = self.span.since_ms
        at_ms = since_ms if at_ms is None else max(at_ms, since_ms)
        return round(self.lead_s + (at_ms - since_ms) / 1_000 / self.faster, AT_DIGITS)


def timeline_of(span: Period, found: Sequence[GroupPast], faster: float) -> Timeline:
    """The parts of a replay. The lead is as long as the members need that were there already, longer if one
    of them was about to expire."""
    length_s = (span.until_ms - span.since_ms) / 1_000 / faster
    there = [(past, life) for past in found for life in past.lives if was_there(life, span)]
    leads_s = [SETTLE_S] if there else [0.0]
    for past, life in there:
        if life.ending == EXPIRED and life.ended_ms is not None:
            session_s = replayed_session_ms(past, life) / 1_000
            died_s = (life.ended_ms - span.since_ms) / 1_000 / faster - session_s
            leads_s.append(SETTLE_S - died_s)
    return Timeline(span, faster, round(max(leads_s), AT_DIGITS), min(CALM_S, length_s / 2))


def was_there(life: Life, span: Period) -> bool:
    """Whether a life began before the recorded time."""
    return life.began_ms is None or life.began_ms < span.since_ms


def session_ms(past: GroupPast, life: Life) -> int:
    """The session timeout that a member had, guessed where history does not tell it."""
    return guessed_session_ms(past) if life.session_timeout_ms is None else life.session_timeout_ms


def replayed_session_ms(past: GroupPast, life: Life) -> int:
    """The session timeout of whoever plays a member. The target is taken to have Kafka's defaults: these say
    how long a KIP-848 member's is, which does not choose it, and which ones a classic member may choose."""
    if past.is_consumer:
        return CONSUMER_SESSION_MS
    return min(max(SESSION_MS_MIN, session_ms(past, life)), SESSION_MS_MAX)


def guessed_session_ms(past: GroupPast) -> int:
    """The session timeout of those members of a group of which history does not tell it: it was shorter than
    any of their lives that it ended; else it is the default of their clients."""
    if past.is_consumer:
        return CONSUMER_SESSION_MS
    lives = untold(past)
    of_clients = {client_of(life.software, is_consumer=False).session_timeout_ms for life in lives}
    return max(SESSION_MS_MIN, min((max(of_clients, default=SESSION_MS), *_lived_ms(lives))))


def untold(past: GroupPast) -> list[Life]:
    """The lives of which history does not tell the session timeout."""
    return [life for life in past.lives if life.session_timeout_ms is None]


def _lived_ms(lives: Iterable[Life]) -> Iterable[int]:
    for life in lives:
        if life.ending == EXPIRED and life.began_ms is not None and life.ended_ms is not None:
            yield life.ended_ms - life.began_ms - round(ALIVE_S * 1_000)
