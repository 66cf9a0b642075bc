"""`groupd bench in-front`: what it makes of commits and offsets, and the whole of it in small."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest
from kio.schema.errors import ErrorCode
from rich.console import Console
from typer.testing import CliRunner

from bench.attached.judge import longest_gap
from bench.cli import app
from bench.in_front.committing import Committers, committing
from bench.in_front.moving import SHOWN, Extent, differing
from bench.in_front.works import QUICK, WORKS, scenarios
from bench.peers import table
from bench.peers.members import Member
from bench.peers.options import Failed, Options
from bench.peers.plan import Command, Outcome, Report, Row, Sample
from tests.polling import reached
from tests.upstream.speaking import Speaker

APIS = {8: ("offset_commit", 8, 8), 10: ("find_coordinator", 2, 2)}
TOPIC = "live"
GROUP = "g"
FINE, ELSEWHERE, REFUSED = ErrorCode.none, ErrorCode.not_coordinator, ErrorCode.unknown_member_id


class Coordinator(Speaker):
    """A coordinator that answers commits as a story wants."""

    apis = APIS

    def __init__(self) -> None:
        super().__init__()
        self.error = FINE
        self.committed: list[int] = []
        self.asked = 0

    async def _find_coordinator(self, asked: Any) -> dict[str, Any]:
        host, port = self.address
        told = {"throttle_time": 0, "error_code": FINE, "error_message": None}
        return {**told, "node_id": 1, "host": host, "port": port}

    async def _offset_commit(self, asked: Any) -> dict[str, Any]:
        self.asked += 1
        (topic,) = asked["topics"]
        (partition,) = topic["partitions"]
        if self.error == FINE:
            self.committed.append(partition["committed_offset"])
        told = {"partition_index": partition["partition_index"], "error_code": self.error}
        return {"throttle_time": 0, "topics": [{"name": topic["name"], "partitions": [told]}]}


def played(
    story: Callable[[Coordinator, Committers], Coroutine[Any, Any, None]],
    committed: dict[str, int] | None = None,
) -> None:
    async def play() -> None:
        async with Coordinator().listening() as coordinator:
            member = Member(GROUP, "m", 1, *coordinator.address)
            known = {} if committed is None else committed
            async with committing([coordinator.address], [member], TOPIC, known) as committers:
                await story(coordinator, committers)

    asyncio.run(play())


def test_members_commit_one_offset_after_the_other_and_go_on_where_they_were() -> None:
    committed = {GROUP: 41}

    async def story(coordinator: Coordinator, committers: Committers) -> None:
        await reached(lambda: committers.count >= 5, "some commits")

    played(story, committed)
    assert committed[GROUP] >= 46
    first = committed[GROUP]

    async def goes_on(coordinator: Coordinator, committers: Committers) -> None:
        await committers.get_on()
        assert coordinator.committed[0] == first + 1

    played(goes_on, committed)


def test_a_gap_is_as_long_as_nobody_acknowledged() -> None:
    async def story(coordinator: Coordinator, committers: Committers) -> None:
        await committers.get_on()
        began = time.monotonic()
        coordinator.error = ELSEWHERE
        asked = coordinator.asked
        await reached(lambda: coordinator.asked > asked + 2, "it is sent again")
        silent_s = time.monotonic() - began
        coordinator.error = FINE
        gap_s = committers.gap_s(began, await committers.get_on())
        assert gap_s >= silent_s - 0.1
        assert coordinator.committed == list(range(1, len(coordinator.committed) + 1)), "none is left out"

    played(story)


def test_a_connection_that_is_lost_is_made_again() -> None:
    async def story(coordinator: Coordinator, committers: Committers) -> None:
        await committers.get_on()
        await coordinator.hang_up()
        before = len(coordinator.committed)
        await committers.get_on()
        assert len(coordinator.committed) > before

    played(story)


def test_an_error_after_which_no_consumer_goes_on_is_a_failure() -> None:
    async def story(coordinator: Coordinator, committers: Committers) -> None:
        coordinator.error = REFUSED
        await committers.get_on()

    with pytest.raises(Failed, match="g: a commit is refused with error 25"):
        played(story)


def test_the_longest_gap_counts_from_the_beginning_to_the_end() -> None:
    assert longest_gap([1.0, 2.0, 5.0], 1.5, 6.0) == 3.0
    assert longest_gap([1.0, 2.0, 5.0], 1.5, 9.0) == 4.0
    assert longest_gap([], 2.0, 9.0) == 7.0


def test_an_offset_that_is_missing_or_another_one_is_found() -> None:
    extent = Extent(groups=3, each=2)
    right = extent.committed(1)
    assert right == {0: (3,), 1: (4,)}
    assert list(differing({0: 3, 1: 4}, right)) == []
    assert list(differing({0: 3}, right)) == ["1: None, and not 4"]
    assert list(differing({0: -1, 1: 5}, right)) == ["0: -1, and not 3", "1: 5, and not 4"]
    assert list(differing({0: 9}, {0: (7, 8)})) == ["0: 9, and not 7 or 8"]
    everything = [offset for number in range(3) for (offset,) in extent.committed(number).values()]
    assert len(set(everything)) == 6, "no two are the same"


def test_every_figure_of_a_row_has_a_unit() -> None:
    options = Options(quick=True)
    for scenario in scenarios(list(WORKS), options, QUICK):
        row = Row(work=scenario.work, heading=scenario.heading, label=scenario.label, shown=scenario.shown)
        figures = dict.fromkeys(scenario.shown, 2.0)
        outcomes = [
            Outcome(row=row, peer=name, samples=[Sample(figures=figures, requests=1)])
            for name in ("alone-3", "attached-3")
        ]
        printed = table_of(outcomes)
        assert printed.count("1.00") == len(scenario.shown), printed


def table_of(outcomes: list[Outcome]) -> str:
    call = Command("groupd bench in-front", "2026-11-28 18:00 UTC", runs=1, seconds=1.0, is_whole=True)
    peers = {"alone-3": "Kafka", "attached-3": "groupd"}
    report = Report(
        machine="a machine", cores=2, quick=False, commands=[call], peers=peers, skipped={}, outcomes=outcomes
    )
    with io.StringIO() as screen:
        table.show(Console(file=screen, width=120), report)
        return screen.getvalue()


def test_the_table_sets_the_tier_beside_the_brokers_alone() -> None:
    row = Row(work=1, heading="Steady load", label="some", shown=("core",))
    alone, attached = (
        Outcome(row=row, peer=name, samples=[Sample(figures={"core": core}, requests=1)])
        for name, core in (("alone-3", 40.0), ("attached-3", 10.0))
    )
    lines = table_of([alone, attached]).splitlines()
    (heading,) = (line.split() for line in lines if "attached-3" in line and ":" not in line)
    (figures,) = (line.split() for line in lines if line.startswith("some"))
    assert heading == ["alone-3", "attached-3", "a3/3", "goal"]
    assert figures == ["some", "40.0", "10.0", "0.25"]


def test_a_wrong_flag_is_one_line() -> None:
    ended = CliRunner().invoke(app, ["in-front", "--work", "5"])
    assert (ended.exit_code, ended.output) == (2, "groupd: --work 5: 1, 2, 3, 4 are allowed\n")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(900)
def test_all_of_it_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(psutil.Process().children(recursive=True))
    out = tmp_path / "out"
    ended = CliRunner().invoke(app, ["in-front", "--quick", "--seconds", "1", "--out", str(out)])
    assert ended.exit_code == 0, ended.output
    told = json.loads((out / "peers.json").read_text())
    assert [(each["refused"], each["failures"]) for each in told["outcomes"]] == [(None, [])] * 10
    (moved,) = (each for each in told["outcomes"] if (each["work"], each["peer"]) == (4, "attached-3"))
    assert set(moved["figures"]) < set(SHOWN)
    left = set(psutil.Process().children(recursive=True)) - before
    assert [child for child in left if child.status() != psutil.STATUS_ZOMBIE] == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
