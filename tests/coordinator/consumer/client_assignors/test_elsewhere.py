"""Assignors of members where the group goes elsewhere: to another offsets partition, into a backup, to
Kafka's records, to the classic protocol and back, and on a tier that does not know them yet."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.coordinator.kafka_records.committed import CommittedRecords
from actors.coordinator.kafka_records.convert import from_kafka, to_kafka
from actors.coordinator.restore import RESTORE, RestoreRequest, emptied
from actors.ground.features import CLIENT_ASSIGNORS_LEVEL, GROUPD_VERSION, Features
from actors.ground.image import MetadataImage
from actors.ground.records import CLIENT_ASSIGNMENT, CLIENT_ASSIGNORS, GROUP_METADATA
from actors.protocol.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_GROUP_INSTALL_ASSIGNMENT,
    CONSUMER_GROUP_PREPARE_ASSIGNMENT,
)
from actors.protocol.client_assignor_messages import (
    InstallAssignmentRequest,
    PrepareAssignmentRequest,
    PrepareAssignmentResponse,
)
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, LeavingMember
from tests.coordinator.consumer.client_assignors.computing import assignor, in_turn, installed
from tests.coordinator.consumer.migration.driver import GROUP, REBALANCE_MS, TOPIC, Both, numbers_of
from tests.coordinator.host import Host
from tests.coordinator.split.halves import MOVES, Split

INTERVAL_MS = 5_000
"""Longer than between two targets."""
OF_ASSIGNORS = {CLIENT_ASSIGNORS, CLIENT_ASSIGNMENT}
FIELDS = {
    "rebalance_timeout_ms": REBALANCE_MS,
    "subscribed_topic_names": (TOPIC,),
    "topic_partitions": (),
    "client_assignors": (assignor(),),
}


def at_level(host: Host, level: int = CLIENT_ASSIGNORS_LEVEL) -> None:
    topics, version = tuple(host.image.topics.values()), host.image.version + 1
    features = Features(1, ((GROUPD_VERSION, level),))
    host.set_image(MetadataImage(version=version, topics=topics, features=features))


class Assigning:
    """A member that brings an assignor, wherever its group is."""

    def __init__(self, host: Host, member_id: str, group_id: str = GROUP) -> None:
        self.host = host
        self.member_id = member_id
        self.group_id = group_id
        self.epoch = 0
        self.owned: Any = ()

    def beat(self, **fields: Any) -> Any:
        fields = {**FIELDS, **fields} if self.epoch == 0 else {"topic_partitions": self.owned, **fields}
        body = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, self.epoch, **fields)
        answer = self.host.ask(CONSUMER_GROUP_HEARTBEAT, body, 1)
        if not answer.error_code:
            self.epoch = answer.member_epoch
            self.owned = self.owned if answer.assignment is None else answer.assignment
        return answer

    @property
    def is_asked(self) -> bool:
        told = self.beat().client
        return told is not None and told.should_compute

    def prepare(self) -> PrepareAssignmentResponse:
        body = PrepareAssignmentRequest(self.group_id, self.member_id, self.epoch)
        answer: PrepareAssignmentResponse = self.host.ask(CONSUMER_GROUP_PREPARE_ASSIGNMENT, body, 0)
        return answer

    def install(self, prepared: PrepareAssignmentResponse) -> int:
        """Send what was computed, with metadata for each member. Returns the error."""
        given = installed(in_turn(prepared), b"news")
        body = InstallAssignmentRequest(
            self.group_id, self.member_id, self.epoch, prepared.group_epoch, 0, None, given
        )
        return int(self.host.ask(CONSUMER_GROUP_INSTALL_ASSIGNMENT, body, 0).error_code)

    def compute(self) -> None:
        assert self.is_asked
        assert self.install(self.prepare()) == ErrorCode.none

    def leave(self) -> None:
        self.host.ask(
            CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, -1), 1
        )


def settled(*members: Assigning, rounds: int = 6) -> None:
    for _ in range(rounds):
        for member in members:
            member.beat()


def kinds(host: Host, group_id: str = GROUP) -> set[int]:
    return {key[0] for key in host.records() if key[1] == group_id}


# Another offsets partition.


@pytest.fixture
def split() -> Split:
    made = Split()
    for half in (made.parent, made.child):
        at_level(half)
    return made


def test_a_computation_under_way_begins_anew_where_the_group_has_moved(split: Split) -> None:
    """A11: what was handed out is a leader's alone; assignors and installed metadata move with the group."""
    first, second = (Assigning(split.parent, name, MOVES) for name in ("m1", "m2"))
    first.compute()
    settled(first)
    split.parent.advance(INTERVAL_MS)
    assert second.is_asked
    prepared = second.prepare()
    split.parent.commit()
    before = {key: value for key, value in split.parent.records().items() if key[0] in OF_ASSIGNORS}
    assert {key[0] for key in before} == OF_ASSIGNORS
    split.hand_over()
    assert second.install(prepared) == ErrorCode.not_coordinator
    after = split.child.records()
    assert {key: value for key, value in after.items() if key[0] in OF_ASSIGNORS} == before
    first.host = second.host = split.child
    assert second.install(prepared) == ErrorCode.unknown_member_id, "nobody is asked by this leader"
    split.child.advance(INTERVAL_MS)
    assert first.is_asked, "who is heard first"
    again = first.prepare()
    assert again.group_epoch == prepared.group_epoch
    assert first.install(again) == ErrorCode.none
    settled(first, second)
    assert sorted(numbers_of(first.owned) + numbers_of(second.owned)) == [0, 1, 2, 3]
    assert split.parent.drop().error_code == 0
    assert not kinds(split.parent, MOVES)
    split.child.check_snapshot()


# A backup.


def test_a_backup_has_no_assignors_and_members_bring_them_again() -> None:
    """A4: assignors go with their members, which a restore does not bring back; the epochs go on."""
    both = Both()
    at_level(both)
    member = Assigning(both, "m1")
    member.compute()
    settled(member)
    kept = [emptied(tuple(key), tuple(value), both.now_ms) for key, value in both.records().items()]
    restored = tuple((tuple(each.key), tuple(each.value or ())) for each in kept if each is not None)
    assert not OF_ASSIGNORS & {key[0] for key, _ in restored}
    new = Both()
    at_level(new)
    assert new.ask(RESTORE, RestoreRequest(restored), 0).error_code == ErrorCode.none
    again = Assigning(new, "m1")
    again.compute()
    settled(again)
    assert again.epoch > member.epoch
    assert numbers_of(again.owned) == tuple(range(6))


# Kafka's records.


def test_kafka_has_no_record_of_assignors_and_the_rest_is_what_kafka_would_have() -> None:
    """A dump leaves them out and says so; a group that comes back from it has its target, and the server
    assigns until all members bring assignors again."""
    both = Both()
    at_level(both)
    member = Assigning(both, "m1")
    member.compute()
    settled(member)
    left_out: Counter[int] = Counter()
    packed = [(tuple(key), tuple(value or ())) for key, value in both.records().items()]
    found = list(to_kafka(packed, left_out))
    assert left_out == Counter(dict.fromkeys(OF_ASSIGNORS, 1))
    log = CommittedRecords()
    assert list(log.to_kafka(packed)) == found
    back = {each.key for record in found for each in from_kafka(record)}
    assert back == {key for key in both.records() if key[0] not in OF_ASSIGNORS}
    deleted = [(key, None) for key, _ in packed if key[0] in OF_ASSIGNORS]
    assert not list(log.to_kafka(deleted)), "Kafka has nothing to delete"


# The classic protocol.


def test_a_classic_member_that_joins_has_the_server_assign_and_ends_the_computation() -> None:
    """A4, G3: who speaks the classic protocol brings no assignors, so not all members do."""
    both = Both()
    at_level(both)
    first, second = Assigning(both, "m1"), Assigning(both, "m2")
    first.compute()
    settled(first)
    assert second.is_asked
    prepared = second.prepare()
    joined = both.join()
    assert joined.error_code == ErrorCode.none
    assert second.install(prepared) == ErrorCode.unknown_member_id
    settled(first, second)
    _, of_classic = both.rejoin(joined.member_id)
    owned = [*numbers_of(first.owned), *numbers_of(second.owned), *of_classic]
    assert sorted(owned) == [0, 1, 2, 3, 4, 5]
    assert len(of_classic) == 2
    both.let_leave(LeavingMember(joined.member_id))
    assert first.is_asked, "all who are left bring assignors"
    assert first.install(first.prepare()) == ErrorCode.none
    settled(first, second)
    assert sorted([*numbers_of(first.owned), *numbers_of(second.owned)]) == [0, 1, 2, 3, 4, 5]
    both.check_snapshot()


def test_who_upgrades_a_classic_group_with_assignors_computes_when_the_others_are_gone() -> None:
    """A4, G1, G2."""
    both = Both()
    at_level(both)
    [classic] = both.classic_group(None)
    new = Assigning(both, "m1")
    told = new.beat()
    assert (told.error_code, told.client.should_compute) == (ErrorCode.none, False)
    both.rejoin(classic.member_id)
    settled(new)
    assert len(numbers_of(new.owned)) == 3, "the server assigns"
    both.commit()
    both.fail_over()
    both.let_leave(LeavingMember(classic.member_id))
    new.compute()
    settled(new)
    assert numbers_of(new.owned) == tuple(range(6))


def test_a_group_that_becomes_classic_again_keeps_nothing_of_assignors() -> None:
    """A4, G7."""
    both = Both()
    at_level(both)
    member = Assigning(both, "m1")
    member.compute()
    settled(member)
    joined = both.join()
    assert kinds(both) >= OF_ASSIGNORS
    member.leave()
    assert GROUP_METADATA in kinds(both)
    assert not kinds(both) & OF_ASSIGNORS
    assert both.alive(both.join(joined.member_id).generation_id, joined.member_id) in (
        ErrorCode.none,
        ErrorCode.rebalance_in_progress,
    )
    both.check_snapshot()
    both.commit()
    both.fail_over()
    assert not kinds(both) & OF_ASSIGNORS


# A tier that has not been upgraded.


def test_a_tier_at_level_1_refuses_assignors_and_takes_them_when_it_has_been_upgraded() -> None:
    """A4: nothing is written that an older release cannot read."""
    both = Both()
    at_level(both, 1)
    member, plain = Assigning(both, "m1"), Assigning(both, "m2")
    assert member.beat().error_code == ErrorCode.unsupported_assignor
    assert member.prepare().error_code == ErrorCode.group_id_not_found
    assert plain.beat(client_assignors=None).error_code == ErrorCode.none
    assert plain.prepare().error_code == ErrorCode.unknown_member_id
    assert plain.beat(**FIELDS).error_code == ErrorCode.unsupported_assignor
    assert plain.beat(client_assignors=()).error_code == ErrorCode.none, "to have none is no news"
    assert not kinds(both) & OF_ASSIGNORS
    at_level(both)
    assert plain.beat(client_assignors=(assignor(),)).error_code == ErrorCode.none
    plain.compute()
    settled(plain)
    assert kinds(both) >= OF_ASSIGNORS
