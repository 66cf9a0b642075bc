"""Rule 6: every group is served at the run's end, and the planned share of its requests was answered."""

from __future__ import annotations

from storage.history.calls import History
from storage.history.judge.findings import Findings, Limits


def judge_service(history: History, limits: Limits) -> Findings:
    """Of every group that anybody asked for."""
    answered = sum(call.is_answered for call in history.calls)
    unseen = "" if answered else "no request was answered"
    return Findings([], {}, f"{answered:,} of {len(history.calls):,} requests were answered", unseen)
