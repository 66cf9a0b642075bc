"""An offsets partition is split: what moves, who serves it when, and what a crash in the middle leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.split.inside import (
    ARRIVE,
    ARRIVED,
    FORWARDED,
    SEAL,
    ArrivedRequest,
    ArriveRequest,
    ForwardedRequest,
    MarkersToForward,
    SealRequest,
)
from actors.coordinator.split.place import moves
from actors.coordinator.transactions.events import TransactionEnding
from actors.coordinator.transactions.inside import (
    TXN_ENDING,
    TXN_VERIFIED,
    TxnEndingRequest,
    TxnVerifiedRequest,
)
from actors.ground.records import PRODUCER_MARKER
from actors.leader import hand_over as hand_overs
from actors.leader.hand_over import MoveInterruptedError, pieces
from actors.protocol import api_keys
from actors.protocol.java_hash import partition_for
from actors.protocol.messages import OffsetFetchGroup
from actors.protocol.partitioning import Partitioning, may_be_moved_to
from actors.protocol.transaction_messages import TxnMarker, WriteTxnMarkersRequest
from tests.coordinator.split.halves import EPOCH, MOVES, STAYS, Half, Split, done

NOT_COORDINATOR = int(ErrorCode.not_coordinator)
NO_LEADER = int(ErrorCode.not_leader_or_follower)
SEALED = SealRequest(1, 2, EPOCH)


@pytest.fixture
def split() -> Split:
    return Split()


def test_groups_go_to_the_child_when_their_parent_has_been_cut_over() -> None:
    names = [f"group-{number}" for number in range(200)]
    before, after = Partitioning(2), Partitioning(4)
    midway = Partitioning(4, unmoved=(1,))
    for name in names:
        assert Partitioning(4, unmoved=(0, 1)).partition_of(name) == before.partition_of(name)
        moved = after.partition_of(name)
        assert moved in (before.partition_of(name), before.partition_of(name) + 2)
        assert midway.partition_of(name) == (1 if moved == 3 else moved)


def test_a_partition_has_groups_of_its_ancestors() -> None:
    assert may_be_moved_to(7, 8) == [3, 1, 0]
    assert may_be_moved_to(5, 6) == [2]
    assert may_be_moved_to(1, 8) == [0]


def test_what_moves_is_there_after_the_split_as_it_was_before(split: Split) -> None:
    for group_id in (STAYS, MOVES):
        split.parent.commit_offsets(group_id, offsets={0: 5, 1: 6})
        [member] = split.parent.stable_group(f"{group_id}-members-{'x' * 3}")
        assert member.generation_id == 1
    producer = split.parent.producer(MOVES)
    split.parent.commit()
    before = split.parent.records()
    count = split.hand_over()
    moved = {key: value for key, value in before.items() if moves(key, 1, 2)}
    assert {key: value for key, value in split.child.records().items() if key in before} == moved
    assert count == len(moved) > 4
    assert split.child.offsets(MOVES) == {("t", 0): 5, ("t", 1): 6}
    assert split.child.transaction(MOVES).producer_id == producer[0]
    assert split.parent.drop().error_code == 0
    kept = {key: value for key, value in before.items() if key not in moved or key[0] == PRODUCER_MARKER}
    assert {key: value for key, value in split.parent.records().items() if key in before} == kept
    split.parent.check_snapshot()
    split.child.check_snapshot()


def test_members_keep_their_generation_and_are_served_by_the_child(split: Split) -> None:
    group_id = MOVES
    leader, follower = split.parent.stable_group(group_id, 2)
    split.parent.commit()
    split.hand_over()
    assert split.parent.heartbeat(group_id, 1, leader.member_id) == NOT_COORDINATOR
    for member in (leader, follower):
        assert split.child.heartbeat(group_id, 1, member.member_id) == 0
    split.child.advance(10_001)
    assert split.child.heartbeat(group_id, 1, leader.member_id) == int(ErrorCode.unknown_member_id)


def test_the_child_serves_nobody_before_the_end_of_the_copy(split: Split) -> None:
    split.parent.commit_offsets(MOVES)
    split.parent.commit()
    assert split.child.commit_offsets(MOVES) == {0: NOT_COORDINATOR}
    assert done(split.parent.inside(SEAL, SEALED)).error_code == 0
    [piece] = [piece for piece in pieces(split.parent.replica, hand_overs.Move(0, 1, 2)) if piece]
    assert done(split.child.inside(ARRIVE, ArriveRequest(tuple(piece)))).error_code == 0
    assert split.child.fetch_group(OffsetFetchGroup(MOVES, None)).error_code == NOT_COORDINATOR
    split.child.fail_over()
    assert split.child.fetch_group(OffsetFetchGroup(MOVES, None)).error_code == NOT_COORDINATOR
    too_few = done(split.child.inside(ARRIVED, ArrivedRequest(0, len(piece) + 1, 2, EPOCH)))
    assert too_few.error_code == ErrorCode.invalid_request
    assert split.child.fetch_group(OffsetFetchGroup(MOVES, None)).error_code == NOT_COORDINATOR
    assert done(split.child.inside(ARRIVED, ArrivedRequest(0, len(piece), 2, EPOCH))).error_code == 0
    assert split.child.fetch_group(OffsetFetchGroup(STAYS, None)).error_code == NOT_COORDINATOR
    assert split.child.offsets(MOVES) == {("t", 0): 1}
    split.child.fail_over()
    assert split.child.offsets(MOVES) == {("t", 0): 1}


def test_from_the_seal_on_the_parent_refuses_what_moves_and_serves_what_stays(split: Split) -> None:
    split.parent.stable_group(STAYS)
    done(split.parent.inside(SEAL, SEALED))
    assert split.parent.commit_offsets(MOVES) == {0: NOT_COORDINATOR}
    assert split.parent.commit_offsets("", offsets={0: 2}) == {0: 0}
    assert split.parent.delete_groups(MOVES) == {MOVES: NOT_COORDINATOR}
    assert [group.group_id for group in split.parent.list_groups()] == sorted(["", STAYS])
    split.parent.commit()
    split.parent.fail_over()
    assert split.parent.commit_offsets(MOVES) == {0: NOT_COORDINATOR}


def test_a_seal_that_was_not_committed_is_taken_back(split: Split) -> None:
    split.parent.commit_offsets(MOVES)
    split.parent.commit()
    split.parent.send(SEAL, SEALED, 0)
    assert split.parent.commit_offsets(MOVES, offsets={0: 2}) == {0: NOT_COORDINATOR}
    split.parent.fail_over()
    assert split.parent.commit_offsets(MOVES, offsets={0: 2}) == {0: 0}


def test_whoever_waits_for_a_group_that_moves_is_refused_at_the_seal(split: Split) -> None:
    [member] = split.parent.stable_group(MOVES)
    joins = [split.parent.send_join(MOVES), split.parent.send_join(MOVES)]
    parked = split.parent.send_join(MOVES, split.parent.replies[joins[0]].member_id)
    split.parent.commit()
    assert parked not in split.parent.replies
    split.hand_over()
    split.parent.commit()
    assert split.parent.replies[parked].error_code == NOT_COORDINATOR
    split.parent.advance(120_000)
    assert split.child.heartbeat(MOVES, 1, member.member_id) == 0


def test_a_commit_that_waits_for_its_log_at_the_seal_is_in_the_copy(split: Split) -> None:
    split.parent.commit_offsets(MOVES, offsets={0: 41})
    split.hand_over()
    assert split.child.offsets(MOVES) == {("t", 0): 41}


def test_every_step_may_be_repeated(split: Split) -> None:
    split.parent.commit_offsets(MOVES)
    counts = [split.hand_over(), split.hand_over()]
    assert counts[0] == counts[1]
    split.child.commit_offsets(MOVES, offsets={0: 9})
    split.child.commit()
    split.hand_over()
    assert split.child.offsets(MOVES) == {("t", 0): 9}, "a copy that comes late changes nothing"
    assert [split.parent.drop().error_code for _ in range(2)] == [0, 0]
    with pytest.raises(MoveInterruptedError, match="is removed here"):
        split.hand_over()


def test_a_parent_that_drops_goes_on_with_it_after_a_crash(split: Split) -> None:
    for number in range(40):
        split.parent.commit_offsets(MOVES, offsets={number % 4: number})
    split.parent.stable_group(STAYS)
    split.hand_over()
    split.parent.fail_over()
    assert split.parent.drop().error_code == 0
    assert not any(moves(key, 1, 2) for key in split.parent.records() if key[0] != PRODUCER_MARKER)
    assert split.parent.list_groups()[0].group_id == STAYS


@pytest.mark.parametrize(
    ("child", "request_", "words"),
    [
        (0, SealRequest(3, 4, 1), "no child of this one"),
        (1, SealRequest(3, 4, 1), "have not arrived yet"),
    ],
)
def test_a_seal_that_cannot_be_is_refused(split: Split, child: int, request_: Any, words: str) -> None:
    half = (split.parent, split.child)[child]
    before = half.records()
    answer = done(half.inside(SEAL, request_ if child else SealRequest(5, 6, 1)))
    assert answer.error_code
    assert words in answer.message
    assert half.records() == before


def test_a_partition_that_awaits_nothing_takes_no_records(split: Split) -> None:
    piece = ArriveRequest((((1, MOVES, "t", 0), (1, -1, "", 0, -1, bytes(16))),))
    assert done(split.parent.inside(ARRIVE, piece)).error_code == ErrorCode.invalid_request
    assert split.parent.records() == {}


# Transactions.


def _pending(half: Half, offset: int = 10) -> tuple[int, int]:
    """Leave an offset of an open transaction in the group that moves."""
    producer = half.producer()
    half.add_offsets(producer, MOVES)
    assert half.commit_in_transaction(producer, offset, MOVES) == 0
    half.commit()
    return producer


def _markers(producer: tuple[int, int]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest((TxnMarker(*producer, True, (("__consumer_offsets", (0,)),), EPOCH, 0),))


def test_a_marker_for_the_parent_reaches_the_child_first(split: Split) -> None:
    producer = _pending(split.parent)
    done(split.parent.inside(SEAL, SEALED))
    token = split.parent.send(api_keys.WRITE_TXN_MARKERS, _markers(producer), 1)
    [event] = [event for event in split.parent.events if isinstance(event, MarkersToForward)]
    assert (event.token, event.children) == (token, (1,))
    refused = ForwardedRequest(token, (ErrorCode.not_leader_or_follower,))
    done(split.parent.inside(FORWARDED, refused))
    [(_, [(_, [(_, error)])])] = split.parent.replies[token].markers
    assert int(error) == NO_LEADER, "the coordinator tries again"
    assert not split.parent.state.producer_markers
    split.hand_over()
    assert split.child.ask(api_keys.WRITE_TXN_MARKERS, _markers(producer), 1)
    assert split.child.offset(MOVES) == (10, 0)
    again = split.parent.send(api_keys.WRITE_TXN_MARKERS, _markers(producer), 1)
    done(split.parent.inside(FORWARDED, ForwardedRequest(again, (ErrorCode.none,))))
    [(_, [(_, [(_, error)])])] = split.parent.replies[again].markers
    assert error == 0


def test_a_commit_that_waits_for_its_coordinators_word_at_the_seal_is_refused(split: Split) -> None:
    producer = split.parent.producer()
    token = split.parent.send_commit(producer, 10, MOVES)
    split.hand_over()
    split.parent.commit()
    [(_, [(_, error)])] = split.parent.replies[token].topics
    assert error == ErrorCode.not_coordinator
    split.parent.ask(TXN_VERIFIED, TxnVerifiedRequest(token, ErrorCode.none), 0)
    assert not split.parent.state.pending_offsets


def test_the_child_gives_out_producer_ids_of_its_own(split: Split) -> None:
    before = split.parent.producer(MOVES)
    split.hand_over()
    names = [name for number in range(9) if partition_for(name := f"other-{number}", 2) == 1]
    after = {split.child.producer(name)[0] for name in names}
    assert before[0] >> 40 == 1
    assert {producer_id >> 40 for producer_id in after} == {2}


def test_a_transaction_that_is_ending_is_ended_by_the_child_once_it_serves(split: Split) -> None:
    producer = split.parent.producer(MOVES)
    split.parent.add_offsets(producer, MOVES, transactional_id=MOVES)
    assert split.parent.end(producer, transactional_id=MOVES) == 0
    served: list[bool] = []

    def note(events: Sequence[Any]) -> None:
        served.extend(
            not split.child.state.is_closed for event in events if event == TransactionEnding(MOVES)
        )

    split.child.on_events = note  # type: ignore[method-assign]
    split.hand_over()
    assert served == [True]
    refused = split.parent.ask(TXN_ENDING, TxnEndingRequest(MOVES), 0)
    assert refused.error_code == ErrorCode.not_coordinator
    ending = split.child.ask(TXN_ENDING, TxnEndingRequest(MOVES), 0)
    assert (ending.error_code, ending.committed) == (0, True)


def test_an_open_transaction_times_out_at_the_child(split: Split) -> None:
    producer = split.parent.producer(MOVES)
    split.parent.add_offsets(producer, STAYS, transactional_id=MOVES)
    split.hand_over()
    split.parent.advance(120_000)
    split.child.advance(120_000)
    assert split.child.transaction(MOVES).producer_epoch == producer[1] + 1
    assert split.parent.transaction(MOVES).producer_epoch == producer[1]
