"""What a kind of group says of heartbeats whose answers may wait for news (`actors.leader.held_heartbeats`).

A member is settled if the same heartbeat, decided again, would be answered by nothing new: it is where its
group is, and owes the group nothing. A newcomer counts as settled while others hold all that is to be its
own: its first answer, that it has nothing, may wait for them.

What may unsettle a member are records and events of its group, a new metadata image, and the two things that
only time shows: the end of the assignment interval (`Stamp.is_assigning`) and partitions that others let go
(`Settled.waits`).
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, Protocol

from actors.coordinator.ground.state import ShardState
from actors.ground.contract import Request
from actors.ground.records import TopicPartitions

HOLD_SHARE: Final = 0.8
"""Which part of the time until a client's next heartbeat its answer may be held."""
SPACING_SHARES: Final = (0.95, 1.2)
"""How far, by its share, the spacing of heartbeats may be off the last one for holds to repeat."""
ANY_SPACING_MS: Final = 2**40
"""More time than there is between any two heartbeats."""


class Settled(NamedTuple):
    """What is to be known of a settled member."""

    session_timeout_ms: int
    waits: bool
    """Whether the member waits for partitions that other members hold."""


class Stamp(NamedTuple):
    """Where a group is: while it is the same, only a record or an event of its own unsettles a member."""

    position: tuple[Any, ...]
    is_assigning: bool
    """The next target is due when the assignment interval is over; nothing but the time will say so."""


class Beats(NamedTuple):
    """What is known of the heartbeats that came on one connection."""

    told_ms: int
    """The interval that the member was last told; 0: not known."""
    spacing_ms: int
    """The time between the last two heartbeats; 0: not known."""
    spacing_ms_min: int
    """Members whose heartbeats are closer together are not held, where the spacing is what counts."""


class Terms(NamedTuple):
    """How the next answers to a heartbeat may be given without a decision."""

    hold_ms: int
    """How long they are held; 0: not at all."""
    spacing_ms_min: int
    spacing_ms_max: int
    """How long after the one before a heartbeat comes of which that is true."""


AT_ONCE: Final = Terms(0, 0, 0)


class HeldApi(NamedTuple):
    """How the answers of one heartbeat API are held."""

    settled: Callable[[ShardState, Request, TopicPartitions | None, int], Settled | None]
    """(state, heartbeat, what the member last said that it owns, now_ms); None: the member is not settled."""
    owned: Callable[[Request], TopicPartitions | None]
    """What the heartbeat says that its member owns; None if it does not say."""
    says_nothing: Callable[[Request, Any, Beats], bool]
    """(heartbeat, response, beats): whether the member hears nothing new by the response."""
    hold_ms: Callable[[Request, Settled, Beats], int]
    """How long the answer may be held; 0: not at all."""
    session_key: Callable[[Request], Hashable]
    """The key of the timer that ends the session of the heartbeat's member."""
    repeats: Callable[[ShardState, Request, int], int | None]
    """(state, heartbeat, now_ms): the session timeout in ms of its member, if the same heartbeat will get the
    same answer for as long as no request, record, event or timer concerns its group; None if it may not."""


class Heard(Protocol):
    """What has heard members whose heartbeats no handler saw (`actors.leader.lane.memory`)."""

    def ends_ms(self, key: tuple[Any, ...]) -> int | None:
        """Return when the session ends whose timer has this key; None if its member was not heard."""

    def fired(self, key: tuple[Any, ...]) -> None:
        """Learn that a timer is carried out now."""

    def tell(self, group_id: str) -> None:
        """Bring the session timers of a group up to date."""


class Lane(Protocol):
    """What holds answers in the place of `actors.leader.held_heartbeats`, whose `Holding` is what is known of
    a connection: `actors.leader.lane.sockets`."""

    def submitted(self, holding: Any, group_id: str, session_key: Hashable) -> None:
        """Learn that a heartbeat is decided that came on this connection, of the member whose session's timer
        has this key; give back what is held of them."""

    def ended(self, holding: Any, request: Request, terms: Terms, response: Any) -> None:
        """Learn that the hold of a heartbeat ends with this answer, and on which terms the next are held."""


def terms(api: HeldApi, request: Request, found: Settled, beats: Beats) -> Terms | None:
    """Return on which terms the next of a settled member's heartbeats may be held; None if they may not be
    without a decision."""

    def hold_ms(spacing_ms: int) -> int:
        return api.hold_ms(request, found, beats._replace(spacing_ms=spacing_ms))

    least_ms, most_ms = (int(beats.spacing_ms * share) for share in SPACING_SHARES)
    held_ms = min(hold_ms(least_ms), hold_ms(most_ms))
    if hold_ms(0) == held_ms == hold_ms(ANY_SPACING_MS):
        least_ms, most_ms = 0, ANY_SPACING_MS
    return Terms(held_ms, least_ms, most_ms) if held_ms > 0 and not found.waits else None


def hold_ms_max(session_timeout_ms: int, interval_ms: int) -> int:
    """How long a member may be held whose client waits `interval_ms` before it speaks again. The session runs
    during the hold, and some clients count from the answer: half of what the interval leaves of the session
    is still there when they speak."""
    return max((session_timeout_ms - interval_ms) // 2, 0)
