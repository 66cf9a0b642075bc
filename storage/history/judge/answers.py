"""Rule 3: every request is answered or its connection closed in time; answers belong to their requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from storage.history.calls import ANSWERED, NEVER, OPEN, TIMED_OUT, Call, Fault, History
from storage.history.judge.findings import Findings, Limits, Violation, story


def judge_answers(history: History, limits: Limits) -> Findings:
    """Judge whether every request that was sent was answered: nobody promises that a connection opens."""
    silences = [fault for fault in history.faults if fault.silences]
    violations = [*_overdue(history, silences, limits), *_confused(history.calls)]
    sent = sum(call.was_sent for call in history.calls)
    answered = sum(call.is_answered and call.was_sent for call in history.calls)
    return Findings(
        violations,
        {"requests": sent},
        seen=f"{sent:,} requests, of which {answered:,} were answered",
        unseen="" if answered else "no request was answered",
    )


def _overdue(history: History, silences: list[Fault], limits: Limits) -> Iterator[Violation]:
    grace_us = limits.grace_ms * 1_000
    for call in history.calls:
        due_us = call.sent_us + call.timeout_ms * 1_000
        if call.outcome == OPEN:
            is_overdue = history.ended_us > due_us + grace_us
        else:
            # Whoever leaves, or is told to end, does not wait for its whole time-out.
            has_waited = call.timeout_ms >= limits.answer_ms and call.ended_us + grace_us >= due_us
            is_overdue = (call.outcome == TIMED_OUT and has_waited) or call.ended_us > due_us + grace_us
        if (
            is_overdue
            and call.was_sent
            and not any(
                fault.began_us < due_us and fault.ended_us + grace_us > call.sent_us for fault in silences
            )
        ):
            yield Violation("never answered", call.group_id, story(call))


def _confused(calls: tuple[Call, ...]) -> Iterator[Violation]:
    """Kafka answers the requests of a connection in their order (W13)."""
    latest: dict[str, Call] = {}
    by_connection: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.outcome == ANSWERED and call.answer_correlation_id != NEVER:
            by_connection[call.connection].append(call)
    for connection, of_connection in by_connection.items():
        for call in sorted(of_connection, key=lambda call: call.correlation_id):
            if call.answer_correlation_id != call.correlation_id:
                yield Violation(
                    "another's answer",
                    call.group_id,
                    f"correlation id {call.answer_correlation_id} in answer to {story(call)}",
                )
            before = latest.get(connection)
            if before is not None and call.ended_us < before.ended_us:
                yield Violation(
                    "answers out of order", call.group_id, f"{story(call)} came before {story(before)}"
                )
            latest[connection] = call
