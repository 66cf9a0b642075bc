"""A kind of group that is added from outside is served like the others, though no line of the product knows
it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.explain import explain, states
from actors.coordinator.kinds import KINDS
from actors.coordinator.restore import RESTORE, RestoreRequest
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Record, Request
from actors.ground.image import MetadataImage
from actors.ground.records import RECORD_TYPES
from actors.ground.settings import GroupSettings
from actors.metrics.groups import group_rows
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    CommittedPartition,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from actors.protocol.transaction_messages import TxnOffsetCommitRequest
from actors.replica.entry import RecordType
from actors.replica.replica import Replica
from tests.coordinator.alone import commit, lead, log_of
from tests.coordinator.driver import AT_ONCE, START_MS, image_of
from tests.coordinator.shards import numbered
from tests.coordinator.toy_kind import rosters, wire
from tests.coordinator.toy_kind.wire import (
    DESCRIBE_ROSTER,
    SIGN_ROSTER,
    DescribeRosterRequest,
    DescribeRosterResponse,
    SignRosterRequest,
    SignRosterResponse,
)

TYPES = {kind: RecordType(*each) for kind, each in (RECORD_TYPES | rosters.RECORD_TYPES).items()}
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


def new_shard(settings: GroupSettings = AT_ONCE, image: MetadataImage | None = None) -> CoordinatorShard:
    """Make a shard that serves rosters beside the groups of the product."""
    return CoordinatorShard(settings, numbered(), image or image_of(t=4), kinds=(*KINDS, rosters.KIND))


class Leader:
    """The real replica that leads such a shard, and its clock."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.released: dict[int, Any] = {}
        self._tokens = count(1)
        self.replica = Replica(
            new_shard=new_shard,
            record_types=TYPES,
            release=self.released.__setitem__,
            clock_ms=lambda: self.now_ms,
            on_events=lambda events: None,
        )
        lead(self.replica)

    @property
    def shard(self) -> CoordinatorShard:
        shard = self.replica.shard
        assert isinstance(shard, CoordinatorShard)
        return shard

    def ask(self, api_key: int, body: Any, version: int = 0) -> Any:
        """Submit a request. Returns the answer, once the records that it rests on are committed."""
        token = next(self._tokens)
        request = Request(token, api_key, version, "client", "/127.0.0.1", body)
        answer = self.replica.submit(request, self.now_ms)
        if answer is None:
            commit(self.replica)
            answer = self.released[token]
        return answer

    def advance(self, by_ms: int) -> None:
        """Let time pass, firing each timer when it is due."""
        until_ms = self.now_ms + by_ms
        while (due_ms := self.shard.next_deadline_ms) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.replica.run_timers(self.now_ms)
        self.now_ms = until_ms
        commit(self.replica)

    def sign(self, name: str, session_ms: int = MINUTE_MS) -> SignRosterResponse:
        answer = self.ask(SIGN_ROSTER, SignRosterRequest("r", name, session_ms))
        assert isinstance(answer, SignRosterResponse)
        return answer

    def names(self) -> tuple[str, ...]:
        answer = self.ask(DESCRIBE_ROSTER, DescribeRosterRequest("r"))
        assert isinstance(answer, DescribeRosterResponse)
        return answer.names

    def commit_offset(self, member_id: str) -> int:
        body = OffsetCommitRequest("r", -1, member_id, None, -1, (("t", (CommittedPartition(0, 7),)),))
        [(_, [(_, error)])] = self.ask(api_keys.OFFSET_COMMIT, body, 9).topics
        return int(error)

    def listed(self) -> list[tuple[str, str, str]]:
        groups = self.ask(api_keys.LIST_GROUPS, ListGroupsRequest((), ()), 5).groups
        return [(group.group_id, group.group_state, group.group_type) for group in groups]

    def delete(self) -> int:
        [(_, error)] = self.ask(api_keys.DELETE_GROUPS, DeleteGroupsRequest(("r",)), 2).results
        return int(error)


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_members_come_and_go(leader: Leader) -> None:
    """One member joins by the kind's own request, one leaves by a request that classic groups answer too, and
    one is forgotten by a timer."""
    assert [leader.sign(name).members for name in ("ann", "bob", "cy")] == [1, 2, 3]
    leaving = LeaveGroupRequest("r", (LeavingMember("bob"), LeavingMember("nobody")))
    left = leader.ask(api_keys.LEAVE_GROUP, leaving, 5)
    assert [each.error_code for each in left.members] == [0, ErrorCode.unknown_member_id]
    leader.advance(MINUTE_MS // 2)
    leader.sign("ann")
    leader.advance(MINUTE_MS * 3 // 4)
    assert leader.names() == ("ann",)


def test_bytes_come_in_and_go_out(leader: Leader) -> None:
    frame = wire.written_sign(SignRosterRequest("r", "ann", MINUTE_MS))
    leader.ask(SIGN_ROSTER, wire.read_sign(frame))
    answer = leader.ask(DESCRIBE_ROSTER, DescribeRosterRequest("r"))
    assert wire.read_description(wire.written_description(answer)).names == ("ann",)


def test_the_group_is_listed_counted_and_explained(leader: Leader) -> None:
    leader.sign("ann")
    state = leader.shard.state
    assert leader.listed() == [("r", "Signed", "roster")]
    assert list(leader.shard.group_states()) == ["Signed"]
    assert leader.shard.summary("r") == {"state": "Signed", "members": 1}
    assert states(state, ("r", "other")) == {"r": ("Signed", 1)}
    found = explain(state, "r", leader.now_ms)
    assert found is not None
    assert (found.group_type, found.says) == (
        "roster",
        "its members sign again before their signatures run out",
    )
    assert [(each.member_id, each.deadline_ms) for each in found.waited_for] == [
        ("ann", START_MS + MINUTE_MS)
    ]


def test_metrics_count_the_states(leader: Leader) -> None:
    leader.sign("ann")
    counting = group_rows(leader.shard)
    with pytest.raises(StopIteration) as done:
        next(counting)
    rows = {(name, labels): value for name, labels, value in done.value.value}
    assert rows["group_count", ("roster",)] == rows["group_member_count", ("roster",)] == 1
    assert rows["roster_group_count", ("Signed",)] == 1
    assert rows["roster_group_count", ("Empty",)] == 0


def test_other_kinds_leave_the_group_alone(leader: Leader) -> None:
    """Requests of other kinds answer that the group is none of theirs, and make no second group of its id."""
    leader.sign("ann")
    join = JoinGroupRequest("r", 10_000, 60_000, "", None, "consumer", (("range", b""),))
    assert leader.ask(api_keys.JOIN_GROUP, join, 9).error_code == ErrorCode.inconsistent_group_protocol
    beat = HeartbeatRequest("r", 1, "ann")
    assert leader.ask(api_keys.HEARTBEAT, beat, 4).error_code == ErrorCode.unknown_member_id
    modern = ConsumerGroupHeartbeatRequest("r", "m", 0, None, None, 1_000, ("t",), None, None, ())
    refused = leader.ask(api_keys.CONSUMER_GROUP_HEARTBEAT, modern, 1)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.group_id_not_found,
        "Group r is not a consumer group.",
    )
    [classic] = leader.ask(api_keys.DESCRIBE_GROUPS, DescribeGroupsRequest(("r",)), 6).groups
    assert classic.error_message == "Group r is not a classic group."
    asked = ConsumerGroupDescribeRequest(("r",))
    [consumer] = leader.ask(api_keys.CONSUMER_GROUP_DESCRIBE, asked, 1).groups
    assert consumer.error_message == "Group r is not a consumer group."
    assert leader.listed() == [("r", "Signed", "roster")]


def test_a_classic_group_is_no_roster(leader: Leader) -> None:
    join = JoinGroupRequest("r", 10_000, 60_000, "", None, "consumer", (("range", b""),))
    assert leader.ask(api_keys.JOIN_GROUP, join, 9).error_code == ErrorCode.member_id_required
    assert leader.sign("ann").error_code == ErrorCode.group_id_not_found


def test_members_commit_fetch_and_keep_offsets(leader: Leader) -> None:
    leader.sign("ann")
    assert leader.commit_offset("stranger") == ErrorCode.unknown_member_id
    assert leader.commit_offset("ann") == 0
    asked = OffsetFetchRequest((OffsetFetchGroup("r", (("t", (0,)),), "stranger", 1),))
    [fetched] = leader.ask(api_keys.OFFSET_FETCH, asked, 9).groups
    assert fetched.error_code == ErrorCode.unknown_member_id
    deletion = OffsetDeleteRequest("r", (("t", (0,)),))
    [(_, [(_, error)])] = leader.ask(api_keys.OFFSET_DELETE, deletion).topics
    assert error == ErrorCode.group_subscribed_to_topic


def test_a_transaction_asks_the_kind_whether_it_may_commit(leader: Leader) -> None:
    leader.sign("ann")
    topics = (("t", (CommittedPartition(0, 7),)),)
    body = TxnOffsetCommitRequest("tx", "r", 1, 0, -1, "stranger", None, topics)
    with pytest.raises(GroupError) as refusal:
        rosters.KIND.validate_txn_commit(
            leader.shard.state, Request(1, api_keys.TXN_OFFSET_COMMIT, 3, "c", "/h", body), leader.now_ms
        )
    assert refusal.value.error_code is ErrorCode.unknown_member_id


def test_offsets_expire_and_the_empty_group_with_them(leader: Leader) -> None:
    leader.sign("ann")
    leader.commit_offset("ann")
    retention_ms = AT_ONCE.offsets_retention_minutes * MINUTE_MS
    for _ in range(2 * retention_ms // DAY_MS):
        leader.sign("ann", DAY_MS + MINUTE_MS)
        leader.advance(DAY_MS)
    assert leader.shard.state.offsets["r"]
    leader.advance(retention_ms)
    assert leader.listed() == []
    assert not list(leader.shard.records())


def test_only_an_empty_group_is_deleted(leader: Leader) -> None:
    leader.sign("ann")
    assert leader.delete() == ErrorCode.non_empty_group
    leader.advance(2 * MINUTE_MS)
    assert leader.delete() == 0
    assert leader.listed() == []


def test_the_next_leader_goes_on(leader: Leader) -> None:
    """The records alone make the roster, and it forgets members that do not sign again."""
    leader.sign("ann")
    after = Leader()
    for key, value in leader.shard.records():
        after.shard.apply(key, value)
    after.shard.on_elected(after.now_ms)
    assert after.names() == ("ann",)
    after.advance(2 * MINUTE_MS)
    assert after.names() == ()


def test_who_does_not_lead_refuses_in_the_kinds_own_words(leader: Leader) -> None:
    log_of(leader.replica).is_leader = False
    leader.replica.on_fallen()
    request = Request(1, SIGN_ROSTER, 0, "client", "/127.0.0.1", SignRosterRequest("r", "ann", 1))
    answer = leader.replica.submit(request, leader.now_ms)
    assert answer == SignRosterResponse(ErrorCode.not_coordinator)


def test_the_group_comes_back_from_a_backup(leader: Leader) -> None:
    record = Record(rosters.RosterKey(rosters.ROSTER, "r"), rosters.RosterValue(START_MS))
    asked = RestoreRequest((record,))
    assert leader.ask(RESTORE, asked).error_code == 0
    assert leader.listed() == [("r", "Empty", "roster")]
    leader.sign("ann")
    assert leader.ask(RESTORE, asked).error_code == ErrorCode.non_empty_group
