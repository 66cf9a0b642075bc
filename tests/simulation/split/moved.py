"""Checkers of a split, from both groups' committed entries alone.

moved     what the parent held of the groups that move at its seal is what the child held at the arrival
markers   the last marker of each producer at the seal, or a later one, is in the child at the arrival
sealed    nothing is written for these groups in the parent after the seal, except that they are removed
opened    nothing but the copy is written in the child before the arrival
dropped   nothing is left in the parent at the end
"""

from __future__ import annotations

from typing import Any

from actors.coordinator.split.place import moves
from actors.ground.records import ARRIVAL, PRODUCER_MARKER, SPLIT_SEAL
from tests.simulation.checkers import Violation
from tests.simulation.split.halves import CHILD, PARTITIONS, Half


def check(parent: Half, child: Half) -> None:
    """Judge a split that is over. Raises Violation."""
    sealed_at = parent.state.writes((SPLIT_SEAL, "", CHILD))[0][0]
    arrived_at = child.state.writes((ARRIVAL, ""))[0][0]
    there, here = _held(parent, sealed_at), _held(child, arrived_at)
    wrong = sorted((key for key in there.keys() | here.keys() if there.get(key) != here.get(key)), key=repr)
    if wrong:
        key = wrong[0]
        raise Violation(
            f"moved: {key} was {there.get(key)} at the parent's seal, entry {sealed_at}, and {here.get(key)} "
            f"at the child's arrival, entry {arrived_at}"
        )
    _check_markers(parent, sealed_at, child, arrived_at)
    for key, writes in parent.state.history.items():
        late = [index for index, value in writes if index > sealed_at and value is not None]
        if late and _moves(key):
            raise Violation(f"sealed: {key} is written at entry {late[0]}, after the seal at {sealed_at}")
        if _moves(key) and writes[-1][1] is not None:
            raise Violation(f"dropped: {key} is still in the parent")


def _check_markers(parent: Half, sealed_at: int, child: Half, arrived_at: int) -> None:
    for key, writes in parent.state.history.items():
        upto = [value for at, value in writes if at <= sealed_at]
        if key[0] != PRODUCER_MARKER or not upto or upto[-1] is None:
            continue
        later = [value for at, value in writes if at > sealed_at]
        found = [value for at, value in child.state.writes(key) if at <= arrived_at]
        if not found or found[-1] not in (upto[-1], *later):
            raise Violation(f"markers: {key} is {upto[-1]} in the parent, the child has {found[-1:]}")


def _held(half: Half, index: int) -> dict[Any, Any]:
    """Return what moves as of an entry. The records of one entry have one index."""
    held = {}
    for key, writes in half.state.history.items():
        upto = [value for at, value in writes if at <= index]
        if _moves(key) and upto and upto[-1] is not None:
            held[key] = upto[-1]
    return held


def _moves(key: Any) -> bool:
    return key[0] != PRODUCER_MARKER and moves(key, CHILD, PARTITIONS)
