"""The fake member: what it asks next, what answers make it own, and when it is due."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from bench.member.assigning import CLASSIC_COOPERATIVE, CLASSIC_RANGE, Sharing
from bench.member.classic import ClassicMember, ClassicTerms
from bench.member.consumer import ConsumerMember, ConsumerTerms
from bench.member.member import NEVER
from bench.member.reactions import Reaction

TOPIC_ID = bytes(15) + b"\1"
FIRST, SECOND = bytes(4), bytes(3) + b"\1"


def classic(protocol: str = CLASSIC_RANGE) -> ClassicMember:
    return ClassicMember(ClassicTerms("g", Sharing(protocol, ("t",), lambda topics: {"t": 2})))


def joined(member: ClassicMember, asked: JoinGroupRequest) -> JoinGroupResponse:
    """Answer JoinGroup: the member leads a group that has no other member."""
    members = (("me", None, asked.protocols[0][1]),)
    return JoinGroupResponse(ErrorCode.none, 1, "consumer", "range", "me", False, "me", members)


def settle(member: ClassicMember, now: float = 0.0) -> None:
    asked = member.next_request(now)
    assert isinstance(asked, JoinGroupRequest)
    member.received(joined(member, asked))
    shares = member.next_request(now)
    assert isinstance(shares, SyncGroupRequest)
    member.received(SyncGroupResponse(ErrorCode.none, assignment=dict(shares.assignments)["me"]))


def test_a_classic_member_joins_leads_and_heartbeats_at_its_interval() -> None:
    member = classic()
    settle(member, now=10.0)
    assert member.owned == {"t": (0, 1)}
    assert member.next_deadline == 13.0
    assert member.next_request(12.9) is None
    assert member.next_request(13.5) == HeartbeatRequest("g", 1, "me")
    assert member.next_deadline == NEVER
    member.received(HeartbeatResponse(ErrorCode.none))
    assert member.next_deadline == 16.5


def test_a_member_without_an_id_joins_with_the_id_that_it_is_given() -> None:
    member = classic()
    member.next_request(0.0)
    told = JoinGroupResponse(ErrorCode.member_id_required, member_id="given")
    assert member.received(told) is Reaction.UNNAMED
    again = member.next_request(0.0)
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "given"


def test_an_eager_member_has_its_partitions_until_it_joins_again_a_cooperative_one_keeps_them() -> None:
    for protocol, kept in ((CLASSIC_RANGE, {}), (CLASSIC_COOPERATIVE, {"t": (0, 1)})):
        member = classic(protocol)
        settle(member)
        member.next_request(3.0)
        assert member.received(HeartbeatResponse(ErrorCode.rebalance_in_progress)) is Reaction.REJOIN
        assert member.owned == {"t": (0, 1)}
        assert isinstance(member.next_request(3.0), JoinGroupRequest)
        assert member.owned == kept


def test_a_cooperative_member_that_loses_a_partition_joins_once_more() -> None:
    member = classic(CLASSIC_COOPERATIVE)
    settle(member)
    member.next_request(3.0)
    member.received(HeartbeatResponse(ErrorCode.rebalance_in_progress))
    asked = member.next_request(3.0)
    assert isinstance(asked, JoinGroupRequest)
    member.received(joined(member, asked))
    member.next_request(3.0)
    one_less = member.terms.assignor.share_out(
        [(name, None, asked.protocols[0][1]) for name in ("me", "other")]
    )
    member.received(SyncGroupResponse(ErrorCode.none, assignment=one_less["me"]))
    assert member.owned == {"t": (0,)}
    assert isinstance(member.next_request(3.0), JoinGroupRequest)


def test_a_request_that_nobody_answers_is_sent_again_at_once() -> None:
    member = classic()
    settle(member)
    beat = member.next_request(3.0)
    member.unanswered()
    assert member.next_request(3.0) == beat


def test_a_heartbeat_on_its_way_when_the_member_is_unknown_makes_it_a_new_member() -> None:
    member = classic()
    settle(member)
    member.next_request(3.0)
    assert member.received(HeartbeatResponse(ErrorCode.unknown_member_id)) is Reaction.LOST
    assert (member.member_id, member.epoch, member.owned) == ("", -1, {})


def told(epoch: int, *numbers: bytes) -> ConsumerGroupHeartbeatResponse:
    assignment = ((TOPIC_ID, b"".join(numbers)),) if numbers else None
    return ConsumerGroupHeartbeatResponse(ErrorCode.none, None, None, epoch, 5_000, assignment)


def beat(member: ConsumerMember, now: float) -> ConsumerGroupHeartbeatRequest:
    asked = member.next_request(now)
    assert isinstance(asked, ConsumerGroupHeartbeatRequest)
    return asked


def test_a_consumer_member_says_what_it_owns_once_and_heartbeats_at_its_interval() -> None:
    member = ConsumerMember(ConsumerTerms("g", ("t",)), "me")
    first = beat(member, 0.0)
    assert (first.member_epoch, first.subscribed_topic_names, first.topic_partitions) == (0, ("t",), ())
    member.received(told(1, FIRST, SECOND))
    says = beat(member, 0.0)
    assert (says.subscribed_topic_names, says.topic_partitions) == (None, ((TOPIC_ID, FIRST + SECOND),))
    member.received(told(1))
    assert member.next_deadline == 5.0
    assert beat(member, 5.0).topic_partitions is None


def test_a_consumer_member_has_what_is_taken_away_until_it_reconciles() -> None:
    member = ConsumerMember(ConsumerTerms("g", ("t",)), "me")
    for answer in (told(1, FIRST, SECOND), told(1), told(2, FIRST)):
        beat(member, max(member.next_deadline, 0.0))
        member.received(answer)
    assert member.revoked == ((TOPIC_ID, SECOND),)
    assert member.owned == ((TOPIC_ID, FIRST + SECOND),)
    assert beat(member, 5.0).topic_partitions == ((TOPIC_ID, FIRST),)
    assert member.revoked == ()


def test_an_assignment_of_nothing_is_acknowledged_too() -> None:
    member = ConsumerMember(ConsumerTerms("g", ("t",)), "me")
    beat(member, 0.0)
    member.received(told(1)._replace(assignment=()))
    assert beat(member, 0.0).topic_partitions == ()


def test_after_a_heartbeat_without_answer_a_consumer_member_says_everything_again() -> None:
    member = ConsumerMember(ConsumerTerms("g", ("t",), server_assignor="uniform"), "me")
    for answer in (told(1, FIRST), told(1)):
        beat(member, 0.0)
        member.received(answer)
    beat(member, 5.0)
    member.unanswered()
    again = beat(member, 5.0)
    assert (again.server_assignor, again.subscribed_topic_names) == ("uniform", ("t",))
    assert again.topic_partitions == ((TOPIC_ID, FIRST),)


def test_a_consumer_member_that_is_fenced_owns_nothing_and_joins_under_its_id() -> None:
    member = ConsumerMember(ConsumerTerms("g", ("t",)), "me")
    for answer in (told(1, FIRST), told(1), told(1)._replace(error_code=ErrorCode.fenced_member_epoch)):
        beat(member, max(member.next_deadline, 0.0))
        member.received(answer)
    again = beat(member, 5.0)
    assert (again.member_id, again.member_epoch, again.topic_partitions) == ("me", 0, ())
