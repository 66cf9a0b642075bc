"""Lies about service: it ends, and whoever only looks at what was answered sees nothing wrong. PURE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from actors.protocol.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from tests.lies.answers import not_found, refused
from tests.lies.exchange import GROUP_REQUESTS, HANG_UP, SILENCE, Asked, Doing, Pass, Tell
from tests.lies.lie import BROKEN, EXPIRED, NOT_SHOWN, Expected, Lie

MEMBERSHIP = frozenset({JOIN_GROUP, SYNC_GROUP, HEARTBEAT, CONSUMER_GROUP_HEARTBEAT})
NOBODY_LISTENS = 9
"""A port on which nobody listens (that of the discard protocol)."""


class ServerDies(Lie):
    """All connections end, and all ports refuse from then on: the server is dead and never comes back."""

    expected = Expected("service", BROKEN, "without service at the end", EXPIRED)
    cuts = True
    refuses = True


class RefusesNewcomers(Lie):
    """Nobody can connect any more; whoever is connected is served as before."""

    expected = Expected("commits", NOT_SHOWN, "")
    refuses = True


class HangsUpOnEverybody(Lie):
    """Every connection ends with the first request of a group that comes on it."""

    expected = Expected("service", BROKEN, "without service at the end", EXPIRED)

    def does(self, asked: Asked) -> Doing:
        return HANG_UP


class BlackHole(Lie):
    """No request of a group is answered any more; connections stay open."""

    expected = Expected("service", BROKEN, "without service at the end", EXPIRED)

    def does(self, asked: Asked) -> Doing:
        return SILENCE


class OutageUnderChurn(Lie):
    """Every Join, Sync and Heartbeat in a rolling deploy is answered COORDINATOR_NOT_AVAILABLE."""

    expected = Expected("service", BROKEN, "without service at the end", EXPIRED)
    stage = "deploy"
    about = MEMBERSHIP

    def does(self, asked: Asked) -> Doing:
        return Tell(refused(asked, ErrorCode.coordinator_not_available))


class NoCoordinatorIsFound(Lie):
    """Connections are cut once, and every FindCoordinator is answered COORDINATOR_NOT_AVAILABLE."""

    expected = Expected("service", BROKEN, "without service at the end", EXPIRED)
    about = frozenset({FIND_COORDINATOR})
    cuts = True

    def does(self, asked: Asked) -> Doing:
        return Tell(not_found(asked, ErrorCode.coordinator_not_available))


class NamesADeadNode(Lie):
    """Connections are cut once, and every FindCoordinator names a port on which nobody listens."""

    expected = Expected("service", BROKEN, "without service at the end", EXPIRED)
    about = frozenset({FIND_COORDINATOR})
    cuts = True

    def tells(self, asked: Asked, answer: Any) -> Any:
        return replace(answer, port=NOBODY_LISTENS)


class NamesTheWrongNode(Lie):
    """Whatever node FindCoordinator names answers NOT_COORDINATOR, for ever."""

    expected = Expected("service", BROKEN, "without service at the end", EXPIRED)

    def does(self, asked: Asked) -> Doing:
        return Tell(refused(asked, ErrorCode.not_coordinator))


class LoadsForEver(Lie):
    """One group is told COORDINATOR_LOAD_IN_PROGRESS for ever; the others are served."""

    expected = Expected("service", BROKEN, "without service at the end", EXPIRED)
    group = "range"

    def does(self, asked: Asked) -> Doing:
        if asked.api_key == HEARTBEAT:  # refusing one so would be said as fine (W4)
            return Tell(refused(asked, ErrorCode.coordinator_not_available))
        return Tell(refused(asked, ErrorCode.coordinator_load_in_progress))


class RebalancesForEver(Lie):
    """Every Heartbeat and Sync of classic groups is answered REBALANCE_IN_PROGRESS: they are never stable."""

    expected = Expected("recovery", BROKEN, "not stable again")
    about = frozenset({HEARTBEAT, SYNC_GROUP})

    def tells(self, asked: Asked, answer: Any) -> Any:
        return replace(answer, error_code=ErrorCode.rebalance_in_progress)


class JoinsForEver(Lie):
    """No Join of a classic group is answered any more, in a rolling deploy."""

    expected = Expected("service", NOT_SHOWN, "requests that were due")
    stage = "long-deploy"
    about = frozenset({JOIN_GROUP})

    def does(self, asked: Asked) -> Doing:
        return SILENCE


class AnswersAQuarter(Lie):
    """Three of four requests of groups end their connection instead of being answered; offsets are shown."""

    expected = Expected("service", NOT_SHOWN, "without service when the history ended", EXPIRED)
    about = frozenset(GROUP_REQUESTS) - {OFFSET_FETCH}

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def does(self, asked: Asked) -> Doing:
        self._count += 1
        return HANG_UP if self._count % 4 else Pass(asked.frame)


class RefusesCommits(Lie):
    """Every commit is answered COORDINATOR_NOT_AVAILABLE; heartbeats are served."""

    expected = Expected("service", BROKEN, "without service at the end")
    about = frozenset({OFFSET_COMMIT})

    def does(self, asked: Asked) -> Doing:
        return Tell(refused(asked, ErrorCode.coordinator_not_available))


class SwallowsOneInThree(Lie):
    """Every third request of a group is never answered; its connection stays open."""

    expected = Expected("answers", BROKEN, "never answered", EXPIRED)
    stage = "long"
    about = frozenset(GROUP_REQUESTS)

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def does(self, asked: Asked) -> Doing:
        self._count += 1
        return Pass(asked.frame) if self._count % 3 else SILENCE


class AnswersTooLate(Lie):
    """Every answer to a group comes 33 s late: later than clients wait."""

    expected = Expected("answers", BROKEN, "never answered", EXPIRED)
    stage = "long"

    def delay_s(self, asked: Asked) -> float:
        return 33.0
