"""`groupd bench idle`: whose wake-ups are whose, and when it complains."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest
from rich.console import Console as RichConsole
from typer.testing import CliRunner

from actors.ground.threads import LOOP_NAME, name_this_thread
from bench.cli import app
from bench.ground.threads import Rate, Thread, parsed, rates, threads_of
from bench.tier.idle import (
    DRIVER,
    Asked,
    Plan,
    Process,
    Watched,
    as_json,
    by_thread,
    owner,
    processes_of,
    roles_of,
    show,
    too_lively,
)
from cluster.cli.tables import Console

PLAN = Plan(nodes=1, copies=1, settle_s=0, seconds=10, bound=5)
STATUS = (
    "Name:\tgroupd loop\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n"
)


def process(role: str, *done: Rate) -> Process:
    return Process(1, role, done, 50.0)


def test_the_kernels_words_about_a_thread_are_read() -> None:
    assert parsed(STATUS, "5000000 100 42\n") == Thread("groupd loop", 42, 5_000_000)


def test_what_happened_between_two_counts_is_told_by_name() -> None:
    before = {1: Thread("client.poll0", 100, 0), 2: Thread("client.poll1", 0, 0), 3: Thread("ended", 9, 9)}
    after = {
        1: Thread("client.poll0", 140, 20_000_000),
        2: Thread("client.poll1", 10, 0),
        4: Thread("client.poll0", 20, 0),
    }
    assert rates(before, after, 10) == [Rate("client.poll0", 2, 6.0, 0.2), Rate("client.poll1", 1, 1.0, 0.0)]


def test_a_loops_thread_and_what_it_starts_are_ours() -> None:
    assert [owner(name, "broker 1") for name in (LOOP_NAME, "ray::IDLE", "client.poll0", "python")] == [
        *("ours", "Ray", "Ray", "Ray")
    ]
    assert [owner(name, DRIVER) for name in ("python", "client.poll0")] == ["ours", "Ray"]


def test_a_process_is_too_lively_by_its_own_threads_alone() -> None:
    calm = process("broker 1", Rate("client.poll0", 4, 900.0, 1.0), Rate(LOOP_NAME, 1, 5.0, 0.1))
    lively = process("partition 0, leads", Rate(LOOP_NAME, 2, 5.1, 0.1))
    assert too_lively([calm, lively], 5) == [lively]
    assert as_json([calm, lively], PLAN)["too_lively"] == ["partition 0, leads"]


def test_replicas_say_how_often_they_turned_and_heard() -> None:
    threads = {7: {7: Thread(LOOP_NAME, 0, 0)}, 8: {8: Thread("raylet", 0, 0)}}
    asked = (
        Asked(0.0, {7: {"turns": 10, "heard": 100}}),
        Asked(20.0, {7: {"turns": 30, "heard": 160}, 8: {"turns": None}}),
    )
    names, memory = {7: "partition 0, leads", 8: "raylet"}, {7: 1.0, 8: 1.0}
    found = processes_of(names, Watched(threads, threads, 10.0), asked, memory)
    assert [(each.role, each.turns, each.heard) for each in found] == [
        ("partition 0, leads", 1.0, 3.0),
        ("raylet", None, None),
    ]


def test_processes_are_named_after_what_they_do() -> None:
    replicas = [{"pid": 3, "serving": True}, {"pid": 4, "serving": False}, {"pid": None, "serving": False}]
    status = {
        "nodes": [{"node_id": 1, "pid": 2}],
        "partitions": [{"partition": 5, "replicas": replicas}],
        "controller": {"replicas": [{"pid": 6, "serving": True}]},
    }
    assert roles_of(status) == {
        2: "broker 1",
        3: "partition 5, leads",
        4: "partition 5, follows",
        6: "controller, leads",
    }


def test_threads_of_one_sort_are_one_row() -> None:
    found = by_thread(
        [
            process("raylet", Rate("client.poll0", 1, 1.0, 0.1), Rate("client.poll1", 1, 2.0, 0.1)),
            process("broker 1", Rate("ray::Broker", 2, 1.0, 0.1), Rate("ray::IDLE", 1, 1.0, 0.1)),
        ]
    )
    assert found == [("Ray", Rate("client.poll", 2, 3.0, 0.2)), ("Ray", Rate("ray::", 3, 2.0, 0.2))]


@pytest.mark.parametrize("width", [80, None])
def test_the_tables_fit_a_narrow_terminal_and_a_pipe(width: int | None) -> None:
    rows = [
        process("partition 12, follows", Rate(LOOP_NAME, 1, 15.0, 0.1), Rate("client.poll0", 3, 15.0, 0.05)),
        process("gcs_server", Rate("client.poll0", 3, 15.0, 0.05)),
    ]
    with io.StringIO() as screen:
        options = {} if width is None else {"width": width, "force_terminal": True, "color_system": None}
        console: RichConsole = Console(file=screen, **options)
        show(console, rows, PLAN, "a machine")
        lines = screen.getvalue().splitlines()
    assert width is None or max(map(len, lines)) <= width
    assert any(line.split()[:4] == ["partition", "12,", "follows", "15.0"] for line in lines)
    assert lines[-2:] == [
        "all: 0.20 % of a core, 100 MiB",
        "partition 12, follows: 15.0 wake-ups a second, 5 are allowed",
    ]


@pytest.mark.skipif(not Path("/proc/thread-self/comm").exists(), reason="only Linux names threads there")
def test_a_thread_that_names_itself_is_found_by_its_name() -> None:
    named, done = threading.Event(), threading.Event()

    def work() -> None:
        name_this_thread(LOOP_NAME)
        named.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        named.wait()
        assert LOOP_NAME in {
            each.name for each in threads_of(int(Path("/proc/self").readlink().name)).values()
        }
    finally:
        done.set()
        thread.join()


def test_more_copies_than_nodes_are_refused() -> None:
    refused = CliRunner().invoke(app, ["idle", "--nodes", "1", "--copies", "3"])
    assert refused.exit_code == 2
    assert "1 node has room for 1" in refused.output


@pytest.mark.slow
def test_a_tier_at_rest_is_at_rest() -> None:
    """The bound has room: a busy machine splits what is done at once into several wake-ups."""
    ended = CliRunner().invoke(app, ["idle", "--settle", "20", "--seconds", "10", "--bound", "60", "--json"])
    assert ended.exit_code == 0, ended.output
    told = json.loads(ended.output)
    roles = [each["role"] for each in told["processes"]]
    assert {"groupd up", "broker 1", "controller, leads", "partition 0, leads"} <= set(roles)
    assert not any("Agent" in role for role in roles)
    leader = next(each for each in told["processes"] if each["role"] == "partition 0, leads")
    assert leader["turns"] < 10
    assert any(thread["whose"] == "ours" for thread in leader["threads"])
