"""Rule 6: every group is served at the run's end, and the planned share of its requests was answered.

A group that was without service when the history ended breaks the promise once that has lasted for
`outage_ms`, counted from the last fault on. If it was shorter, or if a fault lasted until the end, the
promise is not shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storage.history.calls import NEVER, OF_CLIENTS, READER, Call, History
from storage.history.judge.findings import Findings, Limits, Violation, story, when
from storage.history.judge.outages import WAITING, Outage, is_served


class Planned(NamedTuple):
    """The requests that a plan has made due by the history's end."""

    requests: float
    """Heartbeats, commits, and a join for each life of a member."""
    member_s: float
    """The time for which members are there, summed over all of them."""


def judge_service(
    history: History, limits: Limits, planned: Planned | None, without: Sequence[Outage]
) -> Findings:
    """Judge every group that anybody asked for; `without` are those that were out of service at the end.
    Without `planned` it is not known what share was answered."""
    ended_us = history.ended_us
    faults = [fault for fault in history.faults if fault.kind not in OF_CLIENTS]
    mended_us = max((min(fault.ended_us, ended_us) for fault in faults), default=NEVER)
    violations = [
        _violation(outage, ended_us)
        for outage in without
        if ended_us - max(outage.began_us, mended_us) > limits.outage_ms * 1_000
    ]
    share = _Share(history.calls)
    unseen = next(filter(None, (share.unseen(planned, limits), _shorter(without, ended_us))), "")
    return Findings(
        violations,
        {"groups without service at the end": len(without)} if without else {},
        seen=f"every group was served at the end; {share.told(planned)}",
        unseen=unseen,
    )


def _violation(outage: Outage, ended_us: int) -> Violation:
    return Violation(
        "without service at the end",
        outage.group_id,
        f"for {(ended_us - outage.began_us) / 1e6:,.1f} s, since {when(outage.began_us)}, until the history "
        f"ended; asked {outage.asked:,} times in vain, the last time: {story(outage.last)}",
    )


def _shorter(outages: Sequence[Outage], ended_us: int) -> str:
    if not outages:
        return ""
    longest = min(outages, key=lambda outage: outage.began_us)
    return (
        f"{len(outages):,} groups were without service when the history ended, {longest.group_id} for "
        f"{(ended_us - longest.began_us) / 1e6:,.1f} s: too short to blame, too long to praise"
    )


class _Share:
    """Counts which of the planned requests were answered. While a join waits for other members nothing
    else of that member is due: that time counts as if it had been."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._answered = 0
        self._waited_us = 0
        for call in calls:
            if call.client != READER and is_served(call):
                self._answered += 1
                if call.api in WAITING:
                    self._waited_us += call.ended_us - call.sent_us

    def unseen(self, planned: Planned | None, limits: Limits) -> str:
        """Return why too little was seen to judge, or "" if there was enough."""
        if not self._answered:
            return "no coordinator answered any request"
        if planned is None:
            return f"{self._answered:,} requests were answered; how many were planned the record does not say"
        if planned.requests <= 0:
            return "the plan made no request due"
        if self._of(planned) < limits.least_answered:
            return f"{self.told(planned)}; at least {limits.least_answered:.0%} is asked for"
        return ""

    def told(self, planned: Planned | None) -> str:
        if planned is None:
            return f"{self._answered:,} requests were answered"
        share = min(1.0, self._of(planned))
        return f"{share:.0%} of the {planned.requests:,.0f} requests that were due were answered"

    def _of(self, planned: Planned) -> float:
        waited = self._waited_us / 1e6 * planned.requests / planned.member_s if planned.member_s else 0.0
        return (self._answered + waited) / planned.requests if planned.requests else 0.0
