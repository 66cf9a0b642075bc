"""Small parts of the engine: requests by hand, connections, what the board makes of turns, plans as files."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import gevent
import pytest
from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.catalog.headers import parse_header
from actors.protocol.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from actors.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchedGroup,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from bench.member import answers, requests
from bench.member.assigning import CLASSIC_RANGE
from bench.member.requests import (
    Identity,
    Request,
)
from bench.swarm.load.driver import NoConsumerProtocol, Unreachable, run_swarm
from bench.swarm.planning import plan_file
from bench.swarm.planning.plan import CONSUMER, START, Action, MemberPlan, Plan, TopicPlan
from bench.swarm.rows.board import KEEPS, UNSETTLED, Board, Rest
from bench.swarm.rows.recorder import percentiles
from bench.swarm.wire.coordinators import Bootstrap
from cluster.groups.properties import properties
from cluster.ports import free_ports
from storage.history.calls import Offset
from tests.swarm.broker import ScriptedBroker

WHO = Identity("group", 7, "member", "instance")
ID = bytes(range(16))
NUMBERS = struct.pack(">2i", 1, 5)
MEMBERSHIP = (
    JoinGroupRequest("group", 9, 8, "member", None, "consumer", (("range", b"me"), ("other", b""))),
    SyncGroupRequest("group", 7, "member", "instance", None, None, (("a", b"1"), ("b", b""))),
    HeartbeatRequest("group", 7, "member", "instance"),
    LeaveGroupRequest("group", (LeavingMember("member", "instance"), LeavingMember("other"))),
    ConsumerGroupHeartbeatRequest(
        "group", "member", 7, "instance", None, 60, ("t",), None, "uniform", ((ID, NUMBERS),)
    ),
    ConsumerGroupHeartbeatRequest("group", "member", 7, "instance"),
)
REQUESTS = {
    **{f"{type(asked).__name__}-{n}": (requests.encoded(asked), asked) for n, asked in enumerate(MEMBERSHIP)},
    "commit": (
        requests.offset_commit(WHO, 9, {"t": {0: 5, 1: 2**40}}),
        OffsetCommitRequest(
            "group", 7, "member", "instance", -1, (("t", ((0, 5, -1, ""), (1, 2**40, -1, ""))),)
        ),
    ),
    "fetch": (
        requests.offset_fetch(WHO, 9, (("t", (1, 5)),)),
        OffsetFetchRequest((OffsetFetchGroup("group", (("t", (1, 5)),), "member", 7),), require_stable=True),
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_servers_codec_reads_a_request_as_it_was_meant(name: str) -> None:
    request, meant = REQUESTS[name]
    header, at = parse_header(_frame(request))
    assert codec.decode(header, _frame(request), at) == meant


def _frame(request: Request) -> bytes:
    tags = b"\0" if request.is_flexible else b""
    return struct.pack(">hhih", request.api_key, request.version, 1, 0) + tags + request.body


def _answer(api_key: int, version: int, body: Any) -> bytes:
    return codec.encode(api_key, version, 1, body)[4:]


def test_answers_of_the_servers_codec_are_read() -> None:
    members = (("a", None, b"x"), ("b", "i", b""))
    told = JoinGroupResponse(ErrorCode.none, 4, None, "range", "a", False, "a", members)
    assert answers.joined(_answer(JOIN_GROUP, 5, told)) == told
    synced = SyncGroupResponse(ErrorCode.rebalance_in_progress, assignment=b"mine")
    assert answers.synced(_answer(SYNC_GROUP, 3, synced)) == synced
    beaten = HeartbeatResponse(ErrorCode.illegal_generation)
    assert answers.beaten(_answer(HEARTBEAT, 3, beaten)) == beaten
    left = LeaveGroupResponse(ErrorCode.none, (LeftMember("a", None, ErrorCode.unknown_member_id),))
    assert answers.left(_answer(LEAVE_GROUP, 3, left)) == 25
    beat = ConsumerGroupHeartbeatResponse(ErrorCode.none, None, None, 6, 5_000, ((ID, NUMBERS),))
    told_more = beat._replace(error_message="words", member_id="me")
    assert answers.consumer_beaten(_answer(CONSUMER_GROUP_HEARTBEAT, 1, told_more)) == beat
    nothing_new = beat._replace(assignment=None)
    assert answers.consumer_beaten(_answer(CONSUMER_GROUP_HEARTBEAT, 1, nothing_new)) == nothing_new
    committed = OffsetCommitResponse((("t", ((0, ErrorCode.none), (3, ErrorCode.stale_member_epoch))),))
    assert answers.commit_errors(_answer(OFFSET_COMMIT, 9, committed)) == {("t", 0): 0, ("t", 3): 113}
    rows = ((0, 17, -1, "", ErrorCode.none), (3, -1, -1, "", ErrorCode.unstable_offset_commit))
    fetched = OffsetFetchResponse((FetchedGroup("group", (("t", rows),)),))
    assert answers.fetched(_answer(OFFSET_FETCH, 9, fetched)) == (
        0,
        (Offset("t", 0, 17), Offset("t", 3, -1, 88)),
    )


def test_a_group_is_stable_when_all_are_at_one_epoch_and_what_moves_later_is_counted() -> None:
    board = Board()
    assert board.take([("g", "a", 0, UNSETTLED, 0), ("g", "b", 1_000, UNSETTLED, 0)], 2_000) == []
    assert board.take([("g", "a", 5_000, 2, 3)], 6_000) == []
    assert board.take([("g", "b", 9_000, 2, 3)], 10_000) == []
    assert board.groups_stable == 1
    assert board.take([("g", "b", 20_000, None, 0)], 21_000) == [Rest("time to stable", 9.0)]
    assert board.take([("g", "a", 30_000, UNSETTLED, 0), ("g", "a", 32_500, 3, 3)], 33_000) == [
        Rest("rebalance", 2.5)
    ]
    assert (board.groups_stable, board.moved_partitions) == (1, 3)


def test_a_breath_between_two_that_join_is_no_stable_group() -> None:
    board = Board()
    alone = [("g", "a", 0, UNSETTLED, 0), ("g", "a", 1_000_000, 1, 6)]
    assert board.take(alone, 1_100_000) == []
    together = [("g", "b", 3_000_000, UNSETTLED, 0), ("g", "b", 3_000_000, 2, 3), ("g", "a", 4_000_000, 2, 0)]
    assert board.take(together, 5_000_000) == []
    assert board.take([], 8_999_999) == []
    assert board.take([], 9_000_000) == [Rest("time to stable", 4_000.0)]
    assert board.take([("g", "c", 10_000_000, 2, 0)], 20_000_000) == []
    assert board.moved_partitions == 0


def test_percentiles_are_of_all_requests() -> None:
    assert list(percentiles(Counter({10: 98, 500: 1, 900: 1}), 0.5, 0.99)) == [1.0, 50.0]
    assert list(percentiles(Counter(), 0.5)) == [0.0]


def small_plan(protocol: str) -> Plan:
    member = MemberPlan("g/0", "g", protocol, ("t",))
    return Plan("small", 1, 5.0, (TopicPlan("t", 2),), (member,), (Action(0.0, START, "g/0"),))


def test_a_plan_is_itself_again_out_of_its_file(tmp_path: Path) -> None:
    plan_file.save(small_plan(CONSUMER), tmp_path / "plan.json")
    assert plan_file.load(tmp_path / "plan.json") == small_plan(CONSUMER)


def test_an_address_where_nobody_listens_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"no Kafka can be reached at 127\.0\.0\.1:.*refused"):
        run_swarm(small_plan(CLASSIC_RANGE), f"127.0.0.1:{free_ports(1)}", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_kafka_that_offers_too_little_is_told_so(tmp_path: Path) -> None:
    with (
        ScriptedBroker(lambda request: None) as broker,
        pytest.raises(Unreachable, match="offers nothing of"),
    ):
        run_swarm(small_plan(CLASSIC_RANGE), broker.bootstrap, tmp_path)


def test_a_coordinator_without_kip_848_is_told_as_such(tmp_path: Path) -> None:
    classic = ((JOIN_GROUP, 0, 9), (HEARTBEAT, 0, 4), (OFFSET_COMMIT, 0, 8), (OFFSET_FETCH, 0, 8), (3, 0, 12))
    with (
        ScriptedBroker(lambda request: None, offers=classic) as broker,
        pytest.raises(NoConsumerProtocol, match=r"1 of 1 members"),
    ):
        run_swarm(small_plan(CONSUMER), broker.bootstrap, tmp_path)


def test_a_broker_that_let_a_request_time_out_is_not_asked_for_coordinators_any_more() -> None:
    """The connection that all share hangs like the one that was waited for, and nobody has noticed."""
    with ScriptedBroker(lambda _: None) as silent, ScriptedBroker(lambda _: None) as other:
        known = properties(f"{silent.bootstrap},{other.bootstrap}", None)
        bootstrap = Bootstrap(known, "test")
        try:
            bootstrap.connection().call(requests.find_coordinator("group"))
            bootstrap.leave(known.addresses[1])
            bootstrap.connection().call(requests.find_coordinator("group"))
            bootstrap.leave(known.addresses[0])
            bootstrap.connection().call(requests.find_coordinator("group"))
        finally:
            bootstrap.close()
            gevent.sleep(0)  # so that gevent closes what was shut down
        assert [len(each.requests) for each in (silent, other)] == [2, 1]


def test_a_group_whose_member_has_no_coordinator_is_not_stable() -> None:
    """The screen had said "20 of 20 groups stable" beside "100 without coordinator"."""
    board = Board()
    board.take([("g", "a", 0, 2, 3), ("g", "b", 1_000, 2, 3)], 10_000_000)
    assert board.groups_stable == 1
    assert board.take([("g", "a", 11_000_000, KEEPS, 0)], 11_000_000) == []
    assert board.groups_stable == 0
    assert board.take([("g", "a", 12_000_000, 2, 0)], 12_000_000) == [], "no rebalance: it kept its epoch"
    assert board.groups_stable == 1
    board.take([("g", "a", 13_000_000, KEEPS, 0), ("g", "a", 14_000_000, None, 0)], 14_000_000)
    assert board.groups_stable == 1, "whoever is gone lacks nothing"
