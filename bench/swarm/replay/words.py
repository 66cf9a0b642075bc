"""Says in sentences what a replay does not know, or cannot do as it was. PURE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.swarm.replay.casting import COOPERATIVE, EAGER, REBALANCE_MS
from bench.swarm.replay.past import EXPIRED, RETURNED, GroupPast, without_members
from bench.swarm.replay.software import is_known
from bench.swarm.replay.timeline import SESSION_MS, session_ms
from bench.swarm.replay.told import Recording
from storage.history.report.words import plural

NAMED_MAX = 5


def words(recording: Recording, found: Sequence[GroupPast], late: int) -> Iterator[str]:
    """The general sentences first, then those about this recording."""
    yield "Records and their processing are in no history: members fetch nothing and are never slow."
    yield (
        "Timeouts are not recorded, and taken to be the defaults of each client: of Kafka's own 45 s for a"
        f" session and a heartbeat every 3 s; {REBALANCE_MS / 1e3:g} s for a rebalance."
    )
    yield "Subscriptions are not recorded: each member reads all topics that its group was given."
    yield "Commits are spread evenly over the recorded time."
    shorter = [past for past in found if any(life.ending == EXPIRED for life in past.lives)]
    shorter = [past for past in shorter if session_ms(past) < SESSION_MS]
    for past in shorter[:NAMED_MAX]:
        yield (
            f"The session timeout of {past.group_id} is taken to be {session_ms(past) / 1e3:g} s: a member"
            " that had lived a second longer expired."
        )
    yield from _of_members(found, late)
    yield from _of_protocols(found)
    alone = without_members(recording)
    if alone:
        yield f"Left out, for no member of them is recorded: {_listed(alone)}."
    yield from recording.skipped


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
