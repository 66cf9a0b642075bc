"""The coordinator of a group whose members compute, with one mistake each, for the checkers to find.

A mutant is a function that puts its mistake in the place of what it undoes, for as long as its context lasts;
its docstring states the rule. Not here, because no seed in sixty met it: a leader that falls and leads again
goes on with what it had asked for before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from actors.coordinator.consumer import asking_members, handing_out, installing, leave, members, target
from actors.coordinator.consumer.client_assignors import job
from actors.coordinator.consumer.client_assignors.job import Computation, Handed
from actors.coordinator.consumer.model.group import ConsumerGroup
from actors.coordinator.consumer.model.state import kept
from actors.ground.contract import Record, Request, Result
from actors.ground.records import CLIENT_ASSIGNORS
from actors.protocol.client_assignor_messages import InstallAssignmentRequest
from tests.simulation.noticing import Mutant


@contextmanager
def takes_whatever_is_computed() -> Iterator[None]:
    """A result is checked against exactly what was handed out (A10)."""
    with patch.object(installing, "problem", lambda handed, group, body: None):
        yield


@contextmanager
def takes_any_epoch() -> Iterator[None]:
    """A result is of the epoch that was handed out (A10)."""
    real = installing.problem

    def mistaken(handed: Handed | None, group: ConsumerGroup, body: InstallAssignmentRequest) -> str | None:
        epoch = body.group_epoch if handed is None else handed.group_epoch
        return real(handed, group, body._replace(group_epoch=epoch))

    with patch.object(installing, "problem", mistaken):
        yield


@contextmanager
def takes_it_from_anybody() -> Iterator[None]:
    """A result is taken from who was asked alone (A10)."""

    def mistaken(state: Any, body: Any) -> tuple[ConsumerGroup, Computation]:
        computation = kept(state).computations.get(body.group_id)
        if computation is not None and computation.member_id and computation.handed is not None:
            computation.member_id = body.member_id
        return real(state, body)

    real = handing_out.find_computation
    with patch.object(installing, "find_computation", mistaken):
        yield


@contextmanager
def counts_for_the_next_epoch() -> Iterator[None]:
    """A result counts for the epoch that it was computed for (A11)."""
    real = installing.target_records

    def mistaken(group_id: str, changes: Any, epoch: int, now_ms: int) -> list[Record]:
        return real(group_id, changes, epoch + 1, now_ms)

    with patch.object(installing, "target_records", mistaken):
        yield


@contextmanager
def waits_with_the_next_computation() -> Iterator[None]:
    """If the group has gone on, the next computation begins at once (A11)."""
    real = installing._installed

    def mistaken(state: Any, group: Any, computation: Any, request: Request, now_ms: int) -> Result:
        result = real(state, group, computation, request, now_ms)
        job.end(state, request.body.group_id)
        return result

    with patch.object(installing, "_installed", mistaken):
        yield


@contextmanager
def does_not_take_what_is_of_an_epoch_before() -> Iterator[None]:
    """A result is taken though the group is an epoch further (A11)."""
    real = installing.problem

    def mistaken(handed: Handed | None, group: ConsumerGroup, body: InstallAssignmentRequest) -> str | None:
        return "too late" if group.group_epoch > body.group_epoch else real(handed, group, body)

    with patch.object(installing, "problem", mistaken):
        yield


@contextmanager
def never_gives_up() -> Iterator[None]:
    """When all have failed the server's assignor runs (A11)."""
    with patch.object(asking_members, "have_all_failed", lambda computation, group: False):
        yield


@contextmanager
def waits_for_the_silent() -> Iterator[None]:
    """Who computes has a time limit (A11)."""
    real = asking_members.begin

    def mistaken(state: Any, group_id: str, member_id: str, assignor: str, now_ms: int) -> None:
        real(state, group_id, member_id, assignor, now_ms)
        state.timers.cancel((job.COMPUTATION_TIMER, group_id))

    with patch.object(asking_members, "begin", mistaken):
        yield


@contextmanager
def assigns_without_a_word() -> Iterator[None]:
    """That the server's assignor runs, and why, is told (A11)."""
    real = asking_members.ask

    def mistaken(decision: Any) -> bool:
        before = len(decision.events)
        is_asked = real(decision)
        if not is_asked:
            del decision.events[before:]
        return is_asked

    with patch.object(target, "ask_member", mistaken):
        yield


@contextmanager
def keeps_the_assignors_of_who_is_gone() -> Iterator[None]:
    """A member's assignors go with it (A4)."""
    real = members.member_tombstones

    def mistaken(group: ConsumerGroup, member_id: str) -> list[Record]:
        return [each for each in real(group, member_id) if each.key[0] != CLIENT_ASSIGNORS]

    with (
        patch.object(members, "member_tombstones", mistaken),
        patch.object(leave, "member_tombstones", mistaken),
    ):
        yield


MUTANTS: Final[Mapping[Mutant, int]] = {
    takes_whatever_is_computed: 15,
    takes_any_epoch: 15,
    takes_it_from_anybody: 11,
    counts_for_the_next_epoch: 0,
    waits_with_the_next_computation: 3,
    does_not_take_what_is_of_an_epoch_before: 3,
    never_gives_up: 30,
    waits_for_the_silent: 4,
    assigns_without_a_word: 14,
    keeps_the_assignors_of_who_is_gone: 0,
}
"""Each mistake, and a seed that notices it."""
