"""Fetch whole batches: at once if there is enough, else when there is, else when the client's wait is over.

A request names all its partitions, or goes on with a session that remembers them (KIP-227, `fetch_sessions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.api.data import READ_COMMITTED, READ_UNCOMMITTED
from actors.api.fetch_answers import NO_RECORDS, Read, answer_entity
from actors.ground.topic_names import INTERNAL_TOPICS
from actors.protocol.followers import follower_of
from actors.protocol.header import Header
from actors.security.topic_checks import RestrictedFetch
from actors.topics.errors import LogError
from actors.topics.fetch_sessions import (
    FIRST_EPOCH,
    LAST_EPOCH,
    NO_SESSION,
    FetchSession,
    Followed,
    Topic,
    Wanted,
)
from actors.topics.leader_epochs import NO_LEADER_EPOCH, NO_OFFSET
from actors.topics.partition_log import PartitionLog
from actors.topics.waiting import PartitionKey

FETCH_BYTES_MAX = 55 * 1024 * 1024
"""The most bytes that one answer holds, save for its first batch: Kafka's `fetch.max.bytes`."""
TOPIC_IDS_SINCE = 13
"""The first version that has topic ids instead of names (KIP-516)."""
_NOT_READ = frozenset(
    {
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.topic_authorization_failed,
    }
)
"""The errors of partitions that are not even looked for in a log."""


def _may_read_all(name: str) -> bool:
    return True


class _Request(NamedTuple):
    """A Fetch request, and what its session made of it."""

    version: int
    entity: Any
    partitions: Sequence[Followed]
    session: FetchSession | None = None
    """The session that it goes on with."""
    epoch: int = LAST_EPOCH
    """The epoch that the session has until its next request comes."""
    begins_session: bool = False
    may_read: Callable[[str], bool] = _may_read_all
    """Returns whether the client may read the topic of this name."""


class _ReadAll(NamedTuple):
    reads: list[Read]
    """What each partition gives now, in the order of the request's partitions."""
    keys: list[PartitionKey]
    """The partitions that are worth waiting for."""
    size_bytes: int
    failed: bool


class _Room(NamedTuple):
    """What is left of the answer for the next partition."""

    bytes_left: int
    at_least_one: bool
    """Whether nothing was read yet: then the first batch is given whatever its size (KIP-74)."""


async def fetch(context: BrokerContext, header: Header, given: Any) -> Any:
    """Answer Fetch. `given` is the request's entity, or a RestrictedFetch of a client that may not read
    everything."""
    entity, may_read = given if isinstance(given, RestrictedFetch) else (given, _may_read_all)
    named = _named(context, header.api_version, entity)
    try:
        request = _opened(context, header.api_version, entity, named)._replace(may_read=may_read)
    except LogError as error:
        return _refused(context, header.api_version, (), error.error_code)
    if entity.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED) and any(
        _is_readable(context, request, each) for each in request.partitions
    ):
        session_id = getattr(entity, "session_id", NO_SESSION)  # which goes on
        return _refused(context, header.api_version, named, ErrorCode.unknown_server_error, session_id)
    loop = asyncio.get_running_loop()
    # A client that went away is noticed when its connection is idle for too long: no fetch waits longer.
    wait_s = min(entity.max_wait.total_seconds(), context.settings.connections_max_idle_ms / 1_000)
    deadline = loop.time() + wait_s
    await context.ready(
        (each.name, each.place[1])
        for each in request.partitions
        if each.name in INTERNAL_TOPICS and may_read(each.name)
    )
    bytes_max = min(entity.max_bytes, FETCH_BYTES_MAX)
    while True:
        read = _read_all(context, request, bytes_max)
        missing_bytes = min(entity.min_bytes, bytes_max) - read.size_bytes
        left_s = deadline - loop.time()
        if missing_bytes <= 0 or left_s <= 0 or read.failed or not read.keys:
            return _answered(context, request, read)
        await context.logs.waiters.wait(read.keys, missing_bytes, left_s)


def _is_readable(context: BrokerContext, request: _Request, followed: Followed) -> bool:
    """Whether a partition is there and may be read: only for such a one does the isolation level count."""
    if followed.name is None or not request.may_read(followed.name):
        return False
    try:
        context.known_topic(followed.name, followed.place[1])
    except LogError:
        return False
    return True


def _opened(context: BrokerContext, version: int, entity: Any, named: Sequence[Followed]) -> _Request:
    """Return the request with its partitions: those that it names, or those of its session. Raises LogError
    with an error of the whole request."""
    session_id = getattr(entity, "session_id", NO_SESSION)
    epoch = getattr(entity, "session_epoch", LAST_EPOCH)
    sessions = context.fetch_sessions
    if epoch in (FIRST_EPOCH, LAST_EPOCH):
        sessions.end(session_id)
        return _Request(version, entity, named, begins_session=epoch == FIRST_EPOCH)
    by_id = version >= TOPIC_IDS_SINCE
    session = sessions.go_on(session_id, epoch, by_id=by_id, now_ms=context.clock_ms())
    forgotten = (
        (_topic_of(version, topic), partition)
        for topic in entity.forgotten_topics_data
        for partition in topic.partitions
    )
    sessions.change(session, named, forgotten)
    if not session.partitions:
        return _Request(version, entity, named, None, session.epoch)  # what it names is answered all the same
    partitions = tuple(session.partitions.values())
    for each in partitions:
        if each.name is None:
            each.name = _name_of(context, each.place[0])
    return _Request(version, entity, partitions, session, session.epoch)


def _refused(
    context: BrokerContext,
    version: int,
    named: Sequence[Followed],
    error_code: ErrorCode,
    session_id: int = NO_SESSION,
) -> Any:
    """Return the answer that refuses a whole request, and in the versions of names each of its partitions."""
    reads = [] if version >= TOPIC_IDS_SINCE else [(each, Read(error_code, aborted=())) for each in named]
    return answer_entity(context, version, session_id, reads, error_code)


def _named(context: BrokerContext, version: int, entity: Any) -> Sequence[Followed]:
    """Return the partitions that a request names. Of one that it names twice the last counts."""
    named: dict[tuple[Topic, int], Followed] = {}
    for topic in entity.topics:
        told = _topic_of(version, topic)
        name = _name_of(context, told)
        for partition in topic.partitions:
            wanted = Wanted(
                partition.fetch_offset,
                partition.partition_max_bytes,
                getattr(partition, "current_leader_epoch", NO_LEADER_EPOCH),
                getattr(partition, "last_fetched_epoch", NO_LEADER_EPOCH),
            )
            place = (told, partition.partition)
            named[place] = Followed(place, name, wanted)
    return tuple(named.values())


def _topic_of(version: int, topic: Any) -> Topic:
    told: Topic = topic.topic_id if version >= TOPIC_IDS_SINCE else topic.topic
    return told


def _name_of(context: BrokerContext, topic: Topic) -> str | None:
    return topic if isinstance(topic, str) else context.topic_name(topic)


def _read_all(context: BrokerContext, request: _Request, bytes_max: int) -> _ReadAll:
    reads: list[Read] = []
    keys: list[PartitionKey] = []
    size_bytes, failed = 0, False
    for followed in request.partitions:
        room = _Room(bytes_max - size_bytes, at_least_one=size_bytes == 0)
        try:
            key, read = _read(context, request, followed, room)
            keys.append(key)
            failed = failed or read.diverging is not None
        except LogError as error:
            not_read = error.error_code in _NOT_READ
            read = Read(error.error_code, aborted=() if not_read else None, name=followed.name)
            failed = True
        size_bytes += len(read.records)
        reads.append(read)
    return _ReadAll(reads, keys, size_bytes, failed)


def _read(
    context: BrokerContext, request: _Request, followed: Followed, room: _Room
) -> tuple[PartitionKey, Read]:
    """Read what one partition gives now. Raises LogError."""
    name, (told, index), wanted = followed.name, followed.place, followed.wanted
    if name is None:
        raise LogError(ErrorCode.unknown_topic_id)
    if not request.may_read(name):
        raise LogError(ErrorCode.topic_authorization_failed)
    topic = context.known_topic(name, index)
    if not isinstance(told, str) and told is not None and topic.topic_id != told.bytes:
        # The session remembers the name of a topic that was deleted; another one has it now.
        raise LogError(ErrorCode.inconsistent_topic_id)
    # Any negative epoch is none to Fetch, unlike to ListOffsets.
    context.check_leader_epoch(topic, index, max(wanted.leader_epoch, NO_LEADER_EPOCH))
    context.topic_led_here(name, index)
    read = _read_log(context.log(topic, index), request.entity.isolation_level, wanted, room)
    broker = follower_of(request.version, request.entity)
    if broker is not None and read.diverging is None:
        context.internal_logs.fetched(name, index, broker, wanted.fetch_offset)
    return (topic.topic_id, index), read


def _read_log(log: PartitionLog, isolation_level: int, wanted: Wanted, room: _Room) -> Read:
    stable_offset = log.stable_offset
    offsets = (log.end_offset, stable_offset, log.log_start_offset)
    if wanted.last_fetched_epoch >= 0:
        epoch, end_offset = log.end_of_epoch(wanted.last_fetched_epoch)
        if end_offset == NO_OFFSET:
            raise LogError(ErrorCode.offset_out_of_range)
        if end_offset < wanted.fetch_offset:
            # The client has read on where this log has ended (KIP-595).
            return Read(ErrorCode.none, NO_RECORDS, *offsets, diverging=(epoch, end_offset))
    committed_only = isolation_level == READ_COMMITTED
    before_offset = stable_offset if committed_only else log.end_offset
    if wanted.bytes_max < 0 and log.log_start_offset <= wanted.fetch_offset < before_offset:
        raise LogError(ErrorCode.unknown_server_error)  # only where there is something to read (W34)
    records, next_offset = log.read_before(
        before_offset,
        wanted.fetch_offset,
        min(wanted.bytes_max, room.bytes_left),
        at_least_one=room.at_least_one,
    )
    aborted = log.transactions.aborted(wanted.fetch_offset, next_offset) if committed_only else None
    return Read(ErrorCode.none, records, *offsets, aborted=aborted)


def _answered(context: BrokerContext, request: _Request, read: _ReadAll) -> Any:
    """Return the answer, which of a session that goes on has only what is news."""
    pairs = list(zip(request.partitions, read.reads, strict=True))
    if request.session is not None:
        if request.session.epoch != request.epoch:
            return _refused(context, request.version, (), ErrorCode.invalid_fetch_session_epoch)
        news = request.session.news([(followed, each.told) for followed, each in pairs])
        told = [pairs[index] for index in news]
        return answer_entity(context, request.version, request.session.session_id, told)
    session_id = NO_SESSION
    if request.begins_session:
        session_id = context.fetch_sessions.begin(
            [(followed, each.told) for followed, each in pairs],
            by_id=request.version >= TOPIC_IDS_SINCE,
            now_ms=context.clock_ms(),
        )
    return answer_entity(context, request.version, session_id, pairs)
