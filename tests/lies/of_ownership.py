"""Lies about who owns what. PURE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from actors.protocol.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
)
from actors.protocol.consumer_protocol import Assignment, TopicNumbers, read_assignment, write_assignment
from actors.protocol.messages import ConsumerGroupHeartbeatResponse
from tests.lies.answers import beaten, left, refused
from tests.lies.exchange import Asked, Doing, Pass, Tell
from tests.lies.lie import BROKEN, EXPIRED, WENT_BACK, Expected, Lie

VICTIM = "0"
"""The member that is lied to, by its place in the group."""


class TwoOwnersInOneGeneration(Lie):
    """SyncGroup gives partition 0 to every member of a classic group."""

    expected = Expected("ownership", BROKEN, "two owners at one epoch", WENT_BACK)
    from_s = 0.0
    about = frozenset({SYNC_GROUP})
    group = "range"

    def tells(self, asked: Asked, answer: Any) -> Any:
        return _assigned(answer, lambda topics: tuple((t, tuple({0, *numbers})) for t, numbers in topics))


class OneIsLeftOut(Lie):
    """SyncGroup gives partition 0 of a classic group to nobody."""

    expected = Expected("recovery", BROKEN, "without an owner")
    from_s = 0.0
    about = frozenset({SYNC_GROUP})
    group = "range"

    def tells(self, asked: Asked, answer: Any) -> Any:
        return _assigned(answer, lambda topics: tuple((t, tuple(n for n in ns if n)) for t, ns in topics))


class LastGenerationsAssignment(Lie):
    """SyncGroup answers every member with what it was assigned in the generation before."""

    expected = Expected("ownership", BROKEN, "two owners at one epoch", WENT_BACK)
    stage = "newcomer"
    about = frozenset({SYNC_GROUP})
    group = "range"

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[str, bytes] = {}

    def learns(self, asked: Asked, answer: Any) -> None:
        if asked.api_key == SYNC_GROUP and answer.assignment:
            self._before.setdefault(asked.request.member_id, answer.assignment)

    def tells(self, asked: Asked, answer: Any) -> Any:
        return replace(answer, assignment=self._before.get(asked.request.member_id, answer.assignment))


class OldOwnerLivesOn(Lie):
    """One classic member's heartbeats are answered well and never forwarded: the server removes it and the
    others take over what it goes on owning."""

    expected = Expected("epochs", BROKEN, "generation an old one confirmed", EXPIRED)
    stage = "removed"
    about = frozenset({HEARTBEAT, OFFSET_COMMIT})
    group = "range"

    def does(self, asked: Asked) -> Doing:
        if asked.member != VICTIM:
            return Pass(asked.frame)
        if asked.api_key == OFFSET_COMMIT:  # it would keep the member alive
            return Tell(refused(asked, ErrorCode.rebalance_in_progress))
        return Tell(beaten(asked))


class OldConsumerLivesOn(Lie):
    """One KIP-848 member's heartbeats are answered well and never forwarded: the server removes it and the
    others take over what it goes on owning."""

    expected = Expected("ownership", BROKEN, "two owners at one time", EXPIRED)
    stage = "removed"
    about = frozenset({CONSUMER_GROUP_HEARTBEAT})
    group = "consumer"

    def does(self, asked: Asked) -> Doing:
        request = asked.request
        if asked.member != VICTIM or request.member_epoch <= 0:
            return Pass(asked.frame)
        epoch = request.member_epoch
        return Tell(ConsumerGroupHeartbeatResponse(ErrorCode.none, None, request.member_id, epoch, 500, None))


class TwoConsumersToldTheSame(Lie):
    """Every assignment of a KIP-848 group has partition 0 in it."""

    expected = Expected("ownership", BROKEN, "two owners", WENT_BACK)
    from_s = 0.0
    about = frozenset({CONSUMER_GROUP_HEARTBEAT})
    group = "consumer"

    def tells(self, asked: Asked, answer: Any) -> Any:
        return _told(answer, lambda numbers: tuple(sorted({0, *numbers})))


class NobodysPartition(Lie):
    """No assignment of a KIP-848 group has partition 0 in it."""

    expected = Expected("recovery", BROKEN, "without an owner")
    from_s = 0.0
    about = frozenset({CONSUMER_GROUP_HEARTBEAT})
    group = "consumer"

    def tells(self, asked: Asked, answer: Any) -> Any:
        return _told(answer, lambda numbers: tuple(number for number in numbers if number))


class SwallowsLeaving(Lie):
    """LeaveGroup is acknowledged and thrown away: until its session ends nobody gets what a member had."""

    expected = Expected("recovery", BROKEN, "without an owner", EXPIRED)
    stage = "leaver"
    about = frozenset({LEAVE_GROUP})
    group = "range"

    def does(self, asked: Asked) -> Doing:
        return Tell(left(asked))


def _assigned(answer: Any, change: Any) -> Any:
    """A SyncGroup's answer with other partitions; one that failed stays."""
    if answer.error_code or not answer.assignment:
        return answer
    assignment = read_assignment(answer.assignment)
    topics: TopicNumbers = change(assignment.partitions)
    if topics == assignment.partitions:
        return answer
    return replace(answer, assignment=write_assignment(Assignment(topics, assignment.user_data)))


def _told(answer: Any, change: Any) -> Any:
    """A KIP-848 answer with other partitions; one that says none stays."""
    if answer.error_code or answer.assignment is None:
        return answer
    topics = tuple(
        replace(topic, partitions=change(topic.partitions)) for topic in answer.assignment.topic_partitions
    )
    if topics == answer.assignment.topic_partitions:
        return answer
    return replace(answer, assignment=replace(answer.assignment, topic_partitions=topics))
