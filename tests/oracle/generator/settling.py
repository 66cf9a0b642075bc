"""What a server does after its answer: it resolves a regex, and hands a group's config on to the coordinator.

Both sides are looked at until they show the same, and the member that was served last goes on to send the
heartbeats that a client would send meanwhile. Those are not compared, because one side may be ahead of the
other: of a regex that takes the place of another Kafka thinks at the heartbeat after, our tier at once.
"""

from __future__ import annotations

import time
from typing import Any

from tests.oracle.connection import pause
from tests.oracle.generator.asking import request
from tests.oracle.generator.choosing import BAD_REGEXES, HEARTBEAT_INTERVAL
from tests.oracle.generator.choosing_data import DATA_WEIGHTS
from tests.oracle.generator.knowledge import Request
from tests.oracle.generator.operation import SLOTS, Operation
from tests.oracle.generator.settling_data import SETTLE_S, rest
from tests.oracle.generator.sides import HEARTBEAT_TOLD, Heard, Side
from tests.oracle.generator.slots import SETTLED, learn
from tests.oracle.generator.unsettled import Unsettled

LOOK_S = 0.03
LOOKS = 1
"""How many looks, one after the other, must show the same state before it counts as settled."""
REGEX_LOOKS = 4
"""How many looks it takes after a regex: while it is not resolved, both sides show the same, too."""
REGEXES_HOLD_S = 9.0
"""Ten seconds after it has resolved a group's regexes, Kafka does it again with the next heartbeat; ours
without one."""
HEARTBEAT = "consumer_group_heartbeat"
MEMBERSHIP = {HEARTBEAT, "join_group", "leave_group"}


class Settling:
    """Brings both sides of one sequence to rest, Kafka's first."""

    def __init__(self, kind: str, sides: tuple[Side, Side]) -> None:
        self._is_of_groups = kind not in DATA_WEIGHTS
        self._sides = sides
        self._first_regex_s: float | None = None

    def is_over(self) -> bool:
        """Whether regexes may be resolved again any time now."""
        first = self._first_regex_s
        return first is not None and time.monotonic() - first > REGEXES_HOLD_S

    def wait(self, asked: Request) -> None:
        """Wait until an answer has had its effects. Raises Unsettled."""
        if not self._is_of_groups:
            rest(self._sides, asked)
            return
        if asked.api == "incremental_alter_configs":
            if not asked.fields["validate_only"]:
                self._wait_for_configs()
            return
        regex = asked.fields.get("subscribed_topic_regex")
        brings_regex = regex is not None and regex not in BAD_REGEXES
        if brings_regex and self._first_regex_s is None:
            self._first_regex_s = time.monotonic()
        if self._first_regex_s is not None and asked.api in MEMBERSHIP:
            self._wait_for_members(asked.slot, REGEX_LOOKS if brings_regex else LOOKS)

    def _wait_for_members(self, slot: int, looks: int) -> None:
        end, equal = time.monotonic() + SETTLE_S, 0
        while equal < looks:
            shown = [side.described().compared for side in self._sides]
            equal = equal + 1 if shown[0] == shown[1] else 0
            if not equal:
                if time.monotonic() > end:
                    self._give_up("consumer_group_describe", shown)
                self._beat(slot)
            pause(LOOK_S)

    def _wait_for_configs(self) -> None:
        """Wait until both sides describe the configs alike and tell a member the heartbeat interval."""
        end = time.monotonic() + SETTLE_S
        while (shown := [side.configs() for side in self._sides])[0] != shown[1]:
            if time.monotonic() > end:
                self._give_up("describe_configs", shown)
            pause(LOOK_S)
        pause(LOOK_S)
        members = [number for number in range(SLOTS) if self._is_member(number)]
        while members and not self._is_told(members[0], int(shown[0][HEARTBEAT_INTERVAL])):
            if time.monotonic() > end:
                self._give_up(HEARTBEAT, [side.steps[-1]["answer"] for side in self._sides])
            pause(LOOK_S)

    def _is_told(self, slot: int, interval_ms: int) -> bool:
        """Whether the slot's heartbeat shows the new interval, or the slot is no member any more."""
        heard = self._beat(slot)
        if any(each.entity is None for each in heard):
            self._give_up(HEARTBEAT, [each.compared for each in heard])
        if any(each.entity.error_code.value for each in heard):
            return True
        told = [each.compared[HEARTBEAT_TOLD] for each in heard]
        member_id, ours = heard[1].entity.member_id, self._sides[1]
        return told[0] == interval_ms and (told[1] == interval_ms or ours.is_told_sooner(member_id, told))

    def _give_up(self, api: str, shown: list[Any]) -> None:
        for side, answer in zip(self._sides, shown, strict=True):
            side.steps.append({"does": f"gets the answer of {api}", "answer": answer})
        raise Unsettled(api)

    def _is_member(self, slot: int) -> bool:
        """Whether the slot is a member on both sides by the consumer protocol, and not waiting for an
        answer."""
        knows = [side.known.slots[slot] for side in self._sides]
        return slot not in self._sides[0].parked and all(
            each.state == SETTLED and each.epoch > 0 and not each.is_classic for each in knows
        )

    def _beat(self, slot: int) -> list[Heard]:
        """The heartbeat of a right client on each side, if it is a member; what the sides said."""
        if not self._is_member(slot):
            return []
        heard = []
        for side in self._sides:
            side.post(request(side.known, Operation("beat", slot)))
            heard.append(side.answer(slot))
            step = {"client": f"c{slot}", "does": "gets an answer while it settles"}
            side.steps.append({**step, "answer": heard[-1].compared})
        for side, each in zip(self._sides, heard, strict=True):
            if each.entity is not None:
                learn(side.known.slots[slot], HEARTBEAT, each.entity)
        if all(side.steps[-4:-2] == side.steps[-2:] for side in self._sides):
            for side in self._sides:
                del side.steps[-2:]  # what is said again and again is told once
        return heard
