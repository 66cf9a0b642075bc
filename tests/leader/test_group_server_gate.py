"""The gate takes from group requests what is not allowed, and costs a steady member nothing (W10, W11,
W12)."""

from __future__ import annotations

from typing import Any

from actors.catalog.headers import parse_header
from actors.ground.acl import Acl, Operation, PatternType, Permission, ResourceType
from actors.ground.identity import TIER, ClientIdentity
from actors.ground.image import MetadataImage
from actors.ground.spec import BrokerSettings
from actors.leader.group_server import GroupServer, LastHeartbeat, Share
from actors.network.wire import parse_answer, request_frame
from actors.protocol.partitioning import Partitioning
from actors.security.gate import ACLS, Gate
from tests.coordinator.alone import lead, new_replica
from tests.coordinator.shards import new_shard
from tests.leader.asking import Line

ALICE = ClientIdentity("/127.0.0.1", "127.0.0.1:1", principal="User:alice")
GROUP_FAILED = 30
UNKNOWN_MEMBER = 25


def entry(name: str, operation: Operation) -> Acl:
    literal = PatternType.LITERAL
    return Acl(ResourceType.GROUP, name, literal, "User:alice", "*", operation, Permission.ALLOW)


class Leader:
    """The leader of the only partition, behind a gate with an authorizer."""

    def __init__(self, *acls: Acl, authorizer: str = ACLS) -> None:
        self.gate = Gate(BrokerSettings(authorizer=authorizer))
        self.gate.take(MetadataImage(version=1, acls=acls))
        self.replica = new_replica(
            lambda: new_shard(gate=self.gate), lambda token, body: self.server.release(token, body)
        )
        self.server = GroupServer(self.replica, Share(0, lambda: Partitioning(1)), lambda: 0, self.gate)
        lead(self.replica)

    def ask(
        self, api: str, version: int, identity: ClientIdentity = ALICE, **fields: Any
    ) -> tuple[dict[str, Any], LastHeartbeat | None]:
        frame = request_frame(api, version, 7, "test", fields)[4:]
        header, body_offset = parse_header(frame)
        late: list[bytes] = []
        answered, last = self.server.serve(header, frame, body_offset, Line(identity, late.append))
        relayed = self.server.serve_relayed(header, frame, body_offset, identity, late.append)
        assert answered is not None
        assert relayed == answered, "a relayed request is answered as one of an own connection"
        return parse_answer(api, version, answered[4:])[1], last


def beat(leader: Leader, group: str, **who: Any) -> tuple[int, LastHeartbeat | None]:
    fields = {"group_id": group, "generation_id": 1, "member_id": "m", "group_instance_id": None}
    answer, last = leader.ask("heartbeat", 4, **who, **fields)
    return int(answer["error_code"]), last


def test_a_heartbeat_is_remembered_only_if_it_was_allowed() -> None:
    leader = Leader(entry("mine", Operation.READ))
    code, last = beat(leader, "mine")
    assert code == UNKNOWN_MEMBER
    assert last is not None
    code, last = beat(leader, "other")
    assert code == GROUP_FAILED
    assert last is None


def test_a_heartbeat_of_a_session_that_ends_is_not_remembered() -> None:
    """KIP-368: each heartbeat of such a session has to be checked against the clock."""
    code, last = beat(Leader(entry("g", Operation.READ)), "g", identity=ALICE._replace(session_expires_ms=1))
    assert code == UNKNOWN_MEMBER
    assert last is None


def test_new_acls_are_told_apart_from_other_news() -> None:
    leader = Leader(entry("mine", Operation.READ))
    assert not leader.gate.take(MetadataImage(version=2, acls=(entry("mine", Operation.READ),)))
    assert beat(leader, "mine")[0] == UNKNOWN_MEMBER
    assert leader.gate.take(MetadataImage(version=3))
    assert beat(leader, "mine")[0] == GROUP_FAILED


def test_the_tier_itself_may_do_everything() -> None:
    assert beat(Leader(), "g", identity=TIER)[0] == UNKNOWN_MEMBER


def test_without_an_authorizer_nobody_is_asked_and_all_operations_are_told() -> None:
    """W12: a client that asks for them is told all operations that the resource has."""
    leader = Leader(authorizer="none")
    assert not leader.gate.checks
    assert beat(leader, "g")[0] == UNKNOWN_MEMBER
    for include, operations in ((True, 3400), (False, -(2**31))):
        fields = {"groups": ["g"], "include_authorized_operations": include}
        answer, _ = leader.ask("describe_groups", 5, **fields)
        assert answer["groups"][0]["authorized_operations"] == operations


def test_each_group_of_a_batch_is_refused_by_itself() -> None:
    leader = Leader(entry("seen", Operation.DESCRIBE), entry("mine", Operation.DELETE))
    answer, _ = leader.ask("describe_groups", 5, groups=["other", "seen"], include_authorized_operations=True)
    told = {
        each["group_id"]: (each["error_code"], each["authorized_operations"]) for each in answer["groups"]
    }
    assert told == {"other": (GROUP_FAILED, -(2**31)), "seen": (0, 1 << Operation.DESCRIBE)}
    answer, _ = leader.ask("delete_groups", 2, groups_names=["seen", "mine", "seen"])
    told = {each["group_id"]: each["error_code"] for each in answer["results"]}
    assert told == {"seen": GROUP_FAILED, "mine": 69}
