"""Which groups were without service when a history ended.

A group is, if its live members asked for it after the last answer that its coordinator gave (a connect or a
look-up that fails is such an asking), and it served none of them until the history ended. Offsets count by
themselves: a group whose commits were all in vain is without service, however well its heartbeats are served.
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
"""What only the group's coordinator serves. A FindCoordinator that fails tells of its absence as well, one
that is answered not of its presence."""
OF_OFFSETS: Final = frozenset({"OffsetCommit", "OffsetFetch"})
OFFSETS_IN_VAIN_MIN: Final = 3
"""So often, one after the other, before that is an outage of its own: who commits seldom may lose one commit
to a coordinator that moves, and be served as a member from then on."""
WAITING_GRACE_US: Final = 30_000_000
WAITING: Final = frozenset({"JoinGroup", "SyncGroup"})
"""Answered when the other members have come, which takes a rebalance timeout at most; a coordinator may wait
a little longer for more of them (WAITING_GRACE_US)."""
NO_SERVICE: Final = ERRORS_OF_MOVING | {-1}
"""Errors that count as no service: those of a coordinator that moves, and UNKNOWN_SERVER_ERROR."""


class Outage(NamedTuple):
    """A group without service when the history ended."""

    group_id: str
    began_us: int
    last: Call
    """The last request that was made in vain."""
    asked: int
    """How many requests were made in vain since it began."""


def is_served(call: Call) -> bool:
    """Whether the coordinator answered this call, and answered it as the group's coordinator."""
    return call.api in OF_COORDINATORS and call.is_answered and call.error_code not in NO_SERVICE


def outages(history: History, limits: Limits) -> dict[str, Outage]:
    """The outage of each group that was without service."""
    served_us: dict[tuple[str, bool], int] = {}
    """End of the last answer by group, and by whether it was about offsets."""
    in_vain: list[Call] = []
    parted: set[str] = set()
    """The clients whose last call was a leave."""
    for call in history.calls:
        group_id = call.group_id
        if not group_id or call.client == READER:
            continue
        if leaves(call):
            parted.add(call.client)
        elif parted:
            parted.discard(call.client)
        if is_served(call):
            key = group_id, call.api in OF_OFFSETS
            if call.ended_us > served_us.get(key, NEVER):
                served_us[key] = call.ended_us
        elif not (call.is_fine or _may_wait(call, history.ended_us, limits)):
            in_vain.append(call)
    parted |= {row.client for row in history.gone}
    found: dict[tuple[str, bool], Outage] = {}
    for call in in_vain:
        key = call.group_id, call.api in OF_OFFSETS
        last_us = served_us.get(key, NEVER)
        heard_us = call.sent_us if call.outcome == OPEN else call.ended_us
        if heard_us > last_us and call.client not in parted:
            before = found.get(key)
            began_us = before.began_us if before else max(last_us, call.sent_us)
            found[key] = Outage(call.group_id, began_us, call, before.asked + 1 if before else 1)
    return {
        group_id: outage
        for (group_id, is_offsets), outage in sorted(found.items(), key=lambda row: row[0][1], reverse=True)
        if not is_offsets or outage.asked >= OFFSETS_IN_VAIN_MIN
    }


def _may_wait(call: Call, ended_us: int, limits: Limits) -> bool:
    """Whether the call has no answer yet and may rightly wait for it until the history's end."""
    if call.outcome != OPEN:
        return False
    may_us = limits.held_ms * 1_000
    if call.api in WAITING:
        may_us = call.rebalance_timeout_ms * 1_000 + WAITING_GRACE_US
    return ended_us - call.sent_us < may_us
