"""Plays operations on both sides, one after the other, and stops at the first answer that differs.

Answers that do not come at once are parked joins and syncs: after every operation both sides are asked
whether one of theirs has come, and if one has, the other must follow. What a server does after its answer is
waited for in `settling`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.oracle.connection import pause
from tests.oracle.generator import known
from tests.oracle.generator.asking import request
from tests.oracle.generator.knowledge import Request
from tests.oracle.generator.masks import assigned_in_all
from tests.oracle.generator.operation import Operation
from tests.oracle.generator.settling import HEARTBEAT, Settling
from tests.oracle.generator.sides import FOLLOW_S, HEARTBEAT_TOLD, Heard, Side
from tests.oracle.generator.slots import learn
from tests.oracle.generator.unsettled import Unsettled
from tests.oracle.play import CLOSED, NO_ANSWER, Step

MAY_PARK = {"join_group", "sync_group"}
PARK_S = 0.04
"""A join or a sync is parked if it has no answer for so long on either side."""
MARKERS_S = 0.05
"""How long to wait after EndTxn: its markers are still on their way when it is answered."""
SILENCE_S = 5.0
"""Longer than the timeouts of a parked join, the sync after it and the session after that."""
UNKNOWN_MEMBER_ID = 25
KEPT_OUT = ("group_state", "member_epoch", "group_epoch", "assignment_epoch", "client_id", "client_host")


class Outcome(NamedTuple):
    """How a sequence ended."""

    played: int
    """How many operations were sent to both sides."""
    steps: tuple[Sequence[Step], Sequence[Step]]
    """Kafka's and ours; the last one differs if `differs`."""
    differs: bool
    known: str | None
    """Why the sequence ended early though nothing is wrong."""


class Difference(Exception):
    """Two answers that are not the same; the last step of each side."""


class Explained(Exception):
    """Two answers that may differ, for the reason that is named; the sides are no longer the same."""


class Lockstep:
    """Plays one sequence of operations on two sides, each operation on Kafka's side first."""

    def __init__(self, kind: str, sides: tuple[Side, Side]) -> None:
        self._sides = sides
        self._settling = Settling(kind, sides)
        self._assigned_otherwise = False

    def play(self, operations: Sequence[Operation]) -> Outcome:
        played, differs, reason = 0, False, None
        try:
            for operation in operations:
                if self._settling.is_over():
                    break
                played += self._step(operation)
        except Difference:
            differs = True
        except Explained as error:
            reason = str(error)
        return Outcome(played, (self._sides[0].steps, self._sides[1].steps), differs, reason)

    def _step(self, operation: Operation) -> bool:
        theirs = self._sides[0]
        if operation.what == "pass_time":
            return self._pass_time()
        if operation.slot in theirs.parked:
            return False  # its connection waits for an answer
        self._agree(operation.slot)
        asked = [request(side.known, operation) for side in self._sides]
        if asked[0][:3] != asked[1][:3]:
            return False
        for side, one in zip(self._sides, asked, strict=True):
            side.post(one)
        self._collect(operation.slot, PARK_S if asked[0].api in MAY_PARK else FOLLOW_S)
        if asked[0].api == "end_txn":
            pause(MARKERS_S)
        for slot in sorted(set(theirs.parked) - {operation.slot}):
            self._collect(slot, 0.02)
        self._settle(asked[0])
        return True

    def _settle(self, asked: Request) -> None:
        try:
            self._settling.wait(asked)
        except Unsettled as error:
            theirs, ours = (side.steps[-1]["answer"] for side in self._sides)
            self._explain(str(error), asked.fields, theirs, ours)

    def _pass_time(self) -> bool:
        """Be silent until every timeout is over."""
        pause(SILENCE_S)
        for slot in sorted(self._sides[0].parked):
            self._collect(slot, 0.02)
        return True

    def _agree(self, slot: int) -> None:
        """Note which partitions the member owns on both sides, and which on neither: it may commit those."""
        owned = [side.known.slots[slot].owned() for side in self._sides]
        for side in self._sides:
            side.known.slots[slot].owned_here_only = frozenset(owned[0] ^ owned[1])

    def _collect(self, slot: int, seconds: float) -> None:
        """Take the answers of both if one has come; none within `seconds` is as good where it may park."""
        api, fields = self._sides[0].parked[slot].api, self._sides[0].parked[slot].fields
        if api in MAY_PARK and not self._one_has_come(slot, seconds):
            return
        heard = [side.answer(slot) for side in self._sides]
        for side, each in zip(self._sides, heard, strict=True):
            step = {"client": f"c{slot}", "does": f"gets the answer of {api}", "answer": each.compared}
            side.steps.append(step)
        theirs, ours = heard
        if theirs.compared != ours.compared and not self._is_told_sooner(api, heard):
            self._explain(api, fields, theirs.compared, ours.compared)
        if theirs.compared in (CLOSED, NO_ANSWER):
            raise Difference
        self._assigned_otherwise |= theirs.exact != ours.exact
        for side, each in zip(self._sides, heard, strict=True):
            learn(side.known.slots[slot], api, each.entity)
        if api == "join_group" and theirs.entity.error_code.value == UNKNOWN_MEMBER_ID:
            self._explain_forgotten_group()

    def _explain_forgotten_group(self) -> None:
        """Ours tells: Kafka describes what is committed, and so the group that it has forgotten."""
        ours = self._sides[1].described().entity.groups[0]
        if ours.error_code.value == 0 and ours.group_state == "Empty":
            raise Explained(known.FORGOTTEN_GROUP)

    def _is_told_sooner(self, api: str, heard: Sequence[Heard]) -> bool:
        """Whether a heartbeat's answers differ in the interval alone, and may."""
        answers = [each.compared for each in heard]
        if api != HEARTBEAT or not all(isinstance(answer, dict) for answer in answers):
            return False
        told_ms = [answer[HEARTBEAT_TOLD] for answer in answers]
        theirs, ours = ({**answer, HEARTBEAT_TOLD: 0} for answer in answers)
        return theirs == ours and self._sides[1].is_told_sooner(heard[1].entity.member_id, told_ms)

    def _explain(self, api: str, fields: Mapping[str, Any], theirs: Any, ours: Any) -> None:
        reason = known.reason(api, fields, theirs, ours)
        if reason is None and known.may_follow(api, theirs, ours):
            reason = known.ASSIGNED_OTHERWISE if self._is_assigned_otherwise() else None
        raise Difference if reason is None else Explained(reason)

    def _is_assigned_otherwise(self) -> bool:
        """Whether members are to have, or have had, other partitions, but the group is the same, or becomes
        so when its regexes are resolved."""
        end = time.monotonic() + FOLLOW_S
        while True:
            theirs, ours = (side.described(KEPT_OUT) for side in self._sides)
            if assigned_in_all(theirs.entity) == assigned_in_all(ours.entity):
                return self._assigned_otherwise or bool(theirs.exact != ours.exact)
            if time.monotonic() > end:
                return False
            pause(0.03)

    def _one_has_come(self, slot: int, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while True:
            if any(side.clients[slot].is_answered() for side in self._sides):
                return True
            if time.monotonic() > end:
                return False
            pause(0.002)
