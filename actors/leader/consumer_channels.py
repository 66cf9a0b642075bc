"""The connections on which a leader sends requests to the consumers of push groups (D6).

A consumer registers on a connection, and only there can it be reached: one consumer a connection. Each
request to it has a correlation id of the connection's own, which are negative; its answer has the same.
Whatever a consumer answers that it was not asked closes its connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from actors.ground.acl import Operation, ResourceType
from actors.ground.contract import Push, Request, Token
from actors.ground.identity import ClientIdentity
from actors.metrics.counts import RequestCounts
from actors.protocol.api_keys import CHANNEL_CLOSED
from actors.protocol.errors import MalformedRequest
from actors.protocol.push_codec import FIRST_ID, answer_id, read_answer, written_push
from actors.protocol.push_messages import (
    ChannelClosed,
    ConsumerAnswer,
    Hangup,
    Pushed,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
)
from actors.replica.replica import Replica
from actors.security.gate import Gate

OWED_MAX: Final = 64
"""How many requests of one consumer are remembered that it has not answered: the coordinator waits for three
at most, and late answers come."""
REPLACED: Final = "its consumer registers at another coordinator"
"""Why a connection is closed whose group is served elsewhere by now."""


class Reachable(Protocol):
    """A client's own connection, as far as a channel needs it."""

    channel: Channel | None

    @property
    def identity(self) -> ClientIdentity: ...
    def push(self, frame: bytes) -> bool: ...
    def close(self, reason: str | None = None) -> None: ...


class Channel:
    """The connection of one registered consumer."""

    __slots__ = ("connection", "consumer_id", "group_id", "next_id", "owed", "session")

    def __init__(self, connection: Reachable, session: Token, body: RegisterConsumerRequest) -> None:
        self.connection = connection
        self.session = session
        self.group_id = body.group_id
        self.consumer_id = body.consumer_id
        self.next_id = FIRST_ID
        self.owed: dict[int, tuple[int, int]] = {}
        """Correlation id -> API key and number of a request that has no answer yet."""

    def send(self, pushed: Pushed) -> None:
        correlation_id, self.next_id = self.next_id, self.next_id + 1 if self.next_id < -1 else FIRST_ID
        if self.connection.push(written_push(correlation_id, pushed)):
            self.owed[correlation_id] = (pushed.api_key, pushed.number)
            if len(self.owed) > OWED_MAX:
                del self.owed[next(iter(self.owed))]

    def answer(self, frame: bytes) -> tuple[int, ConsumerAnswer]:
        """Return API key and answer of a frame. Raises MalformedRequest for an answer to nothing that was
        asked."""
        correlation_id = answer_id(frame)
        asked = self.owed.pop(correlation_id, None)
        if asked is None:
            raise MalformedRequest(f"an answer to request {correlation_id} of the coordinator: it sent none")
        api_key, number = asked
        error_code, consumer_id, offsets, is_shutting_down = read_answer(api_key, frame)
        if consumer_id != self.consumer_id:
            raise MalformedRequest(f"an answer of consumer {consumer_id}, which is not registered here")
        answer = ConsumerAnswer(
            self.group_id, consumer_id, self.session, number, error_code, offsets, is_shutting_down
        )
        return api_key, answer


class ConsumerChannels:
    """The channels of one replica, while it leads."""

    def __init__(self, replica: Replica, now_ms: Callable[[], int], counts: RequestCounts) -> None:
        self._replica = replica
        self._now_ms = now_ms
        self._counts = counts
        self._channels: dict[Token, Channel] = {}
        """The channels by the token of the RegisterConsumer that they began with."""
        replica.push = self.push

    def __len__(self) -> int:
        return len(self._channels)

    def open(self, connection: Reachable, request: Request) -> RegisterConsumerResponse | None:
        """Make a channel of the connection on which a consumer registers, before the coordinator decides.
        Return the refusal if another consumer has it already; else None."""
        body: RegisterConsumerRequest = request.body
        known = connection.channel
        if known is not None:
            message = (
                f"Consumer {known.consumer_id} of group {known.group_id} is registered on this connection:"
                " each consumer needs one of its own."
            )
            return RegisterConsumerResponse(ErrorCode.invalid_request, message)
        connection.channel = self._channels[request.token] = Channel(connection, request.token, body)
        return None

    def decided(self, session: Token, response: RegisterConsumerResponse) -> RegisterConsumerResponse:
        """Forget the channel of a consumer that was refused. Return the response as it is."""
        if response.error_code:
            channel = self._channels.pop(session, None)
            if channel is not None:
                channel.connection.channel = None
        return response

    def push(self, push: Push) -> None:
        """Send a request of the coordinator, unless it is too late for it, or end the connection."""
        channel = self._channels.get(push.token)
        if channel is None:
            return
        if isinstance(push.body, Hangup):
            channel.connection.close(push.body.reason)
            return
        expires_ms = channel.connection.identity.session_expires_ms
        if expires_ms and time.time() * 1000 > expires_ms:
            channel.connection.close("its login has expired")
        elif self._now_ms() <= push.body.until_ms:
            channel.send(push.body)

    def answered(self, connection: Reachable, frame: bytes) -> None:
        """Give a consumer's answer to the coordinator. Raises MalformedRequest, for which the connection is
        to be closed."""
        channel = connection.channel
        if channel is None:
            raise MalformedRequest("an answer to a coordinator on a connection where no consumer registered")
        api_key, answer = channel.answer(frame)
        self._counts.of(api_key).fine += 1
        self._tell(api_key, answer)

    def closed(self, connection: Reachable) -> None:
        """Tell the coordinator that a connection is gone, if a consumer has registered on it."""
        channel, connection.channel = connection.channel, None
        if channel is not None and self._channels.pop(channel.session, None) is not None:
            body = ChannelClosed(channel.group_id, channel.consumer_id, channel.session)
            self._tell(CHANNEL_CLOSED, body)

    def close_all(self) -> None:
        """Close the connections of all consumers: they look for the new coordinator at once."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.connection.close(None)

    def review(self, gate: Gate, has: Callable[[str], bool]) -> None:
        """Close the connections of consumers that may not read their group any more, or whose group has moved
        to another offsets partition."""
        for channel in list(self._channels.values()):
            identity = channel.connection.identity
            access = gate.access(identity.principal, identity.client_host)
            if not has(channel.group_id):
                channel.connection.close(REPLACED)
            elif not access.may(Operation.READ, ResourceType.GROUP, channel.group_id):
                channel.connection.close(f"its user may not read group {channel.group_id} any more")

    def _tell(self, api_key: int, body: Any) -> None:
        self._replica.tell(Request(0, api_key, 0, "", "", body), self._now_ms())
