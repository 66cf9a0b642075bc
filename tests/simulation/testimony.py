"""What the simulated clients would say themselves, for the judge that also reads real clients' histories: it
knows neither the log nor the replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from actors.coordinator.ground import partitions
from actors.ground.records import TopicPartitions
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from storage.history.calls import (
    ANSWERED,
    CLOSED,
    CONSUMER,
    Call,
    Fault,
    History,
    Offset,
    Partitions,
    history_of,
)
from storage.history.judge.findings import BROKEN
from storage.history.judge.verdict import judge
from tests.simulation.asked import Asked
from tests.simulation.checkers import Violation
from tests.simulation.machines import FLEETING_TOPIC, GROUP_SETTINGS, REBALANCE_MS, SESSION_MS

US = 1_000_000
CONSUMER_SESSION_MS = int(GROUP_SETTINGS.group_consumer_session_timeout_ms / 1.06)
"""The shortest that a session lasts: the leader's clock may be fast."""
CLASSIC_TIMES = {
    "session_timeout_ms": int(SESSION_MS / 1.06),
    "rebalance_timeout_ms": int(REBALANCE_MS / 1.06),
}


def check(asked: Iterable[Asked], now: float) -> None:
    """Let the judge read everything that clients asked until `now`. Raises Violation."""
    verdict = judge(_history(asked, now))
    if verdict.status == BROKEN:
        raise Violation(f"judge: {verdict.violations[0].rule}: {verdict.violations[0].text}")


def _history(asked: Iterable[Asked], now: float) -> History:
    every = list(asked)
    late = _late(every)
    rows: list[Any] = [call for each in every if (call := _call(each)) is not None]
    rows = [call._replace(assigned=None) if _is_overtaken(call, late) else call for call in rows]
    rows += (call for calls in late.values() for call in calls)
    rows.append(Fault("whatever the seed decides", "", 0, int(now * US)))
    return history_of(rows)


def _late(asked: list[Asked]) -> dict[str, list[Call]]:
    """Return, by member, the heartbeats that say what it owns and were answered after their client had given
    them up: as if they had been sent then. The coordinator believes them (see Histories)."""
    late: dict[str, list[Call]] = {}
    for each in asked:
        body = each.request.body
        if not (isinstance(body, ConsumerGroupHeartbeatRequest) and each.is_abandoned):
            continue
        if body.topic_partitions is not None and each.given_at is not None:
            at_us = int(each.given_at * US)
            call = _call(each)
            assert call is not None, "it is a member's"
            late.setdefault(body.member_id, []).append(call._replace(sent_us=at_us, ended_us=at_us))
    return late


def _is_overtaken(call: Call, late: dict[str, list[Call]]) -> bool:
    """Whether an answer that gives partitions was still on its way when a late heartbeat was taken."""
    return call.assigned is not None and any(
        call.sent_us <= each.sent_us <= call.ended_us for each in late.get(call.client, ())
    )


def _call(asked: Asked) -> Call | None:
    known = _APIS.get(type(asked.request.body))
    if known is None:
        return None
    api, fields_of = known
    ends = {"outcome": CLOSED, "ended_us": int(asked.sent_at * US)}
    if asked.heard is not None:
        ends = {"outcome": ANSWERED, "ended_us": int(asked.heard_at * US)}
    call = Call(
        client=asked.client.name,
        connection=f"{asked.client.name} to {asked.process.name}",
        api=api,
        correlation_id=asked.request.token,
        sent_us=int(asked.sent_at * US),
        **ends,
    )
    return call._replace(**fields_of(asked.request.body, asked.heard))


def _joining(body: JoinGroupRequest, answer: Any) -> dict[str, Any]:
    told = (
        {} if answer is None else {"error_code": int(answer.error_code), "told_epoch": answer.generation_id}
    )
    return {"group_id": body.group_id, "member_id": body.member_id, **CLASSIC_TIMES, **told}


def _syncing(body: SyncGroupRequest, answer: Any) -> dict[str, Any]:
    fields = _as_member(body, answer)
    if answer is not None and answer.error_code == 0:
        fields["assigned"] = (("orders", partitions.unpack(answer.assignment)),)
    return fields


def _as_member(body: SyncGroupRequest | HeartbeatRequest, answer: Any) -> dict[str, Any]:
    error_code = 0 if answer is None else int(answer.error_code)
    return {
        "group_id": body.group_id,
        "member_id": body.member_id,
        "epoch": body.generation_id,
        "error_code": error_code,
        **CLASSIC_TIMES,
    }


def _leaving(body: LeaveGroupRequest, answer: Any) -> dict[str, Any]:
    return {"group_id": body.group_id, "member_id": body.members[0].member_id}


def _consumer_beating(body: ConsumerGroupHeartbeatRequest, answer: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "client": body.member_id,
        "group_id": body.group_id,
        "protocol": CONSUMER,
        "member_id": body.member_id,
        "epoch": body.member_epoch,
        "owned": _plain(body.topic_partitions),
        "session_timeout_ms": CONSUMER_SESSION_MS,
    }
    if answer is not None:
        fields |= {"error_code": int(answer.error_code), "told_epoch": answer.member_epoch}
        fields["assigned"] = _plain(answer.assignment)
    return fields


def _plain(packed: TopicPartitions | None) -> Partitions | None:
    if packed is None:
        return None
    return tuple((topic_id.hex(), partitions.unpack(numbers)) for topic_id, numbers in packed)


def _committing(body: OffsetCommitRequest, answer: Any) -> dict[str, Any]:
    """Offsets of the topic that comes and goes are deleted with it, by nobody's request."""
    errors = {} if answer is None else {topic: dict(numbers) for topic, numbers in answer.topics}
    offsets = tuple(
        Offset(topic, partition, offset, int(errors.get(topic, {}).get(partition, 0)))
        for topic, rows in body.topics
        if topic != FLEETING_TOPIC
        for partition, offset, *_ in rows
    )
    return {
        "group_id": body.group_id,
        "member_id": body.member_id,
        "epoch": body.generation_id_or_member_epoch,
        "protocol": CONSUMER if body.group_id.startswith("consumer") else "classic",
        "offsets": offsets,
        "error_code": max((offset.error_code for offset in offsets), default=0),
    }


def _fetching(body: OffsetFetchRequest, answer: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"group_id": body.groups[0].group_id}
    if answer is not None:
        (group,) = answer.groups
        fields["error_code"] = int(group.error_code)
        fields["offsets"] = tuple(
            Offset(topic, partition, offset, int(error_code))
            for topic, rows in group.topics
            if topic != FLEETING_TOPIC
            for partition, offset, _, _, error_code in rows
        )
    return fields


_APIS: dict[type[Any], tuple[str, Callable[[Any, Any], dict[str, Any]]]] = {
    JoinGroupRequest: ("JoinGroup", _joining),
    SyncGroupRequest: ("SyncGroup", _syncing),
    HeartbeatRequest: ("Heartbeat", _as_member),
    LeaveGroupRequest: ("LeaveGroup", _leaving),
    ConsumerGroupHeartbeatRequest: ("ConsumerGroupHeartbeat", _consumer_beating),
    OffsetCommitRequest: ("OffsetCommit", _committing),
    OffsetFetchRequest: ("OffsetFetch", _fetching),
}
