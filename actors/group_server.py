"""Frames in, answers out: the group APIs of one offsets partition, whoever carries the frames.

A frame comes from a client's own connection (handed over by the broker) or relayed through the node's
broker. This module knows tokens and wire versions; the replica decides, the connections carry.

A member's steady heartbeats differ in nothing but the correlation id, so a connection's last heartbeat is
remembered decoded (`LastHeartbeat`): the next one that has the same bytes is not parsed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.api import groups as spanning
from actors.contract import Request, Token
from actors.coordinator.refusals import refusal
from actors.limits import MEMBER_FRAME_BYTES_MAX, REMEMBERED_HEARTBEAT_BYTES_MAX
from actors.network.identity import ClientIdentity
from actors.protocol import codec
from actors.protocol.api_keys import CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from actors.protocol.headers import Header
from actors.protocol.java_hash import partition_for
from actors.replica import Replica

Answer = Callable[[bytes], None]
"""Takes a whole answer frame."""

_Owed = tuple[Answer, Header, list[Any], Any]
"""A request whose answer is still to come: who takes it, the request's header, the answers for groups that
other partitions lead (to be merged in, W17), the request's body."""

_RECORDED: Final = (JOIN_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT)
"""What these carry becomes part of one member's record."""
_new: Any = tuple.__new__
"""Half the price of calling a NamedTuple's class; for the hottest path alone."""
_CORRELATION_ID: Final = slice(4, 8)
_BEFORE: Final = slice(0, 4)
_BEHIND: Final = slice(8, None)


class ElsewhereError(Exception):
    """The request speaks of groups of other partitions: the node's broker knows who leads them."""


class LastHeartbeat:
    """The last heartbeat of one connection: its bytes without the correlation id, and what they meant."""

    __slots__ = ("before", "behind", "body", "header")

    def __init__(self, header: Header, frame: bytes, body: Any) -> None:
        self.before = frame[_BEFORE]
        self.behind = frame[_BEHIND]
        self.header = header
        self.body = body

    def is_same(self, frame: bytes) -> bool:
        return frame[_BEHIND] == self.behind and frame[_BEFORE] == self.before


class GroupServer:
    """Serves the group APIs of `partition` out of `partitions`, through `replica`."""

    def __init__(self, replica: Replica, partition: int, partitions: int, now_ms: Callable[[], int]) -> None:
        self._replica = replica
        self._partition = partition
        self._partitions = partitions
        self._now_ms = now_ms
        self._owed: dict[Token, _Owed] = {}
        self._released: dict[Token, Any] = {}
        """Answers that came before `submit` returned."""
        self._last_token = 0

    @property
    def requests(self) -> int:
        """Requests decided so far."""
        return self._last_token

    def serve_again(
        self, last: LastHeartbeat, frame: bytes, identity: ClientIdentity, answer: Answer
    ) -> bytes | None:
        """Answer a heartbeat of which `last.is_same(frame)` holds."""
        api_key, api_version, _, client_id = last.header
        token = self._last_token = self._last_token + 1
        request: Request = _new(Request, (token, api_key, api_version, client_id, identity[0], last.body))
        correlation_id = int.from_bytes(frame[_CORRELATION_ID], "big", signed=True)
        response = self._replica.submit(request, self._now_ms())
        if response is None:
            header = Header(api_key, api_version, correlation_id, client_id)
            return self._wait(token, (answer, header, [], last.body))
        return codec.encode(api_key, api_version, correlation_id, response)

    def serve(
        self, header: Header, frame: bytes, body_offset: int, identity: ClientIdentity, answer: Answer
    ) -> tuple[bytes | None, LastHeartbeat | None]:
        """Answer one request of a client's own connection: the answer frame now, or None and `answer` later;
        with it what to remember for `serve_again`, if it was a heartbeat.

        Raises ElsewhereError if it is not for this partition alone, MalformedRequest if the bytes lie.
        """
        body: Any = codec.decode(header, frame, body_offset)
        if len(frame) > MEMBER_FRAME_BYTES_MAX and header.api_key in _RECORDED:
            return self._too_large(header, body), None
        try:
            is_mine = partition_for(body.group_id, self._partitions) == self._partition
        except AttributeError:  # a request of many groups
            is_mine = set(self._split(header.api_key, body)) <= {self._partition}
        if not is_mine:
            raise ElsewhereError
        last = None
        if (
            header.api_key in (HEARTBEAT, CONSUMER_GROUP_HEARTBEAT)
            and len(frame) <= REMEMBERED_HEARTBEAT_BYTES_MAX
        ):
            last = LastHeartbeat(header, frame, body)
        return self._submit(header, identity, answer, body, body, []), last

    def serve_relayed(
        self, header: Header, frame: bytes, body_offset: int, identity: ClientIdentity, answer: Answer
    ) -> bytes | None:
        """The same for a frame that the broker relayed: groups of other partitions get NOT_COORDINATOR."""
        body = codec.decode(header, frame, body_offset)
        if len(frame) > MEMBER_FRAME_BYTES_MAX and header.api_key in _RECORDED:
            return self._too_large(header, body)
        parts = self._split(header.api_key, body)
        mine = parts.pop(self._partition, None)
        refused = [
            refusal(Request(0, header.api_key, header.api_version, "", "", part), ErrorCode.not_coordinator)
            for part in parts.values()
        ]
        if mine is None:
            return self._encode(header, spanning.merge(header.api_key, refused, body))
        return self._submit(header, identity, answer, mine, body, refused)

    def release(self, token: Token, response: Any) -> None:
        """The replica's answer to a request that had to wait."""
        owed = self._owed.pop(token, None)
        if owed is None:
            self._released[token] = response  # while `submit` still decides it
        else:
            owed[0](self._finish(owed, response))

    def _submit(
        self,
        header: Header,
        identity: ClientIdentity,
        answer: Answer,
        mine: Any,
        body: Any,
        refused: list[Any],
    ) -> bytes | None:
        token = self._last_token = self._last_token + 1
        request = Request(token, header[0], header[1], header[3], identity[0], mine)
        owed = (answer, header, refused, body)
        response = self._replica.submit(request, self._now_ms())
        return self._wait(token, owed) if response is None else self._finish(owed, response)

    def _too_large(self, header: Header, body: Any) -> bytes:
        """As Kafka answers when a record is larger than its offsets topic takes."""
        request = Request(0, header.api_key, header.api_version, "", "", body)
        return self._encode(header, refusal(request, ErrorCode.unknown_server_error))

    def _wait(self, token: Token, owed: _Owed) -> bytes | None:
        """Note who waits for `token`, unless its answer was released while it was decided."""
        if token in self._released:
            return self._finish(owed, self._released.pop(token))
        self._owed[token] = owed
        return None

    def _finish(self, owed: _Owed, response: Any) -> bytes:
        _, header, refused, body = owed
        if refused:
            response = spanning.merge(header.api_key, [response, *refused], body)
        return self._encode(header, response)

    def _split(self, api_key: int, body: Any) -> dict[int, Any]:
        return spanning.split(api_key, body, lambda g: partition_for(g, self._partitions), self._partitions)

    def _encode(self, header: Header, response: Any) -> bytes:
        return codec.encode(header.api_key, header.api_version, header.correlation_id, response)
