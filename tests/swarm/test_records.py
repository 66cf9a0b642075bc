"""Records that are really written and read: batches, what members commit of them, lag, the judge's rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from kio.schema.errors import ErrorCode

from actors.network.wire import from_plain, message_class
from actors.protocol.messages import HeartbeatRequest, LeaveGroupRequest, OffsetCommitRequest
from actors.topics.batch import check_batch, one_batch, placed
from bench.member.assigning import CLASSIC_RANGE
from bench.swarm.planning.plan import MemberPlan, Plan, ProducerPlan, RecordsPlan
from bench.swarm.records.batches import batch, next_offset
from bench.swarm.records.behind import Behind
from bench.swarm.records.lag import lags_of
from bench.swarm.records.producer import Producer
from bench.swarm.rows.recorder import Recorder
from storage.history.calls import ANSWERED, CLOSED, Call, History, Offset, history_of
from storage.history.judge.records import judge_records
from storage.history.judge.verdict import judge
from tests.swarm.broker import ScriptedBroker
from tests.swarm.test_engine_members import Script, Stage

SECOND_US = 1_000_000
QUICK = RecordsPlan(process_ms=(0.0, 0.1), max_poll_records=10)
READER = MemberPlan(
    "orders/0",
    "orders",
    CLASSIC_RANGE,
    ("clicks",),
    heartbeat_interval_ms=20,
    commit_interval_ms=30,
    records=QUICK,
)


class Log(Script):
    """A coordinator that leads two partitions as well, and keeps what is produced."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = {0: 0, 1: 0}
        self.begins = {0: 0, 1: 0}

    def __call__(self, request: Any) -> Any:
        kind = type(request).__name__
        if kind == "ProduceRequest":
            return self._produced(request)
        if kind == "FetchRequest":
            return self._fetched_records(request)
        if kind == "ListOffsetsRequest":
            return self._listed(request)
        return super().__call__(request)

    def _produced(self, request: Any) -> Any:
        (topic,) = request.topic_data
        (row,) = topic.partition_data
        base_offset = self.ends[row.index]
        self.ends[row.index] += check_batch(one_batch(row.records), 1_000_000).record_count
        told = {"index": row.index, "error_code": ErrorCode.none, "base_offset": base_offset}
        told |= {"record_errors": []}
        fields = {"responses": [{"name": topic.name, "partition_responses": [told]}]}
        return from_plain(message_class("produce", 9, "response"), fields)

    def _fetched_records(self, request: Any) -> Any:
        (topic,) = request.topics
        rows = []
        for row in topic.partitions:
            begin, end, at = self.begins[row.partition], self.ends[row.partition], row.fetch_offset
            is_there = begin <= at <= end
            raw = placed(batch(end - at, 20, 0), at, 0, None) if is_there and at < end else None
            error = ErrorCode.none if is_there else ErrorCode.offset_out_of_range
            told = {"partition_index": row.partition, "error_code": error, "high_watermark": end}
            rows.append({**told, "aborted_transactions": None, "records": raw})
        fields = {"throttle_time": 0, "error_code": ErrorCode.none}
        responses = [{"topic": topic.topic, "partitions": rows}]
        return from_plain(message_class("fetch", 12, "response"), {**fields, "responses": responses})

    def _listed(self, request: Any) -> Any:
        (topic,) = request.topics
        (row,) = topic.partitions
        told = {"partition_index": row.partition_index, "error_code": ErrorCode.none}
        told |= {"offset": self.begins[row.partition_index]}
        topics = [{"name": topic.name, "partitions": [told]}]
        answer = message_class("list_offsets", 7, "response")
        return from_plain(answer, {"throttle_time": 0, "topics": topics})


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def stage(log: Log, tmp_path: Path) -> Iterator[Stage]:
    with ScriptedBroker(log) as broker:
        stage = Stage(broker, tmp_path)
        host, port = broker.bootstrap.split(":")
        stage.shared.catalogue.leaders.update({("clicks", n): (host, int(port)) for n in range(2)})
        yield stage
        stage.end()


def test_a_batch_is_what_a_broker_takes_and_its_end_is_found_though_the_next_one_is_cut_short() -> None:
    raw = batch(20, 100, 1_700_000_000_000)
    assert check_batch(one_batch(raw), 1_000_000).record_count == 20
    assert next_offset(placed(raw, 7, 0, None) + placed(raw, 27, 0, None) + raw[:80]) == 47
    assert next_offset(b"") is None


def test_a_member_that_fetches_commits_what_it_has_processed_and_no_more(stage: Stage, log: Log) -> None:
    producer = ProducerPlan("orders/producer", ("clicks",), 400.0, 50)
    stage.greenlets.append(gevent.spawn(Producer(producer, stage.shared).run))
    stage.start(READER)
    stage.until(lambda: min(log.committed.get(0, 0), log.committed.get(1, 0)) > 50, "it commits")
    assert all(log.committed[number] <= log.ends[number] for number in range(2))
    stage.end()
    history = stage.history()
    verdict = judge(history)
    (promise,) = [each for each in verdict.promises if each.name == "records"]
    assert promise.status == "kept", promise
    apis = {call.api: call.group_id for call in history.calls}
    assert (apis["Produce"], apis["Fetch"]) == ("", "")


def test_whoever_processes_a_poll_for_too_long_leaves_its_group_and_processes_it_again(
    stage: Stage, log: Log
) -> None:
    """Real clients do so by max.poll.interval.ms: heartbeats go on until then."""
    log.ends = {0: 10, 1: 10}
    slow = RecordsPlan(process_ms=(40.0, 40.0), max_poll_records=10)
    stage.start(READER._replace(records=slow, rebalance_timeout_ms=150))
    stage.until(lambda: len(stage.asked(LeaveGroupRequest)) >= 2, "it leaves, twice")
    assert stage.asked(HeartbeatRequest)
    assert stage.asked(OffsetCommitRequest) == []


def test_a_member_whose_position_was_deleted_begins_at_the_earliest_one(stage: Stage, log: Log) -> None:
    log.begins, log.ends = {0: 100, 1: 100}, {0: 130, 1: 130}
    stage.start(READER)
    stage.until(lambda: log.committed == {0: 130, 1: 130}, "it commits the end")


def written(at_s: float, end: int, outcome: str = ANSWERED) -> Call:
    at_us = int(at_s * SECOND_US)
    offsets = (Offset("clicks", 0, end),)
    return Call("producer", "c", "Produce", at_us, at_us + 1_000, outcome, offsets=offsets)


def committed(at_s: float, offset: int) -> Call:
    at_us = int(at_s * SECOND_US)
    offsets = (Offset("clicks", 0, offset),)
    return Call("a", "d", "OffsetCommit", at_us, at_us + 1_000, ANSWERED, group_id="orders", offsets=offsets)


def history(*calls: Call) -> History:
    return history_of(list(calls))


def test_a_position_behind_what_was_produced_is_a_violation_unless_nobody_knows_what_was() -> None:
    lied = history(written(1, 10), committed(2, 11), written(3, 20))
    assert [violation.rule for violation in judge_records(lied).violations] == ["behind the end"]
    assert judge_records(history(written(1, 10), committed(2, 10))).violations == []
    lost = history(written(1, 10), written(1.5, -1, CLOSED), committed(2, 11))
    assert judge_records(lost).violations == []


def test_lag_is_what_was_produced_less_what_was_committed_second_by_second() -> None:
    found = lags_of(
        history(written(0.5, 10), written(1.5, 30), committed(1.6, 5), committed(2.5, 30)), 0, 3 * SECOND_US
    )
    assert found is not None
    (group,) = found.groups
    assert (group.lag, group.processed, group.most, group.last) == ([10, 25, 0], 30, 25, 0)
    assert (found.produced_s, found.processed_s) == ([10, 20, 0], [0, 5, 25])
    assert found.total == [10, 25, 0]
    joins = Call("b", "e", "JoinGroup", 0, 1, ANSWERED, group_id="slow", subscribed=("clicks",))
    never = lags_of(history(joins, written(0.5, 10)), 0, SECOND_US)
    assert never is not None
    assert [(group.group_id, group.last) for group in never.groups] == [("slow", 10)]
    assert lags_of(history(committed(1, 1)), 0, SECOND_US) is None


def test_lag_is_known_while_a_swarm_runs_by_what_its_processes_wrote_and_committed(tmp_path: Path) -> None:
    """Two groups read a topic: each is behind by itself. What comes late from another process takes nothing
    back."""
    readers = tuple(
        READER._replace(name=f"{group_id}/0", group_id=group_id) for group_id in ("orders", "slow")
    )
    producer = ProducerPlan("producer", ("clicks",), 400.0, 50)
    behind = Behind(Plan("own", 1, 60.0, (), readers, (), producers=(producer,)))
    recorder = Recorder(tmp_path, 0, "run", lambda *_: None, has_records=True)

    def lag_after(*calls: Call) -> int:
        for call in calls:
            recorder.ended(recorder.sent(call), call, 0)
        behind.take(recorder.pulse()["positions"])
        return behind.lag

    assert lag_after(written(0.1, 10), written(0.2, 30)) == 60
    assert lag_after(committed(0.3, 25), written(0.3, -1, CLOSED)) == 35
    assert lag_after(committed(0.4, 20)) == 35
    elsewhere = Offset("unwritten", 0, 7)
    assert lag_after(committed(0.5, 30)._replace(offsets=(Offset("clicks", 0, 30), elsewhere))) == 30
    assert lag_after() == 30
    recorder.close_record()
