"""Commits that are known: what depends on the tier's metadata alone is decided once.

A member commits the same partitions again and again. Whether they exist, by which keys they are logged and
what the answer says if all is well is then the same as the last time, for as long as the image is the same.
So it is remembered, by whoever recognises the request as one that differs in offsets and leader epochs alone
(`OffsetCommitRequest.known`).

The law: nothing that a group, a member or an offset decides is remembered. Each time it is asked anew whether
the group takes the commit (`checks`), whether offsets go back (`tallies`), and, before any of this, whether
the group is here and not dying (`actors.coordinator.shard`). A result is the same as without this file, to
the byte of its records; what is not as expected is decided in full.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from actors.coordinator.ground.state import ShardState
from actors.coordinator.offsets import tallies as commit_tallies
from actors.coordinator.offsets.checks import check_commit
from actors.ground.contract import Key, Record, Reply, Request, Result, new_tuple
from actors.ground.image import MetadataImage
from actors.ground.records import NO_EXPIRY, OFFSET_COMMIT, OFFSET_ROWS, OffsetCommitValue, OffsetRowsValue
from actors.protocol.errors import GroupError
from actors.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from actors.protocol.offset_rows import CommittedRows


class DecidedBefore(NamedTuple):
    """What an image says of a commit."""

    image: MetadataImage
    topics: tuple[tuple[Key, bytes], ...]
    """The key of each topic's record, and the topic's id."""
    offsets: int
    """How many offsets are committed."""
    answer: OffsetCommitResponse
    """The answer if the group takes the commit."""


class Known:
    """What is remembered of commits that differ in offsets and leader epochs alone."""

    __slots__ = ("decided",)

    def __init__(self) -> None:
        self.decided: DecidedBefore | None = None
        """It is None as long as nothing is remembered."""


def again(state: ShardState, request: Request, now_ms: int) -> Result | None:
    """Decide a commit by what is remembered; None if that does not do. Raises GroupError if the group does
    not take it."""
    body: OffsetCommitRequest = request[5]
    decided: DecidedBefore | None = body[7].decided
    if decided is None or decided[0] is not state.image:
        return None
    if body[6] is None:
        check_commit(state, request, now_ms)
    else:
        try:
            check_commit(state, by_name(request, body, decided), now_ms)
        except GroupError:
            return None  # each partition has an error of its own
    return made(state, request, decided, now_ms)


def made(state: ShardState, request: Request, decided: DecidedBefore, now_ms: int) -> Result:
    """Return the result of a known commit that its group takes."""
    body: OffsetCommitRequest = request[5]
    records = []
    for (key, topic_id), (_, rows) in zip(decided[1], body[5], strict=True):
        value: Any
        if type(rows) is CommittedRows:
            value = new_tuple(OffsetRowsValue, (((rows.data, now_ms, NO_EXPIRY, topic_id),),))
        else:
            _, offset, leader_epoch, text = rows[0]
            value = new_tuple(OffsetCommitValue, (offset, leader_epoch, text, now_ms, NO_EXPIRY, topic_id))
        records.append(new_tuple(Record, (key, value)))
    state.offset_counts["commits"] += decided[2]
    back = commit_tallies.count(state, body, records, decided[2], now_ms)
    result: Result = new_tuple(
        Result, (records, (new_tuple(Reply, (request[0], decided[3], body[0])),), back, None)
    )
    return result


def by_name(request: Request, body: OffsetCommitRequest, decided: DecidedBefore) -> Request:
    """Return a request of version 10 with the names of its topics."""
    topics = tuple((key[2], rows) for (key, _), (_, rows) in zip(decided.topics, body.topics, strict=True))
    return request._replace(body=body._replace(topics=topics, topic_ids=None))


def remember(state: ShardState, request: Request, found: Result) -> None:
    """Remember what was decided in full, if the next one's records can be made from it: each topic has one
    record, of just what the request has."""
    body: OffsetCommitRequest = request.body
    body.known.decided = None
    if body.retention_time_ms != -1 or len(found.records) != len(body.topics) or len(found.replies) != 1:
        return
    topics = []
    value: Any
    for (key, value), (_, rows) in zip(found.records, body.topics, strict=True):
        if key[0] == OFFSET_ROWS and type(rows) is CommittedRows:
            if value[0][0][0] is not rows.data:
                return
            topic_id = value[0][0][3]
        elif key[0] == OFFSET_COMMIT and len(rows) == 1 and rows[0][3] == "":
            topic_id = value.topic_id
        else:
            return
        topics.append((key, topic_id))
    count = sum(len(rows) for _, rows in body.topics)
    body.known.decided = DecidedBefore(state.image, tuple(topics), count, found.replies[0].body)
