"""The coordinator that pushes with one mistake each, for the checkers to find.

A mutant is a function that puts its mistake in the place of what it undoes, for as long as its context lasts;
its docstring states the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.push import answers, area, committed, rebalance, register, sending
from actors.coordinator.push.group import STOPPING, Consumer, PushGroup
from actors.ground.contract import Push, Record, Reply
from actors.ground.records import PUSH_GROUP, PushGroupKey, PushGroupValue
from actors.protocol.api_keys import STOP_FETCHER
from actors.replica.replica import Replica

Mutant = Callable[[], Any]


@contextmanager
def starts_when_the_first_has_stopped() -> Iterator[None]:
    """Nobody is started before all have stopped (D8)."""
    waits = rebalance._awaits_no_more

    def mistaken(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
        if group.state is STOPPING and group.awaited and consumer.consumer_id in group.awaited:
            group.awaited = {consumer.consumer_id: None}
        waits(outcome, group, consumer)

    with patch.object(rebalance, "_awaits_no_more", mistaken):
        yield


@contextmanager
def removes_the_silent_at_once() -> Iterator[None]:
    """A silent consumer is removed when it has certainly stopped (D4, D10)."""
    with patch.object(Consumer, "silent_until_ms", property(lambda consumer: consumer.sent_ms)):
        yield


@contextmanager
def forgets_that_members_may_have_started() -> Iterator[None]:
    """The next leader knows that a rebalance was under way, and what consumers may own (D8)."""

    def mistaken(group: PushGroup) -> Any:
        value = PushGroupValue(group.epoch, 0, group.since_ms)
        return Record(PushGroupKey(PUSH_GROUP, group.group_id), value)

    ended = rebalance._all_started

    def writes_late(outcome: Outcome, group: PushGroup) -> None:
        new = rebalance.divided(
            {each.consumer_id: each.value for each in group.consumers.values()}, outcome.state.image
        )
        outcome.records += real(outcome.state, group, new)
        ended(outcome, group)

    real = rebalance._ownership_records
    with (
        patch.object(rebalance, "group_record", mistaken),
        patch.object(rebalance, "_ownership_records", lambda state, group, new: []),
        patch.object(rebalance, "_all_started", writes_late),
    ):
        yield


@contextmanager
def drops_the_offsets_of_a_stop() -> Iterator[None]:
    """What a consumer had read when it stopped is committed before another starts (D5, D8)."""

    def mistaken(outcome: Outcome, group: PushGroup, consumer: Consumer, answer: Any) -> None:
        rebalance.stopped(outcome, group, consumer)

    with patch.dict(answers._TAKE, {STOP_FETCHER: mistaken}):
        yield


@contextmanager
def starts_from_before_the_stop() -> Iterator[None]:
    """The offsets of the last who stopped count for those who start (D5)."""

    def mistaken(outcome: Outcome, group: PushGroup, consumer: Consumer) -> None:
        consumer.is_started = consumer.may_read = False
        if group.state is STOPPING and group.awaited is not None:
            group.awaited.pop(consumer.consumer_id, None)
            if not group.awaited:
                rebalance._all_stopped(outcome, group)

    with patch.object(answers, "stopped", mistaken), patch.object(register, "stopped", mistaken):
        yield


@contextmanager
def a_new_leader_waits_for_nobody() -> Iterator[None]:
    """A new leader waits for the consumers that it knows until they have certainly stopped (D10)."""
    lose = sending.lose

    def mistaken(state: Any, group: PushGroup, consumer: Consumer, now_ms: int) -> None:
        if consumer.channel is None:
            consumer.sent_ms = 0
        lose(state, group, consumer, now_ms)

    with patch.object(area.sending, "lose", mistaken):
        yield


@contextmanager
def never_starts_who_comes_back() -> Iterator[None]:
    """A consumer that has registered again is started with what it owns (D10)."""
    with patch.object(rebalance, "_start_those_who_wait", lambda outcome, group: None):
        yield


@contextmanager
def does_not_wait_for_who_cannot_be_reached() -> Iterator[None]:
    """Who cannot be reached is waited for before others start (D8)."""
    real = rebalance._begin_attempt

    def mistaken(outcome: Outcome, group: PushGroup) -> None:
        real(outcome, group)
        assert group.awaited is not None
        for consumer in group.consumers.values():
            if consumer.channel is None:
                rebalance._awaits_no_more(outcome, group, consumer)

    with patch.object(rebalance, "_begin_attempt", mistaken):
        yield


@contextmanager
def sends_before_it_is_committed() -> Iterator[None]:
    """A request to a consumer leaves when the records before it are committed."""
    real = Replica._park

    def mistaken(replica: Replica, reply: Reply | Push) -> None:
        if isinstance(reply, Push):
            replica.push(reply)
        else:
            real(replica, reply)

    with patch.object(Replica, "_park", mistaken):
        yield


@contextmanager
def commits_an_offset_once() -> Iterator[None]:
    """Offsets of every answer are committed (D4)."""
    real = committed.commit

    def mistaken(outcome: Outcome, group: PushGroup, consumer: Consumer, told: Any) -> None:
        if group.group_id not in outcome.state.offsets:
            real(outcome, group, consumer, told)

    with patch.object(answers, "commit", mistaken):
        yield


MUTANTS: Final[tuple[Mutant, ...]] = (
    starts_when_the_first_has_stopped,
    removes_the_silent_at_once,
    forgets_that_members_may_have_started,
    drops_the_offsets_of_a_stop,
    starts_from_before_the_stop,
    a_new_leader_waits_for_nobody,
    never_starts_who_comes_back,
    does_not_wait_for_who_cannot_be_reached,
    sends_before_it_is_committed,
    commits_an_offset_once,
)
