"""What a fake consumer does about answers: as Kafka's own clients do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from kio.schema.errors import ErrorCode

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
    LeftMember,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from bench.member.assigning import CLASSIC_RANGE
from bench.swarm.counted.columns import columns_of
from bench.swarm.counted.gaps import gaps
from bench.swarm.members.asking import LOST
from bench.swarm.members.classic import ClassicMember
from bench.swarm.members.consumer import ConsumerMember
from bench.swarm.members.member import Leaving, Member
from bench.swarm.planning.plan import CONSUMER, MemberPlan
from bench.swarm.rows.recorder import Recorder
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.clock import now_us
from bench.swarm.wire.connection import Closed
from bench.swarm.wire.coordinators import Bootstrap, Catalogue, Coordinators
from cluster.groups.properties import properties
from storage.history.call_files import read_history
from storage.history.calls import History
from tests.swarm.broker import ScriptedBroker

DEADLINE_S = 10.0
TOPIC_ID = bytes(15) + b"\1"
SESSION_MS = 60_000
PLAN = MemberPlan(
    "orders/0", "orders", CLASSIC_RANGE, ("clicks",), heartbeat_interval_ms=20, commit_interval_ms=30
)
KIP848 = PLAN._replace(protocol=CONSUMER)


class Script:
    """A coordinator of one member; `errors` come first, each once, by the request's class."""

    def __init__(self) -> None:
        self.errors: dict[type[Any], list[int]] = {}
        self.committed: dict[int, int] = {}
        self.assignment = b""

    def __call__(self, request: Any) -> Any:
        errors = self.errors.get(type(request), [])
        error = ErrorCode(errors.pop(0)) if errors else ErrorCode.none
        match request:
            case JoinGroupRequest():
                member_id = request.member_id or "member-1"
                chosen = request.protocols[0]
                members = ((member_id, request.group_instance_id, chosen[1]),)
                return JoinGroupResponse(
                    error, 3, "consumer", chosen[0], member_id, False, member_id, members
                )
            case SyncGroupRequest():
                self.assignment = dict(request.assignments).get(request.member_id, self.assignment)
                return SyncGroupResponse(error, assignment=self.assignment)
            case HeartbeatRequest():
                return HeartbeatResponse(error)
            case LeaveGroupRequest():
                (member,) = request.members
                return LeaveGroupResponse(error, (LeftMember(member.member_id, None, ErrorCode.none),))
            case OffsetFetchRequest():
                return OffsetFetchResponse((FetchedGroup("orders", (("clicks", self._fetched()),)),))
            case OffsetCommitRequest():
                ((topic, rows),) = request.topics
                self.committed |= {row[0]: row[1] for row in rows}
                return OffsetCommitResponse(((topic, tuple((row[0], error) for row in rows)),))
            case ConsumerGroupHeartbeatRequest():
                told = ((TOPIC_ID, bytes(4)),) if request.member_epoch == 0 else None
                return ConsumerGroupHeartbeatResponse(error, None, request.member_id, 5, 20, told)
        raise AssertionError(request)

    def _fetched(self) -> tuple[tuple[int, int, int, str, ErrorCode], ...]:
        return tuple((p, self.committed.get(p, -1), -1, "", ErrorCode.none) for p in range(2))


class Stage:
    """A member whose coordinator is a scripted broker."""

    def __init__(self, broker: ScriptedBroker, directory: Path) -> None:
        self.broker = broker
        self.directory = directory
        given = properties(broker.bootstrap, None)
        self.recorder = Recorder(directory, 0, "run", lambda *_: None)
        bootstrap = Bootstrap(given, "worker-0", self.recorder)
        catalogue = Catalogue(bootstrap.connection, "worker-0", self.recorder)
        catalogue.partitions["clicks"], catalogue.ids["clicks"] = 2, TOPIC_ID
        catalogue.names[TOPIC_ID] = "clicks"
        coordinators = Coordinators(given, "worker-0", 1, self.recorder)
        self.shared = Shared("run", 7, bootstrap, coordinators, catalogue, self.recorder, SESSION_MS, [])
        self.greenlets: list[gevent.Greenlet] = []

    def start(self, plan: MemberPlan) -> Member:
        member_class = ConsumerMember if plan.protocol == CONSUMER else ClassicMember
        member = member_class(plan, 1, self.shared)
        self.greenlets.append(gevent.spawn(member.run))
        return member

    def until(self, holds: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}; it asked {self.broker.requests}"
            gevent.sleep(0.005)

    def asked(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.broker.requests if isinstance(request, kind)]

    def end(self, how: type[BaseException] = gevent.GreenletExit) -> None:
        gevent.killall(self.greenlets, how)
        self.shared.bootstrap.close()
        self.recorder.close_record()
        gevent.sleep(0)  # so that gevent closes what was shut down

    def history(self) -> History:
        return read_history(self.directory)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def stage(script: Script, tmp_path: Path) -> Iterator[Stage]:
    with ScriptedBroker(script) as broker:
        stage = Stage(broker, tmp_path)
        yield stage
        stage.end()


def test_a_member_finds_its_coordinator_joins_leads_and_commits_rising_offsets(
    stage: Stage, script: Script
) -> None:
    script.errors[JoinGroupRequest] = [79]
    member = stage.start(PLAN)
    stage.until(lambda: len(stage.asked(OffsetCommitRequest)) >= 3, "three commits")
    assert [join.member_id for join in stage.asked(JoinGroupRequest)] == ["", "member-1"]
    assert member.owned == {"clicks": (0, 1)}
    offsets = [request.topics[0][1][0][1] for request in stage.asked(OffsetCommitRequest)]
    assert offsets == sorted(set(offsets))
    assert stage.broker.requests[0] == "FindCoordinator"


def test_a_member_told_of_another_coordinator_finds_it_and_stays_what_it_is(
    stage: Stage, script: Script
) -> None:
    script.errors[HeartbeatRequest] = [0, 16, 0]
    stage.start(PLAN)
    stage.until(lambda: len(stage.asked(HeartbeatRequest)) >= 4, "it beats on")
    assert stage.broker.requests.count("FindCoordinator") == 2
    assert len(stage.asked(JoinGroupRequest)) == 1
    assert {beat.generation_id for beat in stage.asked(HeartbeatRequest)} == {3}


def test_a_member_that_is_unknown_joins_as_a_new_one_and_one_of_an_old_generation_as_itself(
    stage: Stage, script: Script
) -> None:
    script.errors[HeartbeatRequest] = [25, 22]
    stage.start(PLAN)
    stage.until(lambda: len(stage.asked(JoinGroupRequest)) >= 3, "it joins again, twice")
    assert [join.member_id for join in stage.asked(JoinGroupRequest)][:3] == ["", "", "member-1"]


def test_a_member_that_is_fenced_for_good_ends_and_says_why(stage: Stage, script: Script) -> None:
    script.errors[HeartbeatRequest] = [82]
    member = stage.start(PLAN)
    stage.until(lambda: member.state == "ended", "it ends")
    assert stage.shared.words == ["orders/0#1 gave up: FENCED_INSTANCE_ID"]
    stage.end()
    assert [gone.client for gone in stage.history().gone] == ["orders/0#1"]


def test_a_consumer_that_is_fenced_owns_nothing_and_joins_again_under_its_id(
    stage: Stage, script: Script
) -> None:
    script.errors[ConsumerGroupHeartbeatRequest] = [0, 0, 110]
    stage.start(KIP848)
    stage.until(
        lambda: [beat.member_epoch for beat in stage.asked(ConsumerGroupHeartbeatRequest)].count(0) == 2,
        "it joins again",
    )
    beats = stage.asked(ConsumerGroupHeartbeatRequest)
    rejoin = [beat for beat in beats if beat.member_epoch == 0][1]
    assert rejoin.member_id == beats[0].member_id
    assert rejoin.topic_partitions == ()
    assert beats[1].topic_partitions == ((TOPIC_ID, bytes(4)),)
    stage.recorder.flush()
    own = [call for call in stage.history().calls if call.group_id]
    assert {call.session_timeout_ms for call in own} == {SESSION_MS}


def test_a_consumer_commits_while_the_answer_to_what_it_owns_is_held(tmp_path: Path) -> None:
    """A tier holds it for seconds, since it has no news for a settled member, which had waited for it."""
    script = Script()

    def joined_then_held(request: Any) -> Any:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            broker.holds = {ConsumerGroupHeartbeatRequest}
        return script(request)

    with ScriptedBroker(joined_then_held) as broker:
        stage = Stage(broker, tmp_path)
        stage.start(KIP848)
        stage.until(lambda: stage.asked(OffsetCommitRequest), "it commits")
        stage.end()
    asked = [request for request in broker.requests if isinstance(request, ConsumerGroupHeartbeatRequest)]
    assert [beat.topic_partitions for beat in asked[:2]] == [(), ((TOPIC_ID, bytes(4)),)]


def test_whoever_is_closed_leaves_unless_it_is_static(stage: Stage) -> None:
    stage.start(PLAN)
    stage.start(PLAN._replace(name="orders/1", instance_id="static"))
    stage.until(lambda: len(stage.asked(HeartbeatRequest)) >= 4, "both are there")
    stage.end(Leaving)
    assert [leave.members[0].group_instance_id for leave in stage.asked(LeaveGroupRequest)] == [None]
    assert [gone.client for gone in stage.history().gone] == ["orders/1#1"]


def test_what_is_asked_and_never_answered_is_written_down_too(tmp_path: Path) -> None:
    with ScriptedBroker(lambda request: None) as broker:
        stage = Stage(broker, tmp_path)
        stage.start(PLAN)
        stage.until(lambda: len(stage.asked(JoinGroupRequest)) >= 2, "it tries again")
        stage.end()
    calls = [call for call in stage.history().calls if call.api == "JoinGroup"]
    assert len(calls) == len(stage.asked(JoinGroupRequest))
    assert {call.outcome for call in calls} <= {"closed", "open"}


def test_a_server_that_is_gone_leaves_rows_and_the_group_is_without_coordinator_until_the_end(
    stage: Stage,
) -> None:
    """Failed connects and look-ups had left nothing in the record: "without coordinator: never"."""
    member = stage.start(PLAN)
    stage.until(lambda: len(stage.asked(OffsetCommitRequest)) >= 2, "it commits")
    stage.broker.die()
    died_us = now_us()
    stage.until(lambda: member.state == LOST and now_us() - died_us > 400_000, "it looks for a coordinator")
    stage.recorder.close_record()
    history = stage.history()
    after = [call for call in history.calls if call.sent_us > died_us]
    assert {call.outcome for call in after} <= {"closed", "open"}
    lookups = [call for call in after if call.api == "FindCoordinator"]
    assert len(lookups) >= 2
    assert {(call.group_id, call.connection, call.was_sent) for call in lookups} == {("orders", "", False)}
    refused = [call for call in after if call.api == "Connect"]
    assert "Connection refused" in refused[0].detail
    (gap,) = gaps(columns_of(history))
    assert (gap.group_id, gap.is_served_again) == ("orders", False)
    assert gap.ended_us - died_us > 300_000


def test_every_connection_that_opens_is_a_row_of_whoever_wanted_it(stage: Stage) -> None:
    stage.start(PLAN)
    stage.until(lambda: len(stage.asked(HeartbeatRequest)) >= 1, "it is a member")
    stage.recorder.close_record()
    opened = [call for call in stage.history().calls if call.api == "Connect"]
    assert [(call.client, call.group_id, call.outcome) for call in opened] == [
        ("worker-0", "", "answered"),
        ("orders/0#1", "orders", "answered"),
    ]


def test_look_for_topics_is_in_the_record(stage: Stage) -> None:
    stage.broker.die()
    with pytest.raises(Closed, match="refused"):
        stage.shared.catalogue.look(["clicks"])
    stage.recorder.close_record()
    assert [call.api for call in stage.history().calls] == ["Connect"]


def test_after_the_end_of_the_record_nothing_is_committed(stage: Stage) -> None:
    """The final reader would find offsets that stand in no record, which nobody committed."""
    stage.start(PLAN)
    stage.until(lambda: len(stage.asked(OffsetCommitRequest)) >= 2, "it commits")
    stage.recorder.close_record()
    commits, beats = len(stage.asked(OffsetCommitRequest)), len(stage.asked(HeartbeatRequest))
    stage.until(lambda: len(stage.asked(HeartbeatRequest)) >= beats + 8, "it beats on")
    assert len(stage.asked(OffsetCommitRequest)) <= commits + 1, "the one that was on its way"
