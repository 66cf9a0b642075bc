"""What Prometheus gets from a running swarm: figures by API, members by state, faults as they are felt."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.member.assigning import CLASSIC_RANGE
from bench.swarm.load.busy import Busy
from bench.swarm.load.driver import run_swarm
from bench.swarm.load.live import Live
from bench.swarm.planning.felt import MOMENT_S, Active, Planned, Written
from bench.swarm.planning.plan import CRASH, CUT, LEAVE, SLEEP, START, Action, MemberPlan, Plan, TopicPlan
from bench.swarm.rows import tally
from bench.swarm.rows.second import Second
from bench.swarm.told.report import read_run
from storage.history.call_files import CallWriter
from storage.history.calls import Fault
from tests.swarm.whole_broker import Whole

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED = set(re.findall(r"`(groupd_swarm_\w+)`", (ROOT / "bench/swarm/SEARCH.md").read_text()))
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
MEMBER = MemberPlan(
    "orders/0", "orders", CLASSIC_RANGE, ("clicks",), heartbeat_interval_ms=100, commit_interval_ms=200
)
PLAN = Plan(
    "scraped",
    7,
    5.0,
    (TopicPlan("clicks", 2),),
    (MEMBER,),
    (Action(0.0, START, "orders/0"), Action(1.0, SLEEP, "orders/0", 0.3)),
)


def scraped(port: int) -> Samples:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name.removeprefix("groupd_swarm_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_a_running_swarm_is_scraped_with_the_faults_that_it_suffers(tmp_path: Path) -> None:
    """Once nothing about a swarm could be seen from outside before its report."""
    scrapes: list[Samples] = []
    directory = tmp_path / "run"

    def on_second(second: Second) -> None:
        if not scrapes:
            run_id = str(read_run(directory)["run_id"])
            now_us = time.monotonic_ns() // 1_000
            with CallWriter(directory / "faults.calls", run_id) as writer:
                writer.write(Fault("freeze", "node 1", now_us, now_us + 60_000_000))
                writer.end(now_us)
        live(second)
        scrapes.append(scraped(live.port))

    with Whole().serving() as broker, Live(0, PLAN, directory, broker.bootstrap) as live:
        before = scraped(live.port)
        run_swarm(PLAN, broker.bootstrap, directory, on_second=on_second)
    assert value(before, "run_info", scenario="scraped", seed="7", bootstrap=broker.bootstrap) == 1
    last = scrapes[-1]
    requests = value(last, "requests_total", api="Heartbeat")
    assert requests >= 10
    assert value(last, "errors_total", api="Heartbeat") == 0
    assert value(last, "request_seconds_count", api="Heartbeat") == requests
    assert value(last, "request_seconds_bucket", api="Heartbeat", le="+Inf") == requests
    assert 0 < value(last, "request_seconds_sum", api="Heartbeat") < 5
    assert value(last, "commits_total") >= 5
    assert (value(last, "groups"), value(last, "groups_stable")) == (1, 1)
    assert value(last, "groups_without_coordinator") == 0
    assert value(last, "members", state="stable") == 1
    assert 0 < value(last, "process_busy_ratio", process="0") < 1
    assert value(last, "fault_active", kind="sleep", target="orders/0") == 1
    assert value(scrapes[0], "fault_active", kind="freeze", target="node 1") == 1
    assert value(last, "faults_total", kind="sleep") == 1
    assert value(last, "faults_total", kind="freeze") == 1
    assert 0 < read_run(directory)["busy"][0]["mean"] < 1
    served = {name.removesuffix("_created").removesuffix("_bucket") for name, _ in last}
    served = {name.removesuffix("_sum").removesuffix("_count") for name in served}
    assert served == {name.removeprefix("groupd_swarm_") for name in DOCUMENTED}


def test_counts_only_grow(tmp_path: Path) -> None:
    counted = tally.Counted()
    counted.add("Heartbeat", 3.0, is_served=True)
    counted.add("Heartbeat", 0.4, is_served=True)
    counted.add("Heartbeat", 9.0, is_served=False)
    with Live(0, PLAN, tmp_path, "kafka:9092") as live:
        for _ in range(2):
            live(_second(apis=counted.plain()))
        found = scraped(live.port)
    assert value(found, "requests_total", api="Heartbeat") == 6
    assert value(found, "errors_total", api="Heartbeat") == 2
    assert value(found, "request_seconds_bucket", api="Heartbeat", le="0.001") == 2
    assert value(found, "request_seconds_bucket", api="Heartbeat", le="0.005") == 4
    assert value(found, "request_seconds_sum", api="Heartbeat") == pytest.approx(6.8e-3)


def test_a_fault_is_told_once_as_over_and_then_no_more(tmp_path: Path) -> None:
    with Live(0, PLAN, tmp_path, "kafka:9092") as live:
        told = []
        for at_s in (0.5, 1.5, 1.0 + MOMENT_S + 1, 1.0 + MOMENT_S + 2):
            live(_second(at_s=at_s))
            told.append(scraped(live.port).get(("fault_active", frozenset(_labels("sleep", "orders/0")))))
    assert told == [None, 1, 0, None]


def test_a_plans_faults_are_what_happens_to_members_not_what_clients_do() -> None:
    actions = [
        Action(0.0, START, "a"),
        Action(1.0, CUT, "a"),
        Action(2.0, LEAVE, "a"),
        Action(3.0, CRASH, "b"),
        Action(4.0, SLEEP, "c", 40.0),
    ]
    planned = Planned(actions)
    assert planned.at(0.5) == set()
    assert planned.at(5.0) == {Active(CUT, "a"), Active(CRASH, "b"), Active(SLEEP, "c")}
    assert planned.at(30.0) == {Active(SLEEP, "c")}
    assert planned.at(50.0) == set()
    assert planned.begun == {CUT: 1, CRASH: 1, SLEEP: 1}


def test_a_fault_that_lasted_longer_than_planned_counts_as_it_ended(tmp_path: Path) -> None:
    written = Written(tmp_path)
    assert written.at(0) == set()
    second_us = 1_000_000
    with CallWriter(tmp_path / "faults.calls", "run") as writer:
        writer.write(Fault("freeze", "node 1", 0, 20 * second_us, True, "under way"))
        writer.flush()
        assert written.at(10 * second_us) == {Active("freeze", "node 1")}
        writer.write(Fault("freeze", "node 1", 0, 30 * second_us, True))
        writer.flush()
    assert written.at(29 * second_us) == {Active("freeze", "node 1")}
    assert written.at(31 * second_us) == set()
    assert written.begun == {"freeze": 1}


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"--metrics-port {port}: "):
            Live(port, PLAN, tmp_path, "kafka:9092")


def test_a_process_without_time_left_is_full_and_a_short_peak_is_not() -> None:
    idle, full = Busy(), Busy()
    for _ in range(3):
        idle.add(1.0, 1.0)
    for _ in range(9):
        idle.add(0.1, 1.0)
        full.add(0.97, 1.0)
    assert (idle.is_full, full.is_full) == (False, True)
    assert full.plain() == {"mean": 0.97, "most": 0.97}
    assert idle.plain() == {"mean": 0.325, "most": 0.64}


def _labels(kind: str, target: str) -> list[tuple[str, str]]:
    return [("kind", kind), ("target", target)]


def _second(at_s: float = 1.0, apis: dict[str, list[float]] | None = None) -> Second:
    return Second(at_s, 1.0, 0.0, 0.0, {"stable": 1}, 1, 1, 0, 1.0, 1.0, apis=apis or {})
