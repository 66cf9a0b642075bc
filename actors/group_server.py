"""Frames in, answers out: the group APIs of one offsets partition, whoever carries the frames.

A frame comes from a client's own connection (handed over by the broker) or relayed through the node's
broker. This module knows tokens and wire versions; the replica decides, the connections carry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.api import groups as spanning
from actors.contract import Request, Token
from actors.coordinator.refusals import refusal
from actors.network.identity import ClientIdentity
from actors.protocol import codec
from actors.protocol.headers import Header
from actors.protocol.java_hash import partition_for
from actors.replica import Replica

Answer = Callable[[bytes | None], None]
"""Takes a whole answer frame; None: the connection can only be closed."""


class ElsewhereError(Exception):
    """The request speaks of groups of other partitions: the node's broker knows who leads them."""


class _Owed(NamedTuple):
    """A request whose answer is still to come."""

    answer: Answer
    header: Header
    refused: list[Any]
    """Answers for groups that other partitions lead, to be merged in (W17)."""
    body: Any


class GroupServer:
    """Serves the group APIs of `partition` out of `partitions`, through `replica`."""

    def __init__(self, replica: Replica, partition: int, partitions: int, now_ms: Callable[[], int]) -> None:
        self._replica = replica
        self._partition = partition
        self._partitions = partitions
        self._now_ms = now_ms
        self._owed: dict[Token, _Owed] = {}
        self._next_token = 0
        self.requests = 0

    def serve(
        self, header: Header, frame: bytes, body_offset: int, identity: ClientIdentity, answer: Answer
    ) -> bytes | None:
        """Answer one request of a client's own connection: the answer frame now, or None and `answer` later.

        Raises ElsewhereError if it is not for this partition alone, MalformedRequest if the bytes lie.
        """
        body: Any = codec.decode(header, frame, body_offset)
        try:
            is_mine = partition_for(body.group_id, self._partitions) == self._partition
        except AttributeError:  # a request of many groups
            is_mine = set(self._split(header.api_key, body)) <= {self._partition}
        if not is_mine:
            raise ElsewhereError
        return self._submit(header, identity, answer, body, body, [])

    def serve_relayed(
        self, header: Header, frame: bytes, body_offset: int, identity: ClientIdentity, answer: Answer
    ) -> bytes | None:
        """The same for a frame that the broker relayed: groups of other partitions get NOT_COORDINATOR."""
        body = codec.decode(header, frame, body_offset)
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
        if owed is not None:
            owed.answer(self._finish(owed, response))

    def _submit(
        self,
        header: Header,
        identity: ClientIdentity,
        answer: Answer,
        mine: Any,
        body: Any,
        refused: list[Any],
    ) -> bytes | None:
        self.requests += 1
        token = self._next_token = self._next_token + 1
        request = Request(
            token, header.api_key, header.api_version, header.client_id, identity.client_host, mine
        )
        owed = self._owed[token] = _Owed(answer, header, refused, body)
        response = self._replica.submit(request, self._now_ms())
        if response is None:
            return None
        del self._owed[token]
        return self._finish(owed, response)

    def _split(self, api_key: int, body: Any) -> dict[int, Any]:
        return spanning.split(api_key, body, lambda g: partition_for(g, self._partitions), self._partitions)

    def _finish(self, owed: _Owed, response: Any) -> bytes:
        if owed.refused:
            response = spanning.merge(owed.header.api_key, [response, *owed.refused], owed.body)
        return self._encode(owed.header, response)

    def _encode(self, header: Header, response: Any) -> bytes:
        return codec.encode(header.api_key, header.api_version, header.correlation_id, response)
