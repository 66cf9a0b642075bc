"""One fake member of a group, without I/O: the parts that members of both protocols have in common.

Requests and answers are the messages of `actors.protocol.messages`; shells that speak bytes use
`requests.encoded` and `answers.answer_to`. A shell sends what `next_request` gives, hands in the answer, and
waits until `next_deadline`. A shell that keeps its own time asks for each request by its name. PURE.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from actors.protocol import api_keys
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from bench.member.reactions import Reaction

Asked = (
    JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest | ConsumerGroupHeartbeatRequest
)
Told = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | ConsumerGroupHeartbeatResponse
NEWEST: Final[Mapping[type[Asked], tuple[int, int]]] = MappingProxyType(
    {
        JoinGroupRequest: (api_keys.JOIN_GROUP, 9),
        SyncGroupRequest: (api_keys.SYNC_GROUP, 5),
        HeartbeatRequest: (api_keys.HEARTBEAT, 4),
        LeaveGroupRequest: (api_keys.LEAVE_GROUP, 5),
        ConsumerGroupHeartbeatRequest: (api_keys.CONSUMER_GROUP_HEARTBEAT, 1),
    }
)
"""The API key and the newest version of each request, for shells that hand over messages."""
AT_ONCE: Final = float("-inf")
NEVER: Final = float("inf")


class Member(ABC):
    """A member. It has one request under way at a time; times are seconds of its shell's clock."""

    __slots__ = ("_due_at", "_is_waiting", "_sent_at", "epoch", "instance_id", "member_id")

    reactions: ClassVar[Mapping[int, Reaction]]

    def __init__(self, member_id: str, instance_id: str | None, epoch: int) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.epoch = epoch
        """The generation of a classic member, the member epoch of a consumer member."""
        self._is_waiting = False
        self._sent_at = AT_ONCE
        self._due_at = AT_ONCE

    @property
    def next_deadline(self) -> float:
        """The moment from which `next_request` gives a request; NEVER while an answer is awaited."""
        return NEVER if self._is_waiting else self._due_at

    def next_request(self, now: float) -> Asked | None:
        """The request to send now; None before `next_deadline`."""
        if self._is_waiting or now < self._due_at:
            return None
        self._is_waiting = True
        self._sent_at = now
        return self._request()

    def received(self, answer: Told) -> Reaction:
        """Take the answer to the last request, and give what it makes the member do. Its shell pauses before
        the next request after AGAIN, looks for the coordinator after FIND, and decides what GIVE_UP means."""
        reaction = self.take(answer)
        self._is_waiting = False
        self._due_at = self._sent_at + self.interval_s if self._is_at_rest(reaction) else AT_ONCE
        return reaction

    def unanswered(self) -> None:
        """Note that the last request will not be answered: the member asks again."""
        self._is_waiting = False
        self._due_at = AT_ONCE

    def reaction(self, error_code: int) -> Reaction:
        return self.reactions.get(error_code, Reaction.GIVE_UP)

    @property
    @abstractmethod
    def interval_s(self) -> float:
        """Seconds from the sending of one heartbeat to the sending of the next."""

    @abstractmethod
    def heartbeat(self) -> HeartbeatRequest | ConsumerGroupHeartbeatRequest:
        """The member's next heartbeat."""

    @abstractmethod
    def leave(self) -> LeaveGroupRequest | ConsumerGroupHeartbeatRequest | None:
        """The request by which the member leaves its group; None if a client like it just ends."""

    @abstractmethod
    def lose(self) -> None:
        """Lose the membership: the member owns nothing, and joins anew."""

    @abstractmethod
    def take(self, answer: Told) -> Reaction:
        """Do what an answer asks for, without regard to time."""

    @abstractmethod
    def _request(self) -> Asked:
        """The request that the member has to send next."""

    @abstractmethod
    def _is_at_rest(self, reaction: Reaction) -> bool:
        """Whether nothing but the next heartbeat is left to do."""
