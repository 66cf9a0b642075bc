"""The judge of a tier that was attached to a real Kafka: what consumers wrote down, right and wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.attached.crews import CONFIGURATIONS, Crew, shares
from bench.attached.judge import Event, Evidence, Standing, Step, caught_up_s, findings, longest_gap_s
from cluster import child_process
from tests.polling import until

P0, P1 = "numbers-0", "numbers-1"
PRODUCED = {P0: 3, P1: 2}


def records(at: float, partition: str, *offsets: int, member: int = 1) -> Event:
    return {"event": "records", "at": at, "member": member, "partition": partition, "offsets": list(offsets)}


def committed(at: float, member: int = 1, **offsets: int) -> Event:
    named = {name.replace("_", "-"): offset for name, offset in offsets.items()}
    return {"event": "committed", "at": at, "member": member, "offsets": named}


RIGHT: Sequence[Event] = (
    records(1_000, P0, 0, 1),
    committed(1_100, numbers_0=2),
    records(1_200, P1, 0, 1, member=2),
    committed(1_300, member=2, numbers_1=2),
    records(5_000, P0, 2),
    committed(6_000, numbers_0=3),
)
STEP = Step("a broker is killed", 1_500, 4_000, PRODUCED)


def evidence(told: Sequence[Event] = RIGHT, **other: Any) -> Evidence:
    fine: dict[str, Any] = {
        "produced": PRODUCED,
        "told": {"readers": sorted(told, key=lambda event: float(event["at"]))},
        "standing": {"readers": Standing("STABLE", PRODUCED)},
        "steps": [STEP],
        "copied": {},
        "deadline_s": 10.0,
    }
    return Evidence(**(fine | other))


def said(told: Sequence[Event] = RIGHT, **other: Any) -> str:
    return "\n".join(findings(evidence(told, **other)))


def test_what_is_right_is_not_complained_about() -> None:
    assert findings(evidence()) == []


def test_a_story_in_which_nothing_happened_is_not_right() -> None:
    assert "no record was acknowledged: there is nothing to judge" in said(produced={P0: 0})
    assert said(told=()).count("seen by nobody") == 1
    nothing = evidence()._replace(produced={}, told={}, standing={}, steps=[])
    assert len(findings(nothing)) == 3


def test_records_may_be_read_again_that_were_not_committed() -> None:
    again = (*RIGHT, records(1_050, P0, 0, 1, member=2), records(5_500, P0, 2, member=2))
    assert findings(evidence(again)) == []


def test_a_record_that_nobody_saw_is_found() -> None:
    told = [event for event in RIGHT if event.get("offsets") != [2]]
    assert said(told) == "readers: 1 records were seen by nobody: numbers-0 at 2"


def test_a_group_that_reads_below_an_acknowledged_commit_has_lost_it() -> None:
    told = (*RIGHT, records(4_000, P0, 1, 2, member=2))
    assert "numbers-0 was read from 1 on after 2 was acknowledged as committed (at 4000)" in said(told)


def test_a_committed_offset_that_is_not_the_acknowledged_one_is_found() -> None:
    for offsets in ({P0: 2, P1: 2}, {P1: 2}):
        standing = {"readers": Standing("STABLE", offsets)}
        words = f"1 committed offsets are not the acknowledged ones: numbers-0: {offsets.get(P0)}, and 3"
        assert words in said(standing=standing)


def test_a_group_that_is_not_stable_in_the_end_is_found() -> None:
    standing = {"readers": Standing("COMPLETING_REBALANCE", PRODUCED)}
    assert said(standing=standing) == "readers: it is COMPLETING_REBALANCE in the end, and not stable"
    assert said(standing={}) == "readers: the cluster does not know it"


def test_a_group_that_did_not_go_on_after_a_step_needed_a_hand() -> None:
    assert "after 'a broker is killed' 2 s later: it needed a hand" in said(deadline_s=1.0)
    told = [event for event in RIGHT if event["at"] < 5_000]
    assert "after 'a broker is killed' never: it needed a hand" in said(told)


def test_a_member_that_ended_by_itself_is_found() -> None:
    told = (*RIGHT, {"event": "failed", "at": 7_000, "member": 2, "error": "gone"})
    assert said(told) == "readers: member 2 ended by itself: gone"


def test_every_record_is_copied_once() -> None:
    copies = dict.fromkeys(("0:0", "0:1", "0:2", "1:0", "1:1"), 1)
    assert findings(evidence(copied={"readers": copies})) == []
    assert said(copied={"readers": copies | {"1:1": 2}}).endswith("copied more than once: 1:1")
    del copies["0:2"]
    assert said(copied={"readers": copies}).endswith("1 records were copied by no transaction: 0:2")


def test_a_group_has_caught_up_when_it_has_committed_all_of_then() -> None:
    assert caught_up_s(STEP, RIGHT) == 2.0
    assert caught_up_s(STEP._replace(produced={P0: 2, P1: 2}), RIGHT) == 0.0
    assert caught_up_s(STEP._replace(produced={P0: 4}), RIGHT) is None


def test_the_longest_gap_is_between_acknowledged_commits() -> None:
    assert longest_gap_s(RIGHT, 1_000, 6_500) == 4.7
    assert longest_gap_s(RIGHT, 2_000, 5_000) == 3.0


def test_consumers_are_shared_out_evenly() -> None:
    assert sorted(shares(200).values()) == [28, 28, 28, 29, 29, 29, 29]
    assert shares(200).keys() == CONFIGURATIONS.keys()


def test_members_of_one_process_say_who_they_are(tmp_path: Path) -> None:
    """Each of them gets every command, and one that fails does not end the others."""
    program = tmp_path / "program.py"
    program.write_text(
        "from bench.clients.line import play\n"
        "def member(line):\n"
        "    if line.member == 2:\n"
        "        raise ValueError('gone')\n"
        "    line.tell('heard', command=line.wait_for_command())\n"
        "play(member)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program), "topic", "members=3"],
        input="hello\n",
        capture_output=True,
        text=True,
        env=child_process.environment(),
        timeout=60,
    )
    told: list[Mapping[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(each["member"], each["event"]) for each in told} == {(1, "heard"), (2, "failed"), (3, "heard")}
    assert done.returncode == 1


def test_what_a_crew_has_committed_is_read_as_it_is_written(tmp_path: Path) -> None:
    """A line is read when it is whole; commits that come out of order count by the highest offset."""
    program = (
        "import sys\n"
        """print('{"event": "committed", "at": 2, "offsets": {"t-0": 7, "t-1": 1}}', flush=True)\n"""
        """print('{"event": "committed", "at": 1, "offsets": {"t-0": 5}}', flush=True)\n"""
        """print('{"event": "comm', end="", flush=True)\n"""
        "sys.stdin.read()\n"
        """print('itted", "at": 3, "offsets": {"t-1": 2}}', flush=True)\n"""
    )
    crew = Crew("readers", [sys.executable, "-c", program], [], tmp_path)
    until(lambda: crew.has_committed({"t-0": 7, "t-1": 1}), "the first lines are read")
    assert not crew.has_committed({"t-1": 2})
    crew.close()
    assert crew.acknowledged() == {"t-0": 7, "t-1": 2}
    assert [event["at"] for event in crew.told()] == [1, 2, 3]
    assert not crew.runs
