"""What clients of a group coordinator asked, and what became of it: the rows of a run's history.

The clients write them down themselves, so that a judge needs no word of the server's. Times are microseconds
of one monotonic clock; those of two machines may differ (see `judge.findings.Limits`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

VERSION: Final = 2
"""Version of the rows' fields. It is raised when one is added, which goes to the end: in rows of older
files the last ones have their defaults."""

ANSWERED: Final = "answered"
CLOSED: Final = "closed"
"""The connection ended before the answer came."""
TIMED_OUT: Final = "timed_out"
"""Neither an answer nor an end of the connection within the time-out."""
OPEN: Final = "open"
"""The answer was still waited for when the history ended."""
OUTCOMES: Final = frozenset({ANSWERED, CLOSED, TIMED_OUT, OPEN})

CONNECT: Final = "Connect"
"""The API of a call that is no request: a connection was opened, with ApiVersions and SASL, or was not."""
FIND_COORDINATOR: Final = "FindCoordinator"
PRODUCE: Final = "Produce"
"""A request whose offsets are those behind the records that it wrote; -1: it is not known."""
FETCH: Final = "Fetch"
"""A request whose offsets are those behind the records that came."""

READER: Final = "final reader"
"""The client that reads what was committed when the members' record has ended: no part of the load."""

OF_CLIENTS: Final = frozenset({"sleep"})
"""Kinds of faults that are the clients' own: nothing was done to the server or to the way there."""

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"

NEVER: Final = -1
"""Time of what did not happen; epoch, generation, offset and correlation id that are not known."""

Partitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics with their partitions, both in rising order."""


class Offset(NamedTuple):
    """The offset of one partition that an OffsetCommit sent or an OffsetFetch found."""

    topic: str
    partition: int
    offset: int
    """The offset; -1 stands for a partition without a committed offset."""
    error_code: int = 0


class Call(NamedTuple):
    """One request as sent once. Sent again it is another. An attempt to connect is one as well (CONNECT), and
    so is a request for which there was no connection: its `connection` is empty."""

    client: str
    """One life of one consumer: a restarted one is another client."""
    connection: str
    api: str
    """Kafka's name, as "OffsetCommit"."""
    sent_us: int
    ended_us: int = NEVER
    """When the call was answered or given up."""
    outcome: str = OPEN
    error_code: int = 0
    """The answer's own; of an API that has none, the first of its parts'."""
    version: int = 0
    correlation_id: int = NEVER
    answer_correlation_id: int = NEVER
    timeout_ms: int = 30_000
    """How long the client waits."""
    group_id: str = ""
    protocol: str = CLASSIC
    member_id: str = ""
    """The member id that was sent: empty in the first join of a classic member."""
    group_instance_id: str | None = None
    epoch: int = NEVER
    """The generation or member epoch that the request named."""
    told_epoch: int = NEVER
    """The generation or member epoch that the answer told."""
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    subscribed: tuple[str, ...] = ()
    """Topics."""
    owned: Partitions | None = None
    """What a ConsumerGroupHeartbeat says it owns (TopicPartitions), or the subscription of a cooperative
    member's JoinGroup; None if the request says nothing, as an eager member's."""
    assigned: Partitions | None = None
    """What the answer of a ConsumerGroupHeartbeat or SyncGroup assigns; None if it says nothing."""
    offsets: tuple[Offset, ...] = ()
    detail: str = ""
    """Why a connection failed, or a request that had none."""

    @property
    def was_sent(self) -> bool:
        """Whether this is a request that left the client."""
        return bool(self.connection) and self.api != CONNECT

    @property
    def is_answered(self) -> bool:
        return self.outcome == ANSWERED

    @property
    def is_fine(self) -> bool:
        """Answered without an error."""
        return self.outcome == ANSWERED and self.error_code == 0


class Gone(NamedTuple):
    """A client ended without leaving its group: it crashed, or the run did."""

    client: str
    at_us: int


class Fault(NamedTuple):
    """Something that was done to the server or to the way there. It may be written when it begins, with the
    end that it should have, and again when it has ended: the later row counts."""

    kind: str
    target: str
    began_us: int
    ended_us: int
    """When the fault was undone; if there was nothing to undo, its beginning."""
    silences: bool = False
    """While it lasts connections may stay open without an answer: a frozen process, a black hole."""
    detail: str = ""


class Topic(NamedTuple):
    """How many partitions a topic had from then on; none: it is gone, as was found then."""

    topic: str
    partitions: int
    at_us: int


class End(NamedTuple):
    """The last row of a file."""

    at_us: int
    """NEVER in files that say nothing of the history's end, as the reader's."""
    is_clean: bool
    """Whether every call that was sent has been written down."""


Row = Call | Gone | Fault | Topic | End


class History(NamedTuple):
    """Everything that is known of a run."""

    calls: tuple[Call, ...]
    """Calls in the order of their sending."""
    gone: tuple[Gone, ...]
    faults: tuple[Fault, ...]
    topics: tuple[Topic, ...]
    """Topics in the order of time."""
    ended_us: int
    is_whole: bool
    """False if a writer died: then calls may have been sent that nobody wrote down."""


def history_of(rows: list[Row], *, is_whole: bool = True) -> History:
    """Sort rows of any number of files into a history. Without an End it ends with its last call."""
    calls = sorted((row for row in rows if isinstance(row, Call)), key=lambda call: call.sent_us)
    ends = [row for row in rows if isinstance(row, End)]
    last_us = (max(call.sent_us, call.ended_us) for call in calls if call.client != READER)
    told_us = (end.at_us for end in ends if end.at_us != NEVER)
    return History(
        calls=tuple(calls),
        gone=tuple(row for row in rows if isinstance(row, Gone)),
        faults=tuple({row[:3]: row for row in rows if isinstance(row, Fault)}.values()),
        topics=tuple(sorted((row for row in rows if isinstance(row, Topic)), key=lambda row: row.at_us)),
        ended_us=max(told_us, default=max(last_us, default=0)),
        is_whole=is_whole and all(end.is_clean for end in ends),
    )
