"""Says in sentences what a replay does not know, or cannot do as it was. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.swarm.planning.plan import CONSUMER_SESSION_MS
from bench.swarm.replay.casting import COOPERATIVE, EAGER, REBALANCE_MS
from bench.swarm.replay.past import EXPIRED, RETURNED, GroupPast, without_members
from bench.swarm.replay.software import is_known
from bench.swarm.replay.timeline import (
    SESSION_MS,
    guessed_session_ms,
    replayed_session_ms,
    session_ms,
    untold,
)
from bench.swarm.replay.told import Recording
from storage.history.report.words import plural

NAMED_MAX = 5


def words(recording: Recording, found: Sequence[GroupPast], late: int) -> Iterator[str]:
    """The general sentences first, then those about this recording."""
    yield "Records and their processing are in no history: members fetch nothing and are never slow."
    yield (
        "Heartbeat and rebalance timeouts are not recorded, and taken to be the defaults of each client: of"
        f" Kafka's own a heartbeat every 3 s; {REBALANCE_MS / 1e3:g} s for a rebalance."
    )
    yield "Subscriptions are not recorded: each member reads all topics that its group was given."
    yield "Commits are spread evenly over the recorded time."
    yield from _of_sessions(found)
    yield from _of_members(found, late)
    yield from _of_protocols(found)
    alone = without_members(recording)
    if alone:
        yield f"Left out, for no member of them is recorded: {_listed(alone)}."
    yield from recording.skipped


def _of_sessions(found: Sequence[GroupPast]) -> Iterator[str]:
    count = sum(len(untold(past)) for past in found)
    if count:
        yield (
            f"The session timeout of {plural(count, 'member')} is not recorded, and taken to be the default"
            f" of the client: of Kafka's own {SESSION_MS / 1e3:g} s."
        )
    shorter = [past for past in found if any(life.ending == EXPIRED for life in untold(past))]
    shorter = [past for past in shorter if guessed_session_ms(past) < SESSION_MS]
    for past in shorter[:NAMED_MAX]:
        yield (
            f"The session timeout of {past.group_id} is taken to be {guessed_session_ms(past) / 1e3:g} s: a"
            " member that had lived a second longer expired."
        )
    others = [past.group_id for past in found if _has_another_session(past)]
    if others:
        yield (
            f"The session timeout of {_listed(others)} was another than members have now: KIP-848's is taken"
            f" to be {CONSUMER_SESSION_MS / 1e3:g} s, a classic one is within Kafka's default bounds."
        )


def _has_another_session(past: GroupPast) -> bool:
    return any(session_ms(past, life) != replayed_session_ms(past, life) for life in past.lives)


def _of_members(found: Sequence[GroupPast], late: int) -> Iterator[str]:
    unnamed = sum(not life.is_named for past in found for life in past.lives)
    if unnamed:
        yield f"{plural(unnamed, 'member')} came before history begins, and start with the replay."
    if any(life.ending == RETURNED for past in found for life in past.lives):
        yield "When static members went that came back is not recorded: they are away for a second."
    others = sorted(
        {
            life.software
            for past in found
            for life in past.lives
            if life.software and not is_known(life.software)
        }
    )
    if others:
        yield f"Client software that is played as Kafka's Java client: {_listed(others)}."
    if late:
        yield f"{plural(late, 'member')} would have to crash before joining, and so expire later than then."


def _of_protocols(found: Sequence[GroupPast]) -> Iterator[str]:
    others = {
        past.assignor for past in found if not past.is_consumer and past.assignor not in (None, COOPERATIVE)
    }
    for name in sorted(str(other) for other in others - {EAGER[0]}):
        yield f"Classic groups that chose {name} use range, or, if only they read it, bytes of their own."
    untold = [past.group_id for past in found if not past.widths]
    if untold:
        yield (
            f"Which partitions they read is not recorded of {_listed(untold)}: each has a topic of its own"
            " with as many as were assigned."
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
