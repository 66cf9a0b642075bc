"""The commits and fetches of offsets that a connection repeats: the next one is recognised by its bytes, and
is not decoded again.

A member's commits differ in the correlation id, in offsets and in leader epochs alone, and so do their
answers; who looks at a group's offsets asks for the same ones again and again. So the last such requests of a
connection are remembered, a few of them, because several clients may share one. The law:

* What is recognised is decided like any other request (`actors.coordinator.offsets.known`), from the same
  body that decoding would give. Only who may ask, and whose group it is, is not asked again: both depend on
  the image, and nothing outlives the image that it was learnt under.
* An answer is a remembered one only if it is the very answer whose bytes are remembered
  (`actors.coordinator.offsets.known_fetches` says when that is so of a fetch).
"""

from __future__ import annotations

from struct import Struct
from sys import intern
from typing import Any, Final

from actors.catalog import codec
from actors.coordinator.offsets.known import Known
from actors.coordinator.offsets.known_fetches import KnownAnswer
from actors.ground.contract import Request, new_tuple
from actors.ground.image import MetadataImage
from actors.ground.limits import KNOWN_ANSWER_BYTES_MAX, KNOWN_REQUEST_BYTES_MAX, KNOWN_REQUESTS_MAX
from actors.metrics.counts import ApiCounts
from actors.protocol.commit_layout import (
    WIRE_ROW_BYTES,
    FrameLayout,
    layout_of_commit,
    layout_without_rows,
    number_of,
    rows_at,
)
from actors.protocol.messages import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest
from actors.protocol.offset_rows import CommittedRows
from actors.security.screening import Finish

OF_A_MEMBER_MAX: Final = 2
"""How many commits of a member are remembered: some clients commit now all of their partitions and now those
that have moved on."""
SCANNED_MAX: Final = 4
"""How many requests are looked at one by one."""
WASTED_MAX: Final = 32
"""How many requests of a connection are remembered in vain until no more are."""
_ROW: Final = Struct(">iqi2x")
_NO_METADATA: Final = ("",)
_CORRELATION_ID: Final = slice(4, 8)
_BEFORE: Final = slice(0, 4)
_BEHIND: Final = slice(8, None)


class KnownCommit(Known):
    """A commit of one connection: what its frames have in common, and how it was answered."""

    __slots__ = (
        "_answer_before",
        "_answer_behind",
        "_asked",
        "_body",
        "_found_ms",
        "_names",
        "_response",
        "counts",
        "is_used",
        "layout",
    )

    def __init__(self, layout: FrameLayout, request: Request, counts: ApiCounts) -> None:
        super().__init__()
        body: OffsetCommitRequest = request.body
        self.counts = counts
        """The counts of answers to OffsetCommit."""
        self.is_used = False
        """Whether it has been recognised once."""
        self.layout = layout
        self._asked = (*request[1:3], intern(request.client_id), request.client_host, *request[6:])
        self._body = (*body[:5], body.topic_ids)
        self._names = tuple(intern(topic) for topic, _ in body.topics)
        self._response: Any = None
        self._answer_before = self._answer_behind = b""
        self._found_ms: int | None = None

    def spacing_ms(self, now_ms: int) -> int:
        """Note that it is recognised. Return how long ago it was recognised before; 0: never."""
        before_ms, self._found_ms = self._found_ms, now_ms
        return 0 if before_ms is None else now_ms - before_ms

    @property
    def whose(self) -> tuple[Any, ...]:
        """Return what the commits of one member have in common."""
        return self._body[0], self._body[2]

    def request(self, token: int, frame: bytes) -> Request:
        """Return the request in a frame that is of the layout."""
        topics = []
        for name, (begin, end) in zip(self._names, self.layout[3], strict=True):
            rows: Any
            if end - begin == WIRE_ROW_BYTES:
                rows = (_ROW.unpack_from(frame, begin) + _NO_METADATA,)
            else:
                rows = CommittedRows(rows_at(frame, begin, end))
            topics.append((name, rows))
        group_id, epoch, member_id, instance_id, retention_ms, topic_ids = self._body
        body = new_tuple(
            OffsetCommitRequest,
            (group_id, epoch, member_id, instance_id, retention_ms, tuple(topics), topic_ids, self),
        )
        asked = self._asked
        request: Request = new_tuple(Request, (token, *asked[:4], body, *asked[4:]))
        return request

    def answer(self, correlation_id: bytes) -> bytes | None:
        """Return the packed answer that says that all is well; None if none was given yet."""
        if not self._answer_behind:
            return None
        return self._answer_before + correlation_id + self._answer_behind

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


class KnownFetch:
    """A fetch of one connection, whose frames differ in the correlation id alone, and how it was answered."""

    __slots__ = (
        "_answer_before",
        "_answer_behind",
        "_answered",
        "_asked",
        "_response",
        "counts",
        "finish",
        "is_used",
        "layout",
    )

    def __init__(
        self, layout: FrameLayout, request: Request, finish: Finish | None, counts: ApiCounts
    ) -> None:
        self.counts = counts
        """The counts of answers to OffsetFetch."""
        self.finish = finish
        """What the gate adds to an answer; None: nothing."""
        self.is_used = False
        """Whether it has been recognised once."""
        self.layout = layout
        self._answered = KnownAnswer()
        self._asked = (*request[1:5], request.body._replace(known=self._answered), *request[6:])
        self._response: Any = None
        self._answer_before = self._answer_behind = b""

    @property
    def whose(self) -> tuple[Any, ...]:
        """Return what the fetches of the same groups have in common."""
        body: OffsetFetchRequest = self._asked[4]
        return (None, *(group.group_id for group in body.groups))

    def request(self, token: int) -> Request:
        """Return the request in a frame that is of the layout."""
        request: Request = new_tuple(Request, (token, *self._asked))
        return request

    def packed(self, response: Any, correlation_id: bytes) -> bytes | None:
        """Return the packed answer, and count it, if it is the one that was packed before; else None."""
        if response is not self._response:
            return None
        self.counts.fine += 1
        return self._answer_before + correlation_id + self._answer_behind

    def keep(self, response: Any, packed: bytes) -> None:
        """Remember how an answer was packed, with what the gate added, if it may be given again and is
        small: the gate says the same of the same answer until the next image."""
        if response is self._answered.answer and len(packed) <= KNOWN_ANSWER_BYTES_MAX:
            self._response = response
            self._answer_before, self._answer_behind = packed[_BEFORE], packed[_BEHIND]


_Index = tuple[tuple[tuple[int, int], ...], dict[tuple[int, int], KnownCommit | KnownFetch]]
"""The sizes and masks of layouts; (mask, fixed) -> the request."""


class KnownRequests:
    """The commits and fetches that one connection has made last, for as long as `image` is the newest."""

    __slots__ = ("_index", "_known", "_seen", "_wasted", "image")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._known: tuple[KnownCommit | KnownFetch, ...] = ()
        """What is remembered, oldest first; members' connections have one or two, and there are many such."""
        self._index: _Index | None = None
        """All of them once more, where they are too many to look at each; else None."""
        self._seen: tuple[int, ...] = ()
        """The hashes of the last fetches."""
        self._wasted = 0

    def find(self, frame: bytes, image: MetadataImage) -> KnownCommit | KnownFetch | None:
        """Return the request that this frame repeats; None if it repeats none. `image` is the newest."""
        if image is not self.image:
            return None
        size, number = len(frame), None
        if self._index is not None:
            return self._looked_up(frame)
        for known in self._known:
            layout = known.layout
            if layout[0] == size:
                if number is None:
                    number = number_of(frame)
                if number & layout[1] == layout[2]:
                    known.is_used = True
                    return known
        return None

    def _looked_up(self, frame: bytes) -> KnownCommit | KnownFetch | None:
        """Find a request where there are many: few of them differ in where their rows stand."""
        assert self._index is not None
        size, number = len(frame), None
        for of_size, mask in self._index[0]:
            if of_size == size:
                if number is None:
                    number = number_of(frame)
                known = self._index[1].get((mask, number & mask))
                if known is not None:
                    known.is_used = True
                    return known
        return None

    def learn_commit(
        self, frame: bytes, body_offset: int, request: Request, counts: ApiCounts
    ) -> KnownCommit | None:
        """Remember the commit in `frame`. Return what is to be `known` of its body; None: it is not
        remembered."""
        if self._wasted > WASTED_MAX or len(frame) > KNOWN_REQUEST_BYTES_MAX:
            return None
        layout = layout_of_commit(frame, body_offset, request.api_version, request.body)
        if layout is None:
            return None
        known = KnownCommit(layout, request, counts)
        self._remember(known)
        return known

    def learn_fetch(self, frame: bytes, request: Request, finish: Finish | None, counts: ApiCounts) -> None:
        """Remember the fetch in `frame` if it has come before: most members make one, and no more."""
        if self._wasted > WASTED_MAX or len(frame) > KNOWN_REQUEST_BYTES_MAX:
            return
        found = hash(frame[_BEHIND])
        if found not in self._seen:
            self._seen = (*self._seen[1 - KNOWN_REQUESTS_MAX :], found)
        else:
            self._remember(KnownFetch(layout_without_rows(frame), request, finish, counts))

    def _remember(self, newest: KnownCommit | KnownFetch) -> None:
        """Remember a request, and forget the oldest ones if there are too many, or too many of one member: in
        each generation, its commits are others."""
        kept = [*self._known, newest]
        alike = [known for known in kept if known.whose == newest.whose]
        if len(alike) > OF_A_MEMBER_MAX:
            kept.remove(alike[0])
        while len(kept) > KNOWN_REQUESTS_MAX or (
            sum(known.layout.size for known in kept) > KNOWN_REQUEST_BYTES_MAX
        ):
            del kept[0]
        gone = [known for known in self._known if known not in kept]
        self._wasted += sum(not known.is_used for known in gone)
        self._known = tuple(kept)
        self._index = None
        if len(kept) > SCANNED_MAX:
            layouts = {known: known.layout for known in kept}
            masks = tuple({(layout.size, layout.mask): None for layout in layouts.values()})
            self._index = masks, {(each.mask, each.fixed): known for known, each in layouts.items()}
