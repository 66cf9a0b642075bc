"""Frames in, answers out: the group APIs of one offsets partition, whoever carries the frames.

A frame comes from a client's own connection (handed over by the broker) or relayed through the node's
broker. This module knows tokens and wire versions; the replica decides, the connections carry.

A member's steady heartbeats differ in nothing but the correlation id, and so do their answers: a connection's
last heartbeat is remembered decoded, its answer packed (`LastHeartbeat`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.api import groups as spanning
from actors.coordinator.refusals import refusal
from actors.ground.contract import Request, Token
from actors.ground.identity import ClientIdentity
from actors.ground.limits import MEMBER_FRAME_BYTES_MAX, REMEMBERED_HEARTBEAT_BYTES_MAX
from actors.leader.held_heartbeats import Holding
from actors.leader.large_answers import Beside, is_large, take_apart
from actors.metrics.counts import ApiCounts, RequestCounts
from actors.protocol import codec
from actors.protocol.api_keys import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from actors.protocol.headers import Header
from actors.protocol.java_hash import partition_for
from actors.replica.replica import Replica
from actors.security.gate import Gate
from actors.security.screening import Finish

log = logging.getLogger("groupd.groups")

Answer = Callable[[bytes], None]
"""Takes a whole answer frame."""

_Owed = tuple[Answer, Header, list[Any], Any, Finish | None]
"""A request whose answer is still to come: who takes it, the request's header, the answers for groups that
other partitions lead (to be merged in, W17), the request's body, and what the gate adds to its answer."""

_SCREENED_ALWAYS: Final = (DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE)
"""Their answers may tell what the client may do, authorizer or not."""
_RECORDED: Final = (JOIN_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT)
"""What these carry becomes part of one member's record."""
_CORRELATION_ID: Final = slice(4, 8)
"""Of a request behind its length, and of an answer with its length: both have four bytes before it."""
_BEFORE: Final = slice(0, 4)
_BEHIND: Final = slice(8, None)

Submit = Callable[[Request, int], Any]
"""As `Replica.submit`."""


class ElsewhereError(Exception):
    """The request speaks of groups of other partitions: the node's broker knows who leads them."""


class LastHeartbeat:
    """The last heartbeat of one connection: its bytes without the correlation id, what they meant, and how it
    was answered. The next one is the same request, token included: a connection has one at a time."""

    __slots__ = (
        "answer_before",
        "answer_behind",
        "before",
        "behind",
        "counts",
        "finish",
        "request",
        "response",
        "submit",
    )

    def __init__(self, request: Request, frame: bytes, counts: ApiCounts, submit: Submit) -> None:
        """`counts`: of the heartbeat's API. `submit`: who decides it."""
        self.counts = counts
        self.submit = submit
        self.finish: Finish | None = None
        """Sees an answer that comes later."""
        self.before = frame[_BEFORE]
        self.behind = frame[_BEHIND]
        self.request = request
        self.response: Any = None
        """What was answered at once, if that was small: an equal one has the same bytes."""
        self.answer_before = self.answer_behind = b""

    def is_same(self, frame: bytes) -> bool:
        return frame[_BEHIND] == self.behind and frame[_BEFORE] == self.before

    def pack(self, response: Any, frame: bytes) -> bytes:
        """The answer to `frame`, remembered if it is small."""
        request = self.request
        packed = codec.encode(request.api_key, request.api_version, _correlation_id(frame), response)
        if len(packed) <= REMEMBERED_HEARTBEAT_BYTES_MAX:
            self.response = response
            self.answer_before, self.answer_behind = packed[_BEFORE], packed[_BEHIND]
        return packed

    def owed(self, frame: bytes, answer: Answer) -> _Owed:
        """Where the answer to `frame` goes that comes later."""
        _, api_key, api_version, client_id, _, body = self.request[:6]
        header = Header(api_key, api_version, _correlation_id(frame), client_id)
        return answer, header, [], body, self.finish


class GroupServer:
    """Serves the group APIs of `partition` out of `partitions`, through `replica`, as `gate` allows."""

    def __init__(
        self,
        replica: Replica,
        partition: int,
        partitions: int,
        now_ms: Callable[[], int],
        gate: Gate | None = None,
        beside: Beside | None = None,
    ) -> None:
        """`beside`: packs large answers; None: they are packed like all others."""
        self._beside = beside
        self._replica = replica
        self._partition = partition
        self._partitions = partitions
        self._now_ms = now_ms
        self._gate = Gate() if gate is None else gate
        self._owed: dict[Token, _Owed] = {}
        self._released: dict[Token, Any] = {}
        """Answers that came before `submit` returned."""
        self._last_token = 0
        self.counts = RequestCounts()
        """For metrics."""

    def serve_again(self, last: LastHeartbeat, frame: bytes, answer: Answer) -> bytes | None:
        """Answer a heartbeat of which `last.is_same(frame)` holds. That one was allowed: whoever changes the
        ACLs must have it forgotten."""
        response = last.submit(last.request, self._now_ms())
        if response is None:
            return self._wait(last.request.token, last.owed(frame, answer))
        if response[0]:
            last.counts.count(response)
        else:
            last.counts.fine += 1
        if response == last.response:
            return last.answer_before + frame[_CORRELATION_ID] + last.answer_behind
        return last.pack(response, frame)

    def serve(
        self,
        header: Header,
        frame: bytes,
        body_offset: int,
        identity: ClientIdentity,
        answer: Answer,
        *,
        holding: Holding | None = None,
    ) -> tuple[bytes | None, LastHeartbeat | None]:
        """Answer one request of a client's own connection: the answer frame now, or None and `answer` later;
        with it what to remember for `serve_again`, if it was a heartbeat. `holding`: of the connection.

        Raises ElsewhereError if it is not for this partition alone, MalformedRequest if the bytes lie.
        """
        body: Any = codec.decode(header, frame, body_offset)
        if len(frame) > MEMBER_FRAME_BYTES_MAX and header.api_key in _RECORDED:
            return self._too_large(header, body), None
        if not self._is_mine(header.api_key, body):
            raise ElsewhereError
        finish = None
        if self._gate.checks or header.api_key in _SCREENED_ALWAYS:
            body, finish = self._gate.screen(identity.principal, identity.client_host, header, body)
            if body is None:
                return self._finish((answer, header, [], body, finish), None), None
        last, submit = None, self._replica.submit
        request = self._request(header, identity, body)
        if (
            header.api_key in (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT)
            and len(frame) <= REMEMBERED_HEARTBEAT_BYTES_MAX
            and not identity.session_expires_ms
        ):
            last = LastHeartbeat(request, frame, self.counts.of(header.api_key), submit)
            if holding is not None and header.api_key in holding.apis:
                submit = last.submit = holding.submit
                last.finish = holding.note
                finish = _both(finish, holding.note)
        return self._submit(request, (answer, header, [], body, finish), submit=submit), last

    def serve_relayed(
        self, header: Header, frame: bytes, body_offset: int, identity: ClientIdentity, answer: Answer
    ) -> bytes | None:
        """The same for a frame that the broker relayed: groups of other partitions get NOT_COORDINATOR."""
        body: Any = codec.decode(header, frame, body_offset)
        if len(frame) > MEMBER_FRAME_BYTES_MAX and header.api_key in _RECORDED:
            return self._too_large(header, body)
        body, finish = self._gate.screen(identity.principal, identity.client_host, header, body)
        if body is None:
            return self._finish((answer, header, [], body, finish), None)
        parts = self._split(header.api_key, body)
        mine = parts.pop(self._partition, None)
        refused = [
            refusal(Request(0, header.api_key, header.api_version, "", "", part), ErrorCode.not_coordinator)
            for part in parts.values()
        ]
        if mine is None:
            response = spanning.merge(header.api_key, refused, body)
            return self._finish((answer, header, [], body, finish), response)
        request = self._request(header, identity, mine)
        return self._submit(request, (answer, header, refused, body, finish), submit=self._replica.submit)

    def release(self, token: Token, response: Any) -> None:
        """The replica's answer to a request that had to wait."""
        owed = self._owed.pop(token, None)
        if owed is None:
            self._released[token] = response  # while `submit` still decides it
        else:
            answered = self._finish(owed, response)
            if answered is not None:
                owed[0](answered)

    def forget(self, token: Token) -> None:
        """The replica will not answer the request any more, and nobody waits for it."""
        self._owed.pop(token, None)

    def _is_mine(self, api_key: int, body: Any) -> bool:
        """All groups of the request are this partition's."""
        if api_key == OFFSET_FETCH:
            return all(partition_for(each[0], self._partitions) == self._partition for each in body.groups)
        try:
            return partition_for(body.group_id, self._partitions) == self._partition
        except AttributeError:  # a request of many groups
            return set(self._split(api_key, body)) <= {self._partition}

    def _request(self, header: Header, identity: ClientIdentity, body: Any) -> Request:
        token = self._last_token = self._last_token + 1
        host, _, software_name, software_version, principal = identity[:5]
        return Request(
            token, header[0], header[1], header[3], host, body, principal, software_name, software_version
        )

    def _submit(self, request: Request, owed: _Owed, *, submit: Submit) -> bytes | None:
        response = submit(request, self._now_ms())
        return self._wait(request.token, owed) if response is None else self._finish(owed, response)

    def _too_large(self, header: Header, body: Any) -> bytes:
        """As Kafka answers when a record is larger than its offsets topic takes."""
        request = Request(0, header.api_key, header.api_version, "", "", body)
        refused = refusal(request, ErrorCode.unknown_server_error)
        self.counts.count(header.api_key, refused)
        return self._encode(header, refused)

    def _wait(self, token: Token, owed: _Owed) -> bytes | None:
        """Note who waits for `token`, unless its answer was released while it was decided."""
        if token in self._released:
            return self._finish(owed, self._released.pop(token))
        self._owed[token] = owed
        return None

    def _finish(self, owed: _Owed, response: Any) -> bytes | None:
        """The answer's frame, or None if a thread packs it and gives it to who waits."""
        answer, header, refused, body, finish = owed
        if refused:
            response = spanning.merge(header.api_key, [response, *refused], body)
        if finish is not None:
            response = finish(response)
        self.counts.count(header.api_key, response)
        if self._beside is not None and is_large(header.api_key, response):
            self._beside(partial(self._pack_large, header, body, response), answer)
            return None
        return self._encode(header, response)

    def _pack_large(self, header: Header, body: Any, response: Any) -> bytes:
        """In a thread: nobody but the client can be told of what goes wrong."""
        try:
            packed = self._encode(header, response)
        except Exception:
            log.exception("an answer to API %d could not be packed", header.api_key)
            request = Request(0, header.api_key, header.api_version, "", "", body)
            return self._encode(header, refusal(request, ErrorCode.unknown_server_error))
        take_apart(header.api_key, response)
        return packed

    def _split(self, api_key: int, body: Any) -> dict[int, Any]:
        return spanning.split(api_key, body, lambda g: partition_for(g, self._partitions), self._partitions)

    def _encode(self, header: Header, response: Any) -> bytes:
        return codec.encode(header.api_key, header.api_version, header.correlation_id, response)


def _correlation_id(frame: bytes) -> int:
    return int.from_bytes(frame[_CORRELATION_ID], "big", signed=True)


def _both(first: Finish | None, second: Finish) -> Finish:
    return second if first is None else lambda response: second(first(response))
