"""Which groups were without service when a history ended.

A group is, if its live members asked for it after the last answer that its coordinator gave (a connect or a
look-up that fails is such an asking), and it served none of them until the history ended.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from storage.history.calls import NEVER, OPEN, READER, Call, History
from storage.history.judge.findings import ERRORS_OF_MOVING, Limits, leaves

OF_COORDINATORS: Final = frozenset(
    {
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetFetch",
        "ConsumerGroupHeartbeat",
    }
)
"""What only the group's coordinator serves."""
WAITING: Final = frozenset({"JoinGroup", "SyncGroup"})
"""Answered when the other members have come, however long that takes."""
NO_SERVICE: Final = ERRORS_OF_MOVING | {-1}
"""UNKNOWN_SERVER_ERROR as well."""


class Outage(NamedTuple):
    """A group without service when the history ended."""

    group_id: str
    began_us: int
    last: Call
    """The last asking in vain."""
    asked: int
    """In vain, since it began."""


def is_served(call: Call) -> bool:
    """The coordinator answered it as one."""
    return call.api in OF_COORDINATORS and call.is_answered and call.error_code not in NO_SERVICE


def outages(history: History, limits: Limits) -> dict[str, Outage]:
    """By group."""
    served_us: dict[str, int] = {}
    in_vain: list[Call] = []
    parted: set[str] = set()
    """Clients that have left by their last word."""
    for call in history.calls:
        group_id = call.group_id
        if not group_id or call.client == READER:
            continue
        if leaves(call):
            parted.add(call.client)
        elif parted:
            parted.discard(call.client)
        if is_served(call):
            if call.ended_us > served_us.get(group_id, NEVER):
                served_us[group_id] = call.ended_us
        elif not (call.is_fine or _may_wait(call, history.ended_us, limits)):
            in_vain.append(call)
    parted |= {row.client for row in history.gone}
    found: dict[str, Outage] = {}
    for call in in_vain:
        last_us = served_us.get(call.group_id, NEVER)
        heard_us = call.sent_us if call.outcome == OPEN else call.ended_us
        if heard_us > last_us and call.client not in parted:
            before = found.get(call.group_id)
            began_us = before.began_us if before else max(last_us, call.sent_us)
            found[call.group_id] = Outage(call.group_id, began_us, call, before.asked + 1 if before else 1)
    return found


def _may_wait(call: Call, ended_us: int, limits: Limits) -> bool:
    """It has no answer yet, and may have to wait for it."""
    if call.outcome != OPEN:
        return False
    return call.api in WAITING or ended_us - call.sent_us < limits.held_ms * 1_000
