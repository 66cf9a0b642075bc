"""The seal: groups that are to go back to Kafka's brokers stay as they are, and nobody is served.

Brokers follow the log of this offsets partition as it is made of what is committed here. They may lead when
they have all of it, so it has to end: the seal is one record, and all that was decided before it stands
before it. From the decision on requests are refused with NOT_COORDINATOR, timers rest, and long work ends
where it is, except the deletion of groups that are dying: Kafka has no such thing.

The seal holds until brokers lead, and everything here is removed, or until it is taken back; whoever leads
next goes on with it. Then all is as after an election: every member has a full session.
"""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.slices import withheld
from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets.dying import tombstones
from actors.coordinator.take_over.taking import KEY, answered
from actors.ground.contract import Record, Request, Result
from actors.ground.records import SEALED, SERVED, TakenLogValue
from actors.protocol.errors import GroupError


def seal(state: ShardState, request: Request) -> Result:
    """Serve nobody any more, from this decision on. The answer says that it is committed; a repeated request
    is answered in the same way."""
    taken = _taken(state)
    if taken.phase == SEALED:
        return answered(request, taken)
    if state.is_closed:
        raise GroupError(ErrorCode.coordinator_load_in_progress, "its groups are not served yet")
    state.drop_volatile()
    return Result(work=_sealed(state, request, taken._replace(phase=SEALED)))


def _sealed(state: ShardState, request: Request, taken: TakenLogValue) -> Iterator[Result]:
    yield from tombstones(state)
    yield answered(request, taken)._replace(records=(Record(KEY, taken),))


def unseal(state: ShardState, request: Request, now_ms: int) -> Result:
    """Serve the groups again. The answer says that this is committed."""
    taken = _taken(state)
    if taken.phase == SERVED and not state.is_closed:
        return answered(request, taken)
    if taken.phase == SERVED:
        raise GroupError(ErrorCode.coordinator_load_in_progress, "its groups are being sealed, or served")
    return Result(work=_unsealed(state, request, taken._replace(phase=SERVED), now_ms))


def _unsealed(state: ShardState, request: Request, taken: TakenLogValue, now_ms: int) -> Iterator[Result]:
    yield Result((Record(KEY, taken),))
    yield from withheld(state.whole.elected(now_ms))
    yield answered(request, taken)


def _taken(state: ShardState) -> TakenLogValue:
    """Return what is known of Kafka's log if its groups are here. Raises GroupError if they are not."""
    taken = state.from_kafka.log
    if taken is None or taken.phase not in (SERVED, SEALED):
        text = "no groups of Kafka's are served here: there is nothing to give back"
        raise GroupError(ErrorCode.invalid_request, text)
    return taken
