"""Decides which fake consumers play the members of a recorded group, and what they do when.

PURE. A fake consumer plays one life after the other of the same client, so that a restarted client is
restarted in the replay, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bench.member.assigning import CLASSIC_COOPERATIVE, CLASSIC_OPAQUE, CLASSIC_RANGE
from bench.swarm.planning.plan import CONSUMER, CRASH, LEAVE, START, Action, MemberPlan
from bench.swarm.replay.commits import interval_ms, partitions_each
from bench.swarm.replay.past import EXPIRED, RETURNED, GroupPast, Life
from bench.swarm.replay.software import client_of
from bench.swarm.replay.timeline import (
    ALIVE_S,
    AT_DIGITS,
    Timeline,
    guessed_session_ms,
    replayed_session_ms,
    was_there,
)

SPREAD_S: Final = 3.0
"""Over how long the members start that were there already."""
LATE_S: Final = 1.0
"""The lateness below which nothing is told."""
AWAY_S: Final = 1.0
"""How long a static member that came back is taken to have been away."""
REBALANCE_MS: Final = 300_000
"""The default of max.poll.interval.ms of Kafka's consumers."""
EAGER: Final = ("range", "roundrobin", "sticky")
"""The protocols whose members give all partitions up; all are played as range."""
COOPERATIVE: Final = "cooperative-sticky"


class Played(NamedTuple):
    """A group of the replay."""

    members: tuple[MemberPlan, ...]
    actions: tuple[Action, ...]
    """The actions of each member in its order."""
    late: int
    """How many crashes are noticed later than the recorded ones, because the session ends later."""


class _Part(NamedTuple):
    """The part of one fake consumer."""

    key: str
    lives: list[Life]


def played(name: str, past: GroupPast, topics: tuple[str, ...], timeline: Timeline) -> Played:
    """Make the group that plays a recorded one, under a name of the replay."""
    parts = _parts(past)
    model = MemberPlan(
        name=name,
        group_id=name,
        protocol=protocol(past),
        topics=topics,
        session_timeout_ms=guessed_session_ms(past),
        rebalance_timeout_ms=REBALANCE_MS,
        commit_interval_ms=interval_ms(past, timeline),
        commit_partitions_max=partitions_each(past, timeline),
    )
    members = tuple(_member(model, place, part.lives[0], past) for place, part in enumerate(parts))
    actions: list[Action] = []
    late = 0
    for place, (member, part) in enumerate(zip(members, parts, strict=True)):
        come_s = round(SPREAD_S * place / len(parts), AT_DIGITS)
        for life in part.lives:
            told, is_late = _acts(member, life, come_s, timeline)
            actions += told
            late += is_late
    return Played(members, tuple(actions), late)


def _member(model: MemberPlan, place: int, life: Life, past: GroupPast) -> MemberPlan:
    client = client_of(life.software, is_consumer=past.is_consumer)
    return model._replace(
        name=f"{model.group_id}/{place}",
        instance_id=life.instance_id,
        session_timeout_ms=replayed_session_ms(past, life),
        heartbeat_interval_ms=client.heartbeat_interval_ms,
        client=client.name,
    )


def protocol(past: GroupPast) -> str:
    """The protocol by a plan's name for it."""
    if past.is_consumer:
        return CONSUMER
    if past.assignor == COOPERATIVE:
        return CLASSIC_COOPERATIVE
    is_known = past.assignor is None or past.assignor in EAGER
    return CLASSIC_RANGE if is_known or past.widths else CLASSIC_OPAQUE


def _parts(past: GroupPast) -> list[_Part]:
    parts: list[_Part] = []
    idle: dict[tuple[str, int], list[tuple[int, _Part]]] = {}
    """The parts that have nothing to play, by client and session timeout, with the time since when."""
    for life in past.lives:
        client = life.key, replayed_session_ms(past, life)
        free = [each for each in idle.get(client, ()) if each[0] <= (life.began_ms or 0)]
        if free:
            idle[client].remove(free[0])
            part = free[0][1]
            part.lives.append(life)
        else:
            part = _Part(life.key, [life])
            parts.append(part)
        if life.ended_ms is not None:
            idle.setdefault(client, []).append((life.ended_ms, part))
    return parts


def _acts(member: MemberPlan, life: Life, come_s: float, timeline: Timeline) -> tuple[list[Action], bool]:
    """The actions of one life, and whether its end is noticed later than the recorded one was."""
    began_s = come_s if was_there(life, timeline.span) else timeline.at_s(life.began_ms)
    start = Action(began_s, START, member.name)
    if life.ended_ms is None:
        return [start], False
    ended_s = max(began_s, timeline.at_s(life.ended_ms))
    if life.ending != EXPIRED:
        gone_s = max(began_s, ended_s - AWAY_S) if life.ending == RETURNED else ended_s
        return [start, Action(round(gone_s, AT_DIGITS), LEAVE, member.name)], False
    died_s = ended_s - member.session_timeout_ms / 1_000
    gone_s = min(max(died_s, began_s + ALIVE_S), ended_s)
    return [start, Action(round(gone_s, AT_DIGITS), CRASH, member.name)], gone_s > died_s + LATE_S
