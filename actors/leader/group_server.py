"""Serve the group APIs of one offsets partition: frames come in and answers go out, whoever carries them.

A frame comes from a client's own connection (handed over by the broker) or relayed through the node's
broker. This module knows tokens and wire versions; the replica decides, the connections carry.

A member's steady heartbeats differ in nothing but the correlation id, and so do their answers: a connection
remembers each member's last heartbeat decoded, its answer packed (`LastHeartbeat`). So are its commits and
fetches (`actors.leader.known_requests`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from actors.api import groups as spanning
from actors.catalog import codec
from actors.catalog.screening import screen_body
from actors.coordinator.refusals import refusal
from actors.ground.contract import Request, Token, new_tuple
from actors.ground.identity import ClientIdentity
from actors.ground.limits import (
    MEMBER_FRAME_BYTES_MAX,
    REMEMBERED_HEARTBEAT_BYTES_MAX,
    REMEMBERED_HEARTBEATS_MAX,
)
from actors.leader.consumer_channels import ConsumerChannels
from actors.leader.held_heartbeats import Holding
from actors.leader.known_requests import KnownCommit, KnownFetch, KnownRequests
from actors.leader.large_answers import Beside, is_large, take_apart
from actors.metrics.counts import ApiCounts, RequestCounts
from actors.protocol.api_keys import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    REGISTER_CONSUMER,
    SYNC_GROUP,
)
from actors.protocol.header import Header
from actors.protocol.partitioning import Partitioning
from actors.replica.replica import Replica
from actors.security.gate import Gate
from actors.security.screening import Finish

log = logging.getLogger("groupd.groups")

Answer = Callable[[bytes], None]
"""A function that takes a whole answer frame."""

_Owed = tuple[Answer, Header, list[Any], Any, Finish | None]
"""A request whose answer is still to come: who takes it, the request's header, the answers for groups that
other partitions lead (to be merged in, W17), the request's body, and what the gate adds to its answer."""

_OwedCommit = tuple[Answer, KnownCommit, bytes]
"""The answer to a commit that was recognised: who takes it, the commit, the correlation id."""

_SCREENED_ALWAYS: Final = (DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE)
"""APIs whose requests always pass the gate: their answers may tell what the client may do, with an authorizer
or without."""
_KNOWN: Final = (OFFSET_COMMIT, OFFSET_FETCH)
"""APIs whose requests are recognised when they are repeated."""
_RECORDED: Final = (JOIN_GROUP, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT, REGISTER_CONSUMER)
"""APIs whose requests become part of one member's record, so that their frames are bounded."""
NEEDS_A_CONNECTION: Final = "RegisterConsumer needs a connection of its own to the group's coordinator."
"""What a client is told whose consumer could not be reached on its connection (D3)."""
_CORRELATION_ID: Final = slice(4, 8)
"""Where the correlation id stands, in a request behind its length and in an answer with its length: both have
four bytes before it."""
_BEFORE: Final = slice(0, 4)
_BEHIND: Final = slice(8, None)

Submit = Callable[[Request, int], Any]
"""A function that decides a request at a time in ms, as `Replica.submit` does."""


class Share(NamedTuple):
    """The groups of one of a tier's offsets partitions."""

    partition: int
    spread: Callable[[], Partitioning]
    """A function that returns how groups are spread over all partitions now."""

    def partition_of(self, group_id: str) -> int:
        return self.spread().partition_of(group_id)

    def has(self, group_id: str) -> bool:
        return self.partition_of(group_id) == self.partition


class Asker(Protocol):
    """A client's own connection, as far as the server looks at it."""

    @property
    def identity(self) -> ClientIdentity: ...

    @property
    def holding(self) -> Holding | None:
        """Return what is known of the client, if its heartbeats may be held; None if they may not."""

    known: KnownRequests | None
    """The commits and fetches that the client repeats; None: none was remembered."""

    def answer(self, frame: bytes) -> None:
        """Take an answer frame that comes later."""


class ElsewhereError(Exception):
    """Raised if a request speaks of groups of other partitions: the node's broker knows who leads them."""


class LastHeartbeat:
    """The last heartbeat of a member on one connection: its bytes without the correlation id, what they
    meant, and how it was answered. The next one is the same request, token included: a connection has one at
    a time."""

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
        """Remember a heartbeat that came in `frame`. `counts` counts the answers of its API; `submit` decides
        it."""
        self.counts = counts
        self.submit = submit
        self.finish: Finish | None = None
        """What the gate adds to an answer that comes later; None: nothing."""
        self.before = frame[_BEFORE]
        self.behind = frame[_BEHIND]
        self.request = request
        self.response: Any = None
        """The answer that was given at once, if it was small: an equal answer packs to the same bytes."""
        self.answer_before = self.answer_behind = b""

    def is_same(self, frame: bytes) -> bool:
        return frame[_BEHIND] == self.behind and frame[_BEFORE] == self.before

    def pack(self, response: Any, frame: bytes) -> bytes:
        """Return the packed answer to `frame`, and remember it if it is small."""
        request = self.request
        packed = codec.encode(request.api_key, request.api_version, _correlation_id(frame), response)
        if len(packed) <= REMEMBERED_HEARTBEAT_BYTES_MAX:
            self.response = response
            self.answer_before, self.answer_behind = packed[_BEFORE], packed[_BEHIND]
        return packed

    def owed(self, frame: bytes, answer: Answer) -> _Owed:
        """Describe the answer to `frame` that is still to come, for `GroupServer` to keep."""
        _, api_key, api_version, client_id, _, body = self.request[:6]
        header = Header(api_key, api_version, _correlation_id(frame), client_id)
        return answer, header, [], body, self.finish


class LastHeartbeats:
    """The last heartbeats of one connection, by their bytes: one of each member that speaks on it."""

    __slots__ = ("_by_bytes", "_by_member")

    def __init__(self) -> None:
        self._by_bytes: dict[bytes, LastHeartbeat] = {}
        self._by_member: dict[tuple[str, str], LastHeartbeat] = {}

    def find(self, frame: bytes) -> LastHeartbeat | None:
        """Return the heartbeat that this frame repeats; None if it repeats none."""
        last = self._by_bytes.get(frame[_BEHIND])
        return last if last is not None and last.is_same(frame) else None

    def note(self, last: LastHeartbeat) -> None:
        """Remember a heartbeat in the place of the one before of its member. If there are too many, the
        newest one makes room: where all members of a connection come in turn, most are found."""
        body = last.request.body
        member = body.group_id, body.member_id
        older = self._by_member.get(member)
        if older is not None:
            self._by_bytes.pop(older.behind, None)
        elif len(self._by_member) >= REMEMBERED_HEARTBEATS_MAX:
            _, newest = self._by_member.popitem()
            self._by_bytes.pop(newest.behind, None)
        self._by_member[member] = self._by_bytes[last.behind] = last


class GroupServer:
    """The server of the group APIs of the groups of `share`, through `replica`, as `gate` allows."""

    def __init__(
        self,
        replica: Replica,
        share: Share,
        now_ms: Callable[[], int],
        gate: Gate | None = None,
        beside: Beside | None = None,
    ) -> None:
        """Serve through `replica`. `beside` packs large answers; without it they are packed like all
        others."""
        self._beside = beside
        self._replica = replica
        self._share = share
        self._now_ms = now_ms
        self._gate = Gate() if gate is None else gate
        self._owed: dict[Token, _Owed | _OwedCommit] = {}
        self._released: dict[Token, Any] = {}
        """Answers that the replica released before its `submit` returned, by the request's token."""
        self._last_token = 0
        self.counts = RequestCounts()
        """The answers by API and error code, for metrics."""
        self.channels = ConsumerChannels(replica, now_ms, self.counts)
        """The connections on which consumers of push groups are reached."""

    def serve_again(self, last: LastHeartbeat, frame: bytes, answer: Answer) -> bytes | None:
        """Answer a heartbeat that `last.is_same(frame)` says is a repetition. The heartbeat before it was
        allowed: whoever changes the ACLs must have it forgotten."""
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

    def again(self, known: KnownCommit | KnownFetch, frame: bytes, answer: Answer) -> bytes | None:
        """Answer a request that repeats `known`, as `serve` does."""
        token = self._last_token = self._last_token + 1
        if isinstance(known, KnownFetch):
            return self._fetch_again(known, token, frame, answer)
        response = self._replica.submit(known.request(token, frame), self._now_ms())
        if response is None:
            return self._wait(token, (answer, known, frame[_CORRELATION_ID]))
        return known.pack(response, frame[_CORRELATION_ID])

    def _fetch_again(self, known: KnownFetch, token: int, frame: bytes, answer: Answer) -> bytes | None:
        request = known.request(token)
        response = self._replica.submit(request, self._now_ms())
        packed = None if response is None else known.packed(response, frame[_CORRELATION_ID])
        if packed is not None:
            return packed
        header = Header(request[1], request[2], _correlation_id(frame), request[3])
        owed: _Owed = (answer, header, [], request[5], known.finish)
        if response is None:
            return self._wait(token, owed)
        packed = self._finish(owed, response)
        if packed is not None:
            known.keep(response, packed)
        return packed

    def serve(
        self, header: Header, frame: bytes, body_offset: int, asker: Asker
    ) -> tuple[bytes | None, LastHeartbeat | None]:
        """Answer one request of a client's own connection. Return the answer frame now, or None and give it
        to `asker.answer` later; and with it, for a heartbeat, what `serve_again` needs.

        Raises ElsewhereError if the request is not for this partition alone, MalformedRequest if the bytes
        lie.
        """
        body: Any = codec.decode(header, frame, body_offset)
        if len(frame) > MEMBER_FRAME_BYTES_MAX and header.api_key in _RECORDED:
            return self._too_large(header, body), None
        if not self._is_mine(header.api_key, body):
            raise ElsewhereError
        identity, holding, answer = asker.identity, asker.holding, asker.answer
        finish = None
        if self._gate.checks or header.api_key in _SCREENED_ALWAYS:
            body, finish = screen_body(self._gate, identity, header, body)
            if body is None:
                return self._finish((answer, header, [], body, finish), None), None
        last, submit = None, self._replica.submit
        request = self._request(header, identity, body)
        if header.api_key == REGISTER_CONSUMER:
            finish = _both(finish, partial(self.channels.decided, request.token))
            channel: Any = asker  # it is a client's own connection, on which consumers are reached
            busy = self.channels.open(channel, request)
            if busy is not None:
                return self._finish((answer, header, [], body, None), busy), None
        if header.api_key in _KNOWN:
            request = self._learnt(asker, frame, body_offset, request, finish)
            return self._submit(request, (answer, header, [], body, finish), submit=submit), None
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

    def _learnt(
        self, asker: Asker, frame: bytes, body_offset: int, request: Request, finish: Finish | None
    ) -> Request:
        """Have the connection remember a commit or a fetch. Return the request, which knows that."""
        if asker.identity.session_expires_ms:
            return request
        requests = asker.known
        if requests is None or requests.image is not self._gate.image:
            requests = asker.known = KnownRequests(self._gate.image)
        if request.api_key == OFFSET_FETCH:
            requests.learn_fetch(frame, request, finish, self.counts.of(OFFSET_FETCH))
        elif finish is None:
            known = requests.learn_commit(frame, body_offset, request, self.counts.of(OFFSET_COMMIT))
            if known is not None:
                return request._replace(body=request.body._replace(known=known))
        return request

    def serve_relayed(
        self, header: Header, frame: bytes, body_offset: int, identity: ClientIdentity, answer: Answer
    ) -> bytes | None:
        """Answer a request that the broker relayed, as `serve` does, but answer groups of other partitions
        with NOT_COORDINATOR."""
        body: Any = codec.decode(header, frame, body_offset)
        if len(frame) > MEMBER_FRAME_BYTES_MAX and header.api_key in _RECORDED:
            return self._too_large(header, body)
        body, finish = screen_body(self._gate, identity, header, body)
        if body is None:
            return self._finish((answer, header, [], body, finish), None)
        parts = self._split(header.api_key, body)
        mine = parts.pop(self._share.partition, None)
        refused = [
            refusal(Request(0, header.api_key, header.api_version, "", "", part), ErrorCode.not_coordinator)
            for part in parts.values()
        ]
        if header.api_key == REGISTER_CONSUMER and mine is not None:
            request = self._request(header, identity, mine)
            return self._finish(
                (answer, header, [], body, None),
                refusal(request, ErrorCode.invalid_request, NEEDS_A_CONNECTION),
            )
        if mine is None:
            response = spanning.merge(header.api_key, refused, body)
            return self._finish((answer, header, [], body, finish), response)
        request = self._request(header, identity, mine)
        return self._submit(request, (answer, header, refused, body, finish), submit=self._replica.submit)

    def release(self, token: Token, response: Any) -> None:
        """Take the replica's answer to a request that had to wait, and give it to whoever waits for it."""
        owed = self._owed.pop(token, None)
        if owed is None:
            self._released[token] = response  # it came while `submit` still decides the request
        elif len(owed) == 3:
            owed[0](owed[1].pack(response, owed[2]))
        else:
            answered = self._finish(owed, response)
            if answered is not None:
                owed[0](answered)

    def owe(self, last: LastHeartbeat, frame: bytes, answer: Answer) -> None:
        """Take over a heartbeat whose answer is still to come from what answers in the place of this server.
        `frame` has its correlation id."""
        self._owed[last.request.token] = last.owed(frame, answer)

    def has(self, group_id: str) -> bool:
        """Return whether a group belongs to this partition."""
        return self._share.has(group_id)

    def forget(self, token: Token) -> None:
        """Forget a request that the replica will not answer any more, and that nobody waits for."""
        self._owed.pop(token, None)

    def _is_mine(self, api_key: int, body: Any) -> bool:
        """Return whether all groups of the request belong to this partition."""
        if api_key == OFFSET_FETCH:
            return all(self._share.has(each[0]) for each in body.groups)
        share = self._share
        try:
            return share.spread().partition_of(body.group_id) == share.partition
        except AttributeError:  # a request of many groups
            return set(self._split(api_key, body)) <= {share.partition}

    def _request(self, header: Header, identity: ClientIdentity, body: Any) -> Request:
        token = self._last_token = self._last_token + 1
        host, _, software_name, software_version, principal = identity[:5]
        asker = principal, software_name, software_version
        request: Request = new_tuple(Request, (token, header[0], header[1], header[3], host, body, *asker))
        return request

    def _submit(self, request: Request, owed: _Owed, *, submit: Submit) -> bytes | None:
        response = submit(request, self._now_ms())
        return self._wait(request.token, owed) if response is None else self._finish(owed, response)

    def _too_large(self, header: Header, body: Any) -> bytes:
        """Return the answer to a frame that is too large: Kafka's, when a record is larger than its offsets
        topic takes."""
        request = Request(0, header.api_key, header.api_version, "", "", body)
        refused = refusal(request, ErrorCode.unknown_server_error)
        self.counts.count(header.api_key, refused)
        return self._encode(header, refused)

    def _wait(self, token: Token, owed: _Owed | _OwedCommit) -> bytes | None:
        """Note who waits for `token`, unless its answer was released while it was decided."""
        if token in self._released:
            return self._finish(owed, self._released.pop(token))
        self._owed[token] = owed
        return None

    def _finish(self, owed: _Owed | _OwedCommit, response: Any) -> bytes | None:
        """Return the answer's frame, or None if a thread packs it and then gives it to whoever waits."""
        if len(owed) == 3:
            return owed[1].pack(response, owed[2])
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
        """Pack a large answer, in a thread. If that fails, the client is answered with an error, because
        nobody else can be told."""
        try:
            packed = self._encode(header, response)
        except Exception:
            log.exception("an answer to API %d could not be packed", header.api_key)
            request = Request(0, header.api_key, header.api_version, "", "", body)
            return self._encode(header, refusal(request, ErrorCode.unknown_server_error))
        take_apart(header.api_key, response)
        return packed

    def _split(self, api_key: int, body: Any) -> dict[int, Any]:
        return spanning.split(api_key, body, self._share.partition_of, self._share.spread().total)

    def _encode(self, header: Header, response: Any) -> bytes:
        return codec.encode(header.api_key, header.api_version, header.correlation_id, response)


def _correlation_id(frame: bytes) -> int:
    return int.from_bytes(frame[_CORRELATION_ID], "big", signed=True)


def _both(first: Finish | None, second: Finish) -> Finish:
    return second if first is None else lambda response: second(first(response))
