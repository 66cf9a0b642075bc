"""The way back to the brokers with one mistake each, for the world to find; see `mutants`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from actors.upstream import leaving, moving
from actors.upstream.fresh import Fresh
from actors.upstream.joining import ELSEWHERE, Step
from actors.upstream.leaving import GIVEN_BACK, LEAVING, SEALING, STAYING
from actors.upstream.moves import ToIsr
from actors.upstream.moving import Moving
from actors.upstream.orders import DROP, LOOK, RELEASE, SEAL, UNSEAL
from tests.simulation.noticing import Mutant

_STEP: Final = leaving.step


@contextmanager
def _stepping(mistake: Any) -> Iterator[None]:
    def mistaken(state: Any, standing: Any, watched: Any, tier: Any, *, leaves: bool) -> Step:
        found: Step = mistake(_STEP(state, standing, watched, tier, leaves=leaves), state, tier)
        return found

    with patch.object(leaving, "step", mistaken):
        yield


@contextmanager
def leads_before_the_seal() -> Iterator[None]:
    """No broker comes into the ISR as long as groups are served here."""

    def mistake(step: Step, state: Any, tier: Any) -> Step:
        if step.phase != LEAVING or step.order != SEAL:
            return step
        return step._replace(move=ToIsr(tuple(dict.fromkeys((state.leader, *state.isr, *state.replicas)))))

    with _stepping(mistake):
        yield


@contextmanager
def leads_before_it_has_all() -> Iterator[None]:
    """Brokers come into the ISR when they have the sealed log to its end."""

    def mistake(step: Step, state: Any, tier: Any) -> Step:
        if step.phase != SEALING:
            return step
        brokers = [each for each in state.replicas if each not in tier]
        return step._replace(move=ToIsr(tuple(dict.fromkeys((state.leader, *state.isr, *brokers)))))

    with _stepping(mistake), patch.object(leaving, "LAG_MAX", 10**9):
        yield


@contextmanager
def takes_any_end_for_the_sealed_one() -> Iterator[None]:
    """The log ends with the seal, not where it ended when a node was asked last."""
    with patch.object(leaving, "_have_all", leaving._are_near), patch.object(leaving, "LAG_MAX", 10):
        yield


@contextmanager
def unseals_while_brokers_may_lead() -> Iterator[None]:
    """The seal is taken back when no broker is a replica any more."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=UNSEAL) if step.phase in (STAYING, SEALING) else step

    with _stepping(mistake):
        yield


@contextmanager
def never_seals() -> Iterator[None]:
    """A partition is sealed when brokers have nearly all of it."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=LOOK) if step.order == SEAL else step

    with _stepping(mistake):
        yield


@contextmanager
def keeps_the_seal() -> Iterator[None]:
    """What stays is served again."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=LOOK) if step.order == UNSEAL else step

    with _stepping(mistake):
        yield


@contextmanager
def keeps_what_brokers_lead() -> Iterator[None]:
    """What brokers have is removed here."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=LOOK) if step.order == DROP else step

    with _stepping(mistake):
        yield


@contextmanager
def lets_others_move_what_leaves() -> Iterator[None]:
    """The reconcile of leaders keeps its hands off a partition that leaves."""
    with patch.object(leaving, "UNDER_WAY", frozenset()):
        yield


@contextmanager
def believes_old_answers() -> Iterator[None]:
    """What was asked for before the reassignment says nothing of a seal that was taken back meanwhile."""

    def mistaken(fresh: Fresh, leaders: Any, index: int) -> bool:
        return True

    with patch.object(Fresh, "is_fresh", mistaken):
        yield


@contextmanager
def waits_for_ever() -> Iterator[None]:
    """Nobody may serve a partition's groups for a few seconds, not more."""
    with patch.object(moving, "SEALED_MS", 10**9), patch.object(moving, "STALLED_MS", 10**9):
        yield


@contextmanager
def all_leave_at_once() -> Iterator[None]:
    """One partition leaves at a time."""

    def mistaken(self: Moving, seen: Any, now_ms: int) -> set[int]:
        return set(seen.partitions) if seen.goal == 4 else set()

    with patch.object(Moving, "_that_leave", mistaken):
        yield


@contextmanager
def notes_that_they_have_all_before_they_do() -> Iterator[None]:
    """It is noted that brokers have everything when they have it, not before."""

    def mistake(step: Step, *_: Any) -> Step:
        return step._replace(order=RELEASE) if step.phase == SEALING and step.move is None else step

    with _stepping(mistake):
        yield


@contextmanager
def never_notes_that_they_have_all() -> Iterator[None]:
    """A broker that leads because it was given everything is not taken for one that lacks something."""

    def mistaken(state: Any, standing: Any, *args: Any, **more: Any) -> Step:
        noted = standing._replace(released_epoch=state.leader_epoch)
        found = _STEP(state, noted, *args, **more)
        return _STEP(state, standing, *args, **more) if found.move is None else found

    with patch.object(leaving, "step", mistaken):
        yield


@contextmanager
def takes_any_broker_for_one_that_has_all() -> Iterator[None]:
    """A broker that leads what is sealed has everything only if that was noted in the epoch before."""

    def mistaken(state: Any, standing: Any, *args: Any, **more: Any) -> Step:
        found = _STEP(state, standing, *args, **more)
        is_noted = found.phase == ELSEWHERE and standing.released_epoch >= 0
        return Step(GIVEN_BACK, DROP) if is_noted else found

    with patch.object(leaving, "step", mistaken):
        yield


LEAVING_MUTANTS: Final[tuple[Mutant, ...]] = (
    leads_before_the_seal,
    leads_before_it_has_all,
    takes_any_end_for_the_sealed_one,
    unseals_while_brokers_may_lead,
    never_seals,
    keeps_the_seal,
    keeps_what_brokers_lead,
    lets_others_move_what_leaves,
    believes_old_answers,
    waits_for_ever,
    all_leave_at_once,
    notes_that_they_have_all_before_they_do,
    never_notes_that_they_have_all,
    takes_any_broker_for_one_that_has_all,
)
