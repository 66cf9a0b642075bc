"""The moving of partitions with one mistake each, for the world to find.

A mutant is a function that puts its mistake in the place of what it undoes, for as long as its context lasts;
its docstring states the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from actors.ground.upstream_goal import ABORTED, ATTACHED, PAUSED
from actors.upstream import joining, leaving, moving
from actors.upstream.efforts import Effort
from actors.upstream.joining import GIVING_BACK, JOINING, Step
from actors.upstream.moves import ToIsr
from actors.upstream.moving import Moving
from actors.upstream.orders import DROP, FOLLOW, LOOK, RETAKE, SERVE, Order
from tests.simulation.noticing import Mutant
from tests.simulation.upstream.mutants import waits_for_a_lost_answer

_STEP: Final = joining.step
_LEAVING_STEP: Final = leaving.step


@contextmanager
def _stepping(mistake: Any) -> Iterator[None]:
    """Have every step of a partition pass through a mistake."""

    def mistaken(*args: Any, **more: Any) -> Step:
        found: Step = mistake(_STEP(*args, **more), *args)
        return found

    with patch.object(moving, "step", mistaken):
        yield


@contextmanager
def drops_what_the_brokers_count_on() -> Iterator[None]:
    """What was fetched is kept as long as one of our nodes may be in the ISR."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=DROP) if step.phase == GIVING_BACK else step

    with _stepping(mistake), patch.object(Effort, "is_settled", lambda *_: True):
        yield


@contextmanager
def serves_before_it_leads() -> Iterator[None]:
    """Groups are served when a node of ours leads the partition upstream, not before."""

    def mistake(step: Step, state: Any, *_: Any) -> Step:
        is_in_sync = bool(set(state.isr) & set(state.adding_replicas))
        return step._replace(order=SERVE) if step.phase == JOINING and is_in_sync else step

    with _stepping(mistake):
        yield


@contextmanager
def serves_beside_brokers() -> Iterator[None]:
    """Nothing is served as long as a broker could get leadership back."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=SERVE, move=None) if isinstance(step.move, ToIsr) else step

    with _stepping(mistake):
        yield


@contextmanager
def does_not_serve_what_it_leads() -> Iterator[None]:
    """A partition that a node of ours leads upstream is served, whatever the goal is."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=LOOK) if step.order == SERVE else step

    with _stepping(mistake):
        yield


@contextmanager
def leaves_the_reassignment() -> Iterator[None]:
    """What is given back is no more reassigned to the tier."""
    with patch.object(joining, "_away", lambda state, tier: None):
        yield


@contextmanager
def keeps_what_was_fetched() -> Iterator[None]:
    """What was fetched is removed when the partition is given back."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=LOOK) if step.order == DROP else step

    with _stepping(mistake):
        yield


@contextmanager
def drops_at_once() -> Iterator[None]:
    """Nothing is removed while a reassignment may be under way that the metadata do not show yet."""
    with patch.object(Effort, "is_settled", lambda *_: True):
        yield


@contextmanager
def fetches_nothing() -> Iterator[None]:
    """Whoever is to be a replica fetches."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=LOOK) if step.order == FOLLOW else step

    with _stepping(mistake):
        yield


@contextmanager
def begins_all_at_once() -> Iterator[None]:
    """One partition is begun when the one before it is served."""

    def mistaken(self: Moving, at_once: int = 1) -> None:
        real(self, 100)

    real = Moving.__init__
    with patch.object(Moving, "__init__", mistaken):
        yield


@contextmanager
def begins_while_paused() -> Iterator[None]:
    """No partition is begun while it is paused."""
    real = Moving._decided

    def mistaken(self: Moving, seen: Any, live: Any, now_ms: int) -> Any:
        goal = ATTACHED if seen.goal == PAUSED else seen.goal
        return real(self, seen._replace(goal=goal), live, now_ms)

    with patch.object(Moving, "_decided", mistaken):
        yield


@contextmanager
def goes_on_after_an_abort() -> Iterator[None]:
    """An abort gives back what is under way."""
    real = Moving._decided

    def mistaken(self: Moving, seen: Any, live: Any, now_ms: int) -> Any:
        goal = ATTACHED if seen.goal == ABORTED else seen.goal
        return real(self, seen._replace(goal=goal), live, now_ms)

    with patch.object(Moving, "_decided", mistaken):
        yield


@contextmanager
def leaves_nodes_cordoned() -> Iterator[None]:
    """Kafka 4.4 takes no cordoned nodes: they are uncordoned while partitions move to them."""
    with patch.object(Moving, "uncordoned", frozenset()):
        yield


@contextmanager
def leaves_nodes_uncordoned() -> Iterator[None]:
    """When all is done the nodes are cordoned."""
    with patch.object(Moving, "uncordoned", frozenset({1001, 1002, 1003})):
        yield


@contextmanager
def is_detached_at_once() -> Iterator[None]:
    """It is detached when nothing of it is left here."""
    clear = property(lambda self: self._seen is not None and self._seen.goal == ABORTED)
    with patch.object(Moving, "is_clear", clear):
        yield


@contextmanager
def tries_once() -> Iterator[None]:
    """What has failed is tried again."""

    def mistaken(effort: Effort, now_ms: int) -> None:
        effort._due_ms = now_ms + 10**9

    with patch.object(Effort, "failed", mistaken):
        yield


@contextmanager
def makes_no_topic() -> Iterator[None]:
    """A cluster that has had no group yet gets its topic."""
    with patch.object(Moving, "_created_topic", lambda *_: iter(())):
        yield


@contextmanager
def leaves_it_led_outside() -> Iterator[None]:
    """What a broker leads though it was not given back is taken over again."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=LOOK) if step.order == RETAKE else step

    with patch.object(leaving, "step", lambda *args, **more: mistake(_LEAVING_STEP(*args, **more))):
        yield


@contextmanager
def gives_back_what_it_alone_has() -> Iterator[None]:
    """What is taken over again is served once more before it is given back."""
    with patch.object(Moving, "_is_retaken", lambda *_: False), patch.object(joining, "RETAKEN", "-"):
        yield


@contextmanager
def waits_for_the_goal_to_take_it_again() -> Iterator[None]:
    """What is taken over again is so whatever the goal is."""
    with patch.object(Moving, "_is_retaken", lambda *_: False):
        yield


@contextmanager
def names_nobody_to_look_at() -> Iterator[None]:
    """Before what was fetched is removed it is looked whether the broker that leads has it."""
    real = Moving._order

    def mistaken(self: Moving, seen: Any, index: int) -> Order:
        order = real(self, seen, index)
        return order._replace(source=None) if order.order == DROP else order

    with patch.object(Moving, "_order", mistaken):
        yield


MUTANTS: Final[tuple[Mutant, ...]] = (
    drops_what_the_brokers_count_on,
    serves_before_it_leads,
    serves_beside_brokers,
    does_not_serve_what_it_leads,
    leaves_the_reassignment,
    keeps_what_was_fetched,
    drops_at_once,
    fetches_nothing,
    begins_all_at_once,
    begins_while_paused,
    goes_on_after_an_abort,
    leaves_nodes_cordoned,
    leaves_nodes_uncordoned,
    is_detached_at_once,
    waits_for_a_lost_answer,
    tries_once,
    makes_no_topic,
    leaves_it_led_outside,
    gives_back_what_it_alone_has,
    waits_for_the_goal_to_take_it_again,
    names_nobody_to_look_at,
)
