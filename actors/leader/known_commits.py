"""The commits that a connection repeats: the next one is recognised by its bytes, and is not decoded again.

A member's commits differ in the correlation id, in offsets and in leader epochs alone, and so do their
answers. So the last commits of a connection are remembered, a few of them, because several members may share
one. The law:

* What is recognised is decided like any other request (`actors.coordinator.offsets.known`), from the same
  `OffsetCommitRequest` that decoding would give. Only who may commit, and whose group it is, is not asked
  again: both depend on the image, and nothing outlives the image that it was learnt under.
* The answer is a remembered one only if it is the very answer whose bytes are remembered.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from actors.catalog import codec
from actors.coordinator.offsets.known import Known
from actors.ground.contract import Request
from actors.ground.image import MetadataImage
from actors.ground.limits import KNOWN_COMMIT_BYTES_MAX, KNOWN_COMMITS_MAX
from actors.metrics.counts import ApiCounts
from actors.protocol.commit_layout import WIRE_ROW_BYTES, CommitLayout, is_of, layout_of_commit, rows_at
from actors.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from actors.protocol.offset_rows import CommittedRows

WASTED_MAX: Final = 32
"""How many commits of a connection are remembered in vain until no more are."""
_ROW: Final = Struct(">iqi2x")
_NO_METADATA: Final = ("",)
_CORRELATION_ID: Final = slice(4, 8)
_BEFORE: Final = slice(0, 4)
_BEHIND: Final = slice(8, None)
_new: Any = tuple.__new__


class KnownCommit(Known):
    """A commit of one connection: what its frames have in common, and how it was answered."""

    __slots__ = (
        "_answer_before",
        "_answer_behind",
        "_asked",
        "_body",
        "_layout",
        "_names",
        "_response",
        "counts",
        "is_used",
    )

    def __init__(self, layout: CommitLayout, request: Request, counts: ApiCounts) -> None:
        super().__init__()
        body: OffsetCommitRequest = request.body
        self.counts = counts
        """The counts of answers to OffsetCommit."""
        self.is_used = False
        """Whether it has been recognised once."""
        self._layout = layout
        self._asked = (*request[1:5], *request[6:])
        self._body = (*body[:5], body.topic_ids)
        self._names = tuple(topic for topic, _ in body.topics)
        self._response: Any = None
        self._answer_before = self._answer_behind = b""

    @property
    def size(self) -> int:
        """Return how many bytes its frames have."""
        return self._layout.size

    def is_same(self, frame: bytes) -> bool:
        return is_of(self._layout, frame)

    def request(self, token: int, frame: bytes) -> Request:
        """Return the request in a frame that `is_same`."""
        topics = []
        for name, (begin, end) in zip(self._names, self._layout[3], strict=True):
            rows: Any
            if end - begin == WIRE_ROW_BYTES:
                rows = (_ROW.unpack_from(frame, begin) + _NO_METADATA,)
            else:
                rows = CommittedRows(rows_at(frame, begin, end))
            topics.append((name, rows))
        group_id, epoch, member_id, instance_id, retention_ms, topic_ids = self._body
        body = _new(
            OffsetCommitRequest,
            (group_id, epoch, member_id, instance_id, retention_ms, tuple(topics), topic_ids, self),
        )
        asked = self._asked
        request: Request = _new(Request, (token, *asked[:4], body, *asked[4:]))
        return request

    def pack(self, response: OffsetCommitResponse, correlation_id: bytes) -> bytes:
        """Return the packed answer, and count it. It is remembered if it is the one that says that all is
        well."""
        if response is self._response:
            self.counts.fine += 1
            return self._answer_before + correlation_id + self._answer_behind
        self.counts.count(response)
        api_key, api_version = self._asked[:2]
        number = int.from_bytes(correlation_id, "big", signed=True)
        packed = codec.encode(api_key, api_version, number, response)
        decided = self.decided
        if decided is not None and response is decided.answer:
            self._response = response
            self._answer_before, self._answer_behind = packed[_BEFORE], packed[_BEHIND]
        return packed


class KnownCommits:
    """The commits that one connection has made last, as long as `image` is the newest."""

    __slots__ = ("_bytes", "_ends", "_known", "_last", "_wasted", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._known: dict[bytes, KnownCommit] = {}
        """What stands before the first row of a commit -> the commit."""
        self._ends: dict[int, int] = {}
        """Where the first rows begin -> how many commits have them there."""
        self._last: KnownCommit | None = None
        """The commit that was recognised or learnt last."""
        self._bytes = self._wasted = 0

    def find(self, frame: bytes) -> KnownCommit | None:
        """Return the commit that this frame repeats; None if it repeats none."""
        last = self._last
        if last is not None and last.is_same(frame):
            last.is_used = True
            return last
        for end in self._ends:
            known = self._known.get(_head(frame, end))
            if known is not None and known is not last and known.is_same(frame):
                self._last = known
                known.is_used = True
                return known
        return None

    def learn(
        self, frame: bytes, body_offset: int, request: Request, counts: ApiCounts
    ) -> KnownCommit | None:
        """Remember the commit in `frame`, and forget others if they are too many. Return what is to be
        `known` of its body; None: it is not remembered."""
        if len(frame) > KNOWN_COMMIT_BYTES_MAX or self._wasted > WASTED_MAX:
            return None
        layout = layout_of_commit(frame, body_offset, request.api_version, request.body)
        if layout is None:
            return None
        end = layout.spans[0][0]
        head = _head(frame, end)
        if head in self._known:
            self._forget(head, end)
        while self._known and (
            len(self._known) >= KNOWN_COMMITS_MAX or self._bytes + layout.size > KNOWN_COMMIT_BYTES_MAX
        ):
            oldest = next(iter(self._known))
            self._forget(oldest, len(oldest) + 4)
        known = KnownCommit(layout, request, counts)
        self._known[head] = self._last = known
        self._ends[end] = self._ends.get(end, 0) + 1
        self._bytes += layout.size
        return known

    def _forget(self, head: bytes, end: int) -> None:
        known = self._known.pop(head)
        self._bytes -= known.size
        self._wasted += not known.is_used
        self._ends[end] -= 1
        if not self._ends[end]:
            del self._ends[end]
        if self._last is known:
            self._last = None


def _head(frame: bytes, end: int) -> bytes:
    """Return what stands before the first row, without the correlation id."""
    return frame[_BEFORE] + frame[8:end]
