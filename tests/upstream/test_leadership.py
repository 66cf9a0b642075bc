"""The reconcile of upstream leaders, turn by turn."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.upstream.duels import PAUSE_MS
from actors.upstream.leadership import MOVES_MAX, Leadership
from actors.upstream.moves import ToReplicas
from actors.upstream.partitions import Facts, RaftLeader, Stray
from actors.upstream.reports import LedOutside, NodeFenced, PutRight, Refused, StrayMoved
from actors.upstream.requests import (
    PREFERRED,
    AlteredPartition,
    AlterPartition,
    AlterPartitionReassignments,
    Answer,
    BrokerHeartbeat,
    ElectLeaders,
    HeartbeatAnswer,
    PartitionErrors,
    ReassignedPartition,
)
from actors.upstream.sent import LOST_MS, RETRY_MS, SHOWN_MS
from tests.simulation.upstream.kraft import Broker, State

TOPIC, TOPIC_ID = "__consumer_offsets", b"\x05" * 16
TIER = (11, 12, 13)
DIRS = {broker_id: bytes((broker_id,)) * 16 for broker_id in (1, 2, 3, *TIER)}
BROKERS = {
    broker_id: Broker(100 + broker_id, fenced=False, log_dirs=(DIRS[broker_id],)) for broker_id in DIRS
}
WHOLE = State((11, 12, 13), (11, 12, 13), leader=11, leader_epoch=4, partition_epoch=9)
LED_BY_11 = RaftLeader(11, 6, TIER)
LED_BY_12 = RaftLeader(12, 7, TIER)
SWAP = AlterPartitionReassignments((ReassignedPartition(TOPIC, 0, (12, 13)),))
DONE = PartitionErrors(ErrorCode.none, {(TOPIC, 0): ErrorCode.none})
SWAPPED = State((12, 13), (12, 13), leader=12, leader_epoch=5, partition_epoch=10)


def facts(state: State = WHOLE, leader: RaftLeader = LED_BY_12, **more: Any) -> Facts:
    known: dict[str, Any] = {
        "metadata_offset": 1_000,
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "partitions": {0: state},
        "leaders": {0: leader},
        "brokers": BROKERS,
        "tier": frozenset(TIER),
    }
    return Facts(**{**known, **more})


def refused(error: ErrorCode) -> PartitionErrors:
    return PartitionErrors(ErrorCode.none, {(TOPIC, 0): error})


def after(answer: Answer) -> Leadership:
    """A reconcile whose swap was answered so, at time 0."""
    leadership = Leadership()
    assert leadership.turn(facts(), 0).requests == (SWAP,)
    leadership.answered(SWAP, answer, 0)
    return leadership


def test_a_leader_is_moved_by_one_request_and_made_whole_by_two() -> None:
    leadership = after(DONE)
    grown = State((12, 11, 13), (12, 13), (), (11,), 12, 5, 11)
    add = AlterPartitionReassignments((ReassignedPartition(TOPIC, 0, (12, 11, 13)),))
    assert leadership.turn(facts(SWAPPED), 30).requests == (add,)
    leadership.answered(add, DONE, 60)
    isr = AlterPartition(
        12,
        112,
        (AlteredPartition(TOPIC_ID, 0, 5, 11, ((12, 112), (11, 111), (13, 113)), TOPIC),),
    )
    assert leadership.turn(facts(grown), 60).requests == (isr,)
    leadership.answered(isr, PartitionErrors(ErrorCode.none, {(TOPIC_ID, 0): ErrorCode.none}), 90)
    whole = State((12, 11, 13), (12, 11, 13), (), (), 12, 5, 12)
    assert leadership.turn(facts(whole), 90).requests == ()


def test_the_preferred_leader_is_elected() -> None:
    state = WHOLE._replace(replicas=(12, 11, 13))
    assert Leadership().turn(facts(state), 0).requests == (ElectLeaders(PREFERRED, ((TOPIC, 0),)),)


def test_nothing_is_asked_while_the_answer_is_out() -> None:
    leadership = Leadership()
    assert leadership.turn(facts(), 0).requests == (SWAP,)
    for now_ms in (1, 10_000, 100_000):
        assert leadership.turn(facts(metadata_offset=1_000 + now_ms), now_ms).requests == ()


def test_nothing_is_asked_again_before_the_metadata_shows_it() -> None:
    leadership = after(DONE)
    assert leadership.turn(facts(metadata_offset=1_001), SHOWN_MS - 1).requests == ()
    assert leadership.turn(facts(metadata_offset=1_001), SHOWN_MS).requests == (SWAP,)


def test_after_a_lost_answer_newer_metadata_decides() -> None:
    leadership = Leadership()
    leadership.turn(facts(), 0)
    leadership.lost(SWAP, 0)
    assert leadership.turn(facts(), LOST_MS * 10).requests == ()
    assert leadership.turn(facts(metadata_offset=1_001), LOST_MS * 10).requests == (SWAP,)


@pytest.mark.parametrize(
    "error", [ErrorCode.invalid_update_version, ErrorCode.fenced_leader_epoch, ErrorCode.stale_broker_epoch]
)
def test_what_was_stale_is_decided_anew_with_newer_metadata(error: ErrorCode) -> None:
    leadership = after(refused(error))
    assert leadership.turn(facts(), RETRY_MS * 10).requests == ()
    newer = WHOLE._replace(partition_epoch=10)
    turn = leadership.turn(facts(newer), 1)
    assert (turn.requests, turn.reports) == ((SWAP,), ())


def test_what_is_refused_is_tried_again_more_and_more_slowly_and_told() -> None:
    leadership = after(refused(ErrorCode.policy_violation))
    told = leadership.turn(facts(), RETRY_MS - 1)
    assert told.requests == ()
    assert told.reports == (Refused(TOPIC, 0, ToReplicas((12, 13)), "policy_violation"),)
    assert leadership.turn(facts(), RETRY_MS).requests == (SWAP,)
    leadership.answered(SWAP, refused(ErrorCode.policy_violation), RETRY_MS)
    assert leadership.turn(facts(), RETRY_MS * 3 - 1).requests == ()
    assert leadership.turn(facts(), RETRY_MS * 3).requests == (SWAP,)


def test_a_dead_node_is_fenced_and_a_silent_one_is_not() -> None:
    fence = BrokerHeartbeat(11, 111, 1_000, want_fence=True)
    turn = Leadership().turn(facts(dead=frozenset((11,))), 0)
    assert turn.requests == (fence, SWAP)
    assert turn.reports == (NodeFenced(11, 111),)
    fenced = {**BROKERS, 11: BROKERS[11]._replace(fenced=True)}
    assert Leadership().turn(facts(brokers=fenced, dead=frozenset((11,))), 0).requests == (SWAP,)


def test_a_leader_that_is_not_unfenced_yet_is_waited_for() -> None:
    fenced = {**BROKERS, 12: BROKERS[12]._replace(fenced=True)}
    assert Leadership().turn(facts(brokers=fenced), 0).requests == ()


def cordoned(*broker_ids: int) -> dict[int, Broker]:
    return {
        broker_id: broker._replace(cordoned_log_dirs=broker.log_dirs if broker_id in broker_ids else ())
        for broker_id, broker in BROKERS.items()
    }


def test_kafka_4_3_takes_what_is_cordoned() -> None:
    assert Leadership().turn(facts(brokers=cordoned(*TIER), can_cordon=True), 0).requests == (SWAP,)


def test_kafka_4_4_is_asked_to_uncordon_then_to_reassign_then_to_cordon() -> None:
    leadership = Leadership()
    told = {"can_cordon": True, "refuses_cordoned": True}
    uncordons = [BrokerHeartbeat(each, 100 + each, 1_000, cordoned_log_dirs=()) for each in (12, 13)]
    before = facts(brokers=cordoned(*TIER), **told)
    assert leadership.turn(before, 0).requests == tuple(uncordons)
    leadership.answered(uncordons[0], HeartbeatAnswer(ErrorCode.none), 30)
    assert leadership.turn(before, 30).requests == ()
    leadership.answered(uncordons[1], HeartbeatAnswer(ErrorCode.none), 31)
    assert leadership.turn(before, 31).requests == (SWAP,)
    leadership.answered(SWAP, DONE, 60)
    assert leadership.turn(facts(brokers=cordoned(11), **told), 60).requests == ()
    whole = State((12, 11, 13), (12, 11, 13), (), (), 12, 5, 12)
    cordons = tuple(
        BrokerHeartbeat(each, 100 + each, 1_000, cordoned_log_dirs=(DIRS[each],)) for each in (12, 13)
    )
    assert leadership.turn(facts(whole, brokers=cordoned(11), **told), 90).requests == cordons


def test_a_controller_that_is_upgraded_is_found_out_by_its_refusal() -> None:
    leadership = Leadership()
    before = facts(brokers=cordoned(*TIER), can_cordon=True)
    assert leadership.turn(before, 0).requests == (SWAP,)
    leadership.answered(SWAP, refused(ErrorCode.invalid_replica_assignment), 0)
    requests = leadership.turn(before, RETRY_MS).requests
    assert [each.cordoned_log_dirs for each in requests if isinstance(each, BrokerHeartbeat)] == [(), ()]


def test_whoever_moves_a_partition_is_answered_once_at_once_and_then_more_slowly() -> None:
    leadership = Leadership()
    assert leadership.turn(facts(leader=LED_BY_11), 0) == ((), ())
    moved = WHOLE._replace(leader=12, leader_epoch=5, partition_epoch=10)
    turn = leadership.turn(facts(moved, LED_BY_11), 10)
    assert turn.requests == (ElectLeaders(PREFERRED, ((TOPIC, 0),)),)
    assert turn.reports == (PutRight(TOPIC, 0, 12, 5, (11, 12, 13), 11, 6, 0),)
    leadership.answered(turn.requests[0], DONE, 20)
    leadership.turn(facts(WHOLE._replace(partition_epoch=11), LED_BY_11), 20)
    again = moved._replace(partition_epoch=12)
    turn = leadership.turn(facts(again, LED_BY_11), 30)
    assert turn.requests == ()
    assert turn.reports == (PutRight(TOPIC, 0, 12, 5, (11, 12, 13), 11, 6, PAUSE_MS),)
    assert leadership.turn(facts(again, LED_BY_11), 30 + PAUSE_MS).requests != ()


def test_raft_is_followed_at_once_whoever_insists() -> None:
    leadership = Leadership()
    for number in range(10):
        leadership.turn(facts(WHOLE._replace(partition_epoch=100 + 2 * number), LED_BY_11), number)
        moved = WHOLE._replace(leader=13, partition_epoch=101 + 2 * number)
        for request in leadership.turn(facts(moved, LED_BY_11), number).requests:
            leadership.answered(request, DONE, number)  # type: ignore[arg-type]
    last = WHOLE._replace(leader=13, partition_epoch=200)
    assert leadership.turn(facts(last, LED_BY_12), 20).requests != ()


def test_what_a_broker_outside_leads_is_left_alone_and_told_once() -> None:
    leadership = Leadership()
    outside = State((1, 11, 12), (1,), leader=1, leader_epoch=8)
    assert leadership.turn(facts(outside), 0) == ((), (LedOutside(TOPIC, 0, 1, 8),))
    assert leadership.turn(facts(outside), 1) == ((), ())


def test_partitions_that_are_not_given_to_the_tier_are_left_alone() -> None:
    assert Leadership().turn(facts(leaders={}), 0).requests == ()


def test_a_stray_goes_to_a_broker_and_gets_its_replicas_back() -> None:
    leadership = Leadership()
    state = State((11, 2), (11, 2), leader=11)
    stray = Stray("orders", b"\x06" * 16, 3, state)
    told = {"leader": LED_BY_11, "strays": (stray,)}
    away = AlterPartitionReassignments((ReassignedPartition("orders", 3, (2,)),))
    turn = leadership.turn(facts(**told), 0)
    assert turn == ((away,), (StrayMoved("orders", 3, (11, 2), (2,)),))
    leadership.answered(away, PartitionErrors(ErrorCode.none, {("orders", 3): ErrorCode.none}), 30)
    more = AlterPartitionReassignments((ReassignedPartition("orders", 3, (2, 3)),))
    assert leadership.turn(facts(leader=LED_BY_11), 40).requests == (more,)
    leadership.answered(more, PartitionErrors(ErrorCode.none, {("orders", 3): ErrorCode.none}), 60)
    assert leadership.turn(facts(leader=LED_BY_11), 70).requests == ()


def test_leaders_come_before_strays_and_no_more_than_so_many_at_a_time() -> None:
    leadership = Leadership()
    many = 3 * MOVES_MAX
    strays = tuple(
        Stray("orders", b"\x06" * 16, index, State((11,), (11,), leader=11)) for index in range(many)
    )
    own = dict.fromkeys(range(MOVES_MAX - 50), WHOLE)
    (request,) = leadership.turn(
        facts(partitions=own, leaders=dict.fromkeys(own, LED_BY_12), strays=strays), 0
    ).requests
    assert isinstance(request, AlterPartitionReassignments)
    assert len(request.partitions) == MOVES_MAX
    assert sum(each.topic == TOPIC for each in request.partitions) == MOVES_MAX - 50
