"""Fetches that are known: an answer is given again as long as the offsets in it are the same ones.

Who looks at a group's offsets asks for the same ones again and again, and most of the time none has moved.
So the last answer is remembered, with what it was made of, by whoever recognises the request as the same one
(`OffsetFetchRequest.known`).

The law: who may fetch is asked anew each time, whether a transaction is open too, and, before any of this,
whether the group is here and not dying (`actors.coordinator.shard`). An answer is given again only under the
image that it was made under, and only if the rows that are kept of its topics are those that it was made of.
An answer is the same as without this file.
"""

from __future__ import annotations

from typing import Any

from actors.coordinator.ground.group_offsets import NO_OFFSETS
from actors.coordinator.ground.state import ShardState
from actors.ground.image import MetadataImage
from actors.protocol.messages import OffsetFetchGroup, OffsetFetchRequest, OffsetFetchResponse


class KnownAnswer:
    """What is remembered of fetches that are the same: an answer, and what it was made of."""

    __slots__ = ("answer", "image", "rows", "topics")

    def __init__(self) -> None:
        self.image: MetadataImage | None = None
        """It is None as long as nothing is remembered."""
        self.topics: tuple[str, ...] = ()
        """The names of the topics that are asked for."""
        self.rows: Any = None
        """What was kept of them: `GroupOffsets.rows_of`."""
        self.answer: OffsetFetchResponse | None = None


def again(state: ShardState, body: OffsetFetchRequest) -> OffsetFetchResponse | None:
    """Return the answer that was given before, if it is still right for whoever may fetch; else None."""
    known: KnownAnswer = body[2]
    if known.image is not state.image:
        return None
    group_id = body[0][0][0]
    if body[1] and group_id in state.pending_offsets:
        return None
    rows = state.offsets.get(group_id, NO_OFFSETS).rows_of(known.topics)
    return known.answer if rows is not None and rows == known.rows else None


def remember(state: ShardState, body: OffsetFetchRequest, answer: OffsetFetchResponse) -> None:
    """Remember an answer that was made in full, unless it says more than the rows that are kept."""
    known: KnownAnswer = body.known
    known.image = known.answer = None
    if len(body.groups) != 1 or answer.groups[0].error_code:
        return
    (group,) = body.groups
    topics = _names(state.image, group)
    if topics is None or (body.require_stable and group.group_id in state.pending_offsets):
        return
    rows = state.offsets.get(group.group_id, NO_OFFSETS).rows_of(topics)
    if rows is not None:
        known.image, known.topics, known.rows, known.answer = state.image, topics, rows, answer


def _names(image: MetadataImage, group: OffsetFetchGroup) -> tuple[str, ...] | None:
    """Return the names of the topics that are asked for; None if it is every topic, or one has no name."""
    if group.topics is None:
        return None
    if group.topic_ids is None:
        return tuple(topic for topic, _ in group.topics)
    found = [image.topics_by_id.get(topic_id) for topic_id in group.topic_ids]
    return None if None in found else tuple(topic.name for topic in found if topic is not None)
