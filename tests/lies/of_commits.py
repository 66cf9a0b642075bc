"""Lies about commits. PURE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from actors.protocol.api_keys import OFFSET_COMMIT, OFFSET_FETCH
from tests.lies.answers import FINE, Key, acknowledged, committed, fetched
from tests.lies.exchange import Asked, Doing, Pass, Tell, request_frame
from tests.lies.lie import BROKEN, NOT_SHOWN, REFUSED, WENT_BACK, Expected, Lie

FAR = 1_000_003
"""An offset that no swarm of some seconds reaches."""


class SwallowsCommits(Lie):
    """Every commit is acknowledged and thrown away."""

    expected = Expected("commits", BROKEN, "commit went back")
    about = frozenset({OFFSET_COMMIT})

    def does(self, asked: Asked) -> Doing:
        return Tell(acknowledged(asked))


class SwallowsFromTheBeginning(SwallowsCommits):
    """Every commit is acknowledged and thrown away, from the very first one."""

    expected = Expected("commits", BROKEN, "commit lost")
    from_s = 0.0


class SwallowsOneInTen(Lie):
    """Every tenth commit of each member in a rolling deploy is acknowledged and thrown away.

    One that is overwritten before anybody reads is nobody's loss, and cannot be seen.
    """

    expected = Expected("commits", BROKEN, "commit went back")
    stage = "deploy"
    about = frozenset({OFFSET_COMMIT})

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[str, str], int] = {}

    def does(self, asked: Asked) -> Doing:
        key = asked.group_id, asked.member
        count = self._counts[key] = self._counts.get(key, -1) + 1
        return Pass(asked.frame) if count % 10 else Tell(acknowledged(asked))


class SwallowsCommitsOfOneGroup(SwallowsCommits):
    """The commits of one group of three are acknowledged and thrown away."""

    group = "consumer"


class SwallowsOnePartition(Lie):
    """Partition 0 is left out of every commit, and acknowledged with the others."""

    expected = Expected("commits", BROKEN, "commit went back")
    about = frozenset({OFFSET_COMMIT})

    def does(self, asked: Asked) -> Doing:
        rest = tuple(
            replace(topic, partitions=tuple(row for row in topic.partitions if row.partition_index != 0))
            for topic in asked.request.topics
        )
        if rest == asked.request.topics:
            return Pass(asked.frame)
        if not any(topic.partitions for topic in rest):
            return Tell(acknowledged(asked))
        return Pass(request_frame(asked.header, replace(asked.request, topics=rest)))

    def tells(self, asked: Asked, answer: Any) -> Any:
        """Answer as if every offset had been stored."""
        row_class = type(answer.topics[0].partitions[0])
        asked_for = {topic.name: topic.partitions for topic in asked.request.topics}
        topics = [
            replace(
                topic,
                partitions=tuple(
                    row_class(partition_index=row.partition_index, error_code=FINE)
                    for row in asked_for[topic.name]
                ),
            )
            for topic in answer.topics
        ]
        whole = replace(answer, topics=tuple(topics))
        return answer if whole == answer else whole


class StoresAnotherOffset(Lie):
    """Every committed offset is stored a million too high."""

    expected = Expected("commits", BROKEN, "commit invented")
    about = frozenset({OFFSET_COMMIT})

    def does(self, asked: Asked) -> Doing:
        topics = tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(row, committed_offset=row.committed_offset + FAR) for row in topic.partitions
                ),
            )
            for topic in asked.request.topics
        )
        return Pass(request_frame(asked.header, replace(asked.request, topics=topics)))


class ReplaysOldCommits(Lie):
    """After every commit the same member's first one is stored again."""

    expected = Expected("commits", BROKEN, "commit went back", WENT_BACK)
    about = frozenset({OFFSET_COMMIT})

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[tuple[str, str], bytes] = {}

    def does(self, asked: Asked) -> Doing:
        first = self._first.setdefault((asked.group_id, asked.member), asked.frame)
        return Pass(asked.frame) if first is asked.frame else Pass(asked.frame, also=(first,))


class HidesRefusals(Lie):
    """Commits reach the server with an old generation; it refuses them, and they are acknowledged."""

    expected = Expected("commits", BROKEN, "commit went back", REFUSED)
    about = frozenset({OFFSET_COMMIT})

    def does(self, asked: Asked) -> Doing:
        epoch = asked.request.generation_id_or_member_epoch
        older = replace(asked.request, generation_id_or_member_epoch=epoch + 1_000)
        return Pass(request_frame(asked.header, older))

    def tells(self, asked: Asked, answer: Any) -> Any:
        topics = [
            replace(topic, partitions=tuple(replace(row, error_code=FINE) for row in topic.partitions))
            for topic in answer.topics
        ]
        return replace(answer, topics=tuple(topics))


class ShowsOlderOffsets(Lie):
    """Every OffsetFetch is answered with the first offset that was ever committed."""

    expected = Expected("commits", BROKEN, "commit went back", WENT_BACK)
    stage = "newcomer"
    about = frozenset({OFFSET_FETCH})

    def __init__(self) -> None:
        super().__init__()
        self._first: dict[Key, int] = {}

    def learns(self, asked: Asked, answer: Any) -> None:
        if asked.api_key == OFFSET_COMMIT:
            for key, offset in committed(asked):
                self._first.setdefault(key, offset)

    def tells(self, asked: Asked, answer: Any) -> Any:
        return fetched(answer, lambda key, offset: self._first.get(key, offset))


class InventsOffsets(Lie):
    """Every OffsetFetch is answered with an offset that nobody ever committed."""

    expected = Expected("commits", BROKEN, "commit invented")
    stage = "newcomer"
    about = frozenset({OFFSET_FETCH})

    def tells(self, asked: Asked, answer: Any) -> Any:
        return fetched(answer, lambda key, offset: offset + FAR)


class ForgetsCommits(Lie):
    """Every OffsetFetch says that nothing was ever committed."""

    expected = Expected("commits", BROKEN, "commit lost", WENT_BACK)
    stage = "newcomer"
    about = frozenset({OFFSET_FETCH})

    def tells(self, asked: Asked, answer: Any) -> Any:
        return fetched(answer, lambda key, offset: -1)


class RefusesToShow(Lie):
    """Every OffsetFetch is answered UNSTABLE_OFFSET_COMMIT: nobody can read what is committed."""

    expected = Expected("commits", NOT_SHOWN, "")
    stage = "newcomer"
    about = frozenset({OFFSET_FETCH})

    def tells(self, asked: Asked, answer: Any) -> Any:
        unstable = ErrorCode.unstable_offset_commit
        return replace(
            answer, groups=tuple(replace(g, topics=(), error_code=unstable) for g in answer.groups)
        )
