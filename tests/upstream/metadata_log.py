"""The followed image of a real cluster, as stories about leaders look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.upstream.controllers import Address, Connect
from actors.upstream.following import Follower
from actors.upstream.image import NO_OFFSET, Broker, Partition


class Image(NamedTuple):
    """Everything at one offset."""

    metadata_offset: int
    topic_names: Mapping[bytes, str]
    partitions: Mapping[tuple[bytes, int], Partition]
    brokers: Mapping[int, Broker]


NOTHING = Image(NO_OFFSET, {}, {}, {})


class MetadataLog:
    """Follows the log, and has what was read."""

    def __init__(self, connect: Connect, controllers: Sequence[Address]) -> None:
        self._follower = Follower(connect, controllers)
        self.follow = self._follower.run
        self.changed = self._follower.changed

    @property
    def metadata_offset(self) -> int:
        """The last offset that was read."""
        followed = self._follower.image
        return NO_OFFSET if followed is None else followed.offset

    def image(self) -> Image:
        """Return what is known now, which later records do not change."""
        followed = self._follower.image
        if followed is None:
            return NOTHING
        return Image(
            followed.offset,
            {topic_id: topic.name for topic_id, topic in followed.topics.items()},
            {
                (topic_id, index): partition
                for topic_id, topic in followed.topics.items()
                for index, partition in topic.partitions.items()
            },
            dict(followed.brokers),
        )
