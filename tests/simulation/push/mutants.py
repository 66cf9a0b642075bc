"""The coordinator that pushes with one mistake each, for the checkers to find.

A mutant is a function that puts its mistake in the place of what it undoes, for as long as its context lasts;
its docstring states the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push import answers, area, committed, rebalance, register, sending
from actors.coordinator.push.group import STOPPING, Consumer, PushGroup
from actors.coordinator.push.state import PushGroups
from actors.ground.contract import Push, Record, Reply
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.records import PUSH_GROUP, PushConsumerValue, PushGroupKey, PushGroupValue
from actors.protocol.api_keys import STOP_FETCHER
from actors.replica.replica import Replica
from tests.simulation.noticing import Mutant


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


@contextmanager
def _hears_of(is_told: Callable[[TopicImage | None, TopicImage | None], bool]) -> Iterator[None]:
    """Groups hear of those changes of topics (as it was, as it is) alone that the function lets through."""
    real = area.on_metadata

    def mistaken(state: ShardState, before: MetadataImage, now_ms: int) -> None:
        old, new = before.topics, state.image.topics
        names = old.keys() | new.keys()
        untold = {name for name in names if not is_told(old.get(name), new.get(name))}
        was = [each for name, each in old.items() if name not in untold]
        was += [each for name, each in new.items() if name in untold]
        real(state, MetadataImage(topics=tuple(was)), now_ms)

    with patch.object(area, "on_metadata", mistaken):
        yield


@contextmanager
def overlooks_new_partitions() -> Iterator[None]:
    """A topic that has grown has its groups look whether to rebalance (D7)."""
    with _hears_of(lambda old, new: old is None or new is None):
        yield


@contextmanager
def overlooks_topics_that_come() -> Iterator[None]:
    """A topic that was named before it was there has its groups look when it comes (D7)."""
    with _hears_of(lambda old, new: old is not None):
        yield


@contextmanager
def overlooks_topics_that_go() -> Iterator[None]:
    """A topic that is deleted has its groups look (D7)."""
    with _hears_of(lambda old, new: new is not None):
        yield


@contextmanager
def overlooks_who_has_wildcards() -> Iterator[None]:
    """Groups with wildcards look whenever a topic changes (D9)."""
    real = PushGroups.note_interest

    def mistaken(groups: PushGroups, group: PushGroup, value: PushConsumerValue) -> None:
        real(groups, group, value)
        groups.wildcard_groups.pop(group.group_id, None)

    with patch.object(PushGroups, "note_interest", mistaken):
        yield


@contextmanager
def forgets_what_happens_meanwhile() -> Iterator[None]:
    """What happens in the midst of a rebalance makes the next one (D9)."""
    real = rebalance.set_due

    def mistaken(state: ShardState, group: PushGroup, now_ms: int, cause: Any = None) -> None:
        if not group.is_moving:
            real(state, group, now_ms, cause)

    with ExitStack() as stack:
        for module in (rebalance, register, area, answers):
            stack.enter_context(patch.object(module, "set_due", mistaken))
        yield


@contextmanager
def never_takes_the_bit_back() -> Iterator[None]:
    """The bit is taken back when it is looked at: what happens later sets it anew (D9)."""
    with patch.object(PushGroup, "is_due", _Sticky()):
        yield


class _Sticky:
    """A bit that stays set."""

    def __init__(self) -> None:
        self._set: set[int] = set()

    def __get__(self, group: PushGroup | None, owner: type[PushGroup]) -> bool:
        return group is not None and id(group) in self._set

    def __set__(self, group: PushGroup, value: bool) -> None:
        if value:
            self._set.add(id(group))


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
    overlooks_new_partitions,
    overlooks_topics_that_come,
    overlooks_topics_that_go,
    overlooks_who_has_wildcards,
    forgets_what_happens_meanwhile,
    never_takes_the_bit_back,
)
