"""Rule 5, and what a verdict says."""

from __future__ import annotations

import random
from pathlib import Path

import msgpack
import pytest

from storage.history.call_files import CallWriter, UnreadableFile, read_file, read_history
from storage.history.calls import ANSWERED, Call, History
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN, Limits
from storage.history.judge.recovery import judge_recovery
from storage.history.judge.service import Planned
from storage.history.judge.verdict import combined, judge
from tests.history.telling import Telling

QUIET_MS = 20_000
NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25
PLANNED = Planned(requests=2, member_s=1)


def _group(*last: tuple[str, int, int, tuple[int, ...]], partitions: int = 3) -> Telling:
    """Members of a classic group, each with the error of its last heartbeat, its generation, what it has."""
    telling = Telling()
    telling.topic(partitions)
    telling.fault(0, 100)
    for name, error, generation, numbers in last:
        telling.join(name, 200, 300, generation)
        telling.sync(name, 310, 320, generation, *numbers)
        telling.beat(name, QUIET_MS, QUIET_MS + 1, generation, error)
    return telling


def _rules(telling: Telling, end_ms: int = QUIET_MS + 1_000) -> list[str]:
    findings = judge_recovery(telling.history(end_ms), Limits())
    return [violation.rule for violation in findings.violations]


def test_group_that_is_whole_again_is_fine() -> None:
    telling = _group(("a", 0, 2, (0, 1)), ("b", 0, 2, (2,)))
    assert _rules(telling) == []
    assert judge_recovery(telling.history(QUIET_MS + 1_000), Limits()).judged == {"recovered groups": 1}


def test_how_a_history_ended_that_is_not_whole_is_held_against_nobody() -> None:
    history = _group(("a", 27, 2, ())).history(QUIET_MS + 1_000, is_whole=False)
    findings = judge_recovery(history, Limits())
    assert (findings.violations, findings.judged) == ([], {"recovered groups": 0})


def test_member_that_is_still_told_to_rejoin_is_not_stable() -> None:
    assert _rules(_group(("a", 0, 2, (0, 1, 2)), ("b", 27, 2, ()))) == ["not stable again"]


def test_member_of_an_older_generation_is_not_stable() -> None:
    assert _rules(_group(("a", 0, 2, (0, 1, 2)), ("b", 0, 1, ()))) == ["not stable again"]


def test_partition_without_an_owner_is_met() -> None:
    assert _rules(_group(("a", 0, 2, (0,)), ("b", 0, 2, (2,)))) == ["without an owner"]


def test_member_whose_heartbeat_crossed_its_leaving_has_left() -> None:
    """A member that joins again after it left is one."""
    telling = _group(("a", 0, 2, (0, 1, 2)))
    telling.join("b", 100, 110, 1)
    left = {"client": "b", "api": "LeaveGroup", "sent_us": 500_000, "ended_us": 502_000}
    telling.call(**left, outcome=ANSWERED)
    telling.beat("b", 501, 503, 1, UNKNOWN_MEMBER_ID)
    assert _rules(telling) == []
    telling.call(
        client="b", api="JoinGroup", sent_us=600_000, ended_us=601_000, outcome=ANSWERED, error_code=79
    )
    assert _rules(telling, 30_000) == ["not stable again"]


def test_group_that_had_no_quiet_is_not_judged() -> None:
    telling = _group(("a", 0, 2, (0,)))
    telling.fault(QUIET_MS - 10, QUIET_MS - 10)
    assert judge_recovery(telling.history(QUIET_MS + 1_000), Limits()).judged == {"recovered groups": 0}


def test_crashed_member_counts_until_its_session_is_over() -> None:
    telling = _group(("a", 0, 2, (0, 1, 2)), ("b", 0, 1, ()))
    telling.gone("b", 1_000)
    assert judge_recovery(telling.history(QUIET_MS + 1_000), Limits()).judged == {"recovered groups": 0}
    assert _rules(telling, 70_000) == []


def test_member_whose_leaving_was_not_heard_counts_until_its_session_is_over() -> None:
    """A coordinator that heard it is judged at once."""
    for error, judged in ((0, 1), (NOT_COORDINATOR, 0)):
        telling = _group(("a", 0, 2, (0, 1, 2)))
        left = {"client": "b", "api": "LeaveGroup", "sent_us": 500_000, "ended_us": 501_000}
        telling.call(**left, outcome=ANSWERED, error_code=error)
        findings = judge_recovery(telling.history(QUIET_MS + 1_000), Limits())
        assert findings.judged == {"recovered groups": judged}


def test_session_of_a_crashed_member_begins_anew_with_the_leader_that_a_fault_brings() -> None:
    telling = _group(("a", 0, 2, (0, 1)), ("b", 0, 1, (2,)))
    telling.beat("a", 89_000, 89_001, 2)
    telling.gone("b", 1_000)
    assert _rules(telling, end_ms=90_000) == ["without an owner"], "its session ended after 46 s"
    telling.fault(30_000, 40_000)
    assert _rules(telling, end_ms=90_000) == [], "its session ended after 85 s"


def test_session_of_a_crashed_member_ends_when_it_ends_though_another_client_sleeps() -> None:
    telling = _group(("a", 0, 2, (0, 1)), ("b", 0, 1, (2,)))
    telling.beat("a", 89_000, 89_001, 2)
    telling.gone("b", 1_000)
    telling.sleep("a", 30_000, 40_000)
    assert _rules(telling, end_ms=90_000) == ["without an owner"], "its session ended after 46 s"


def test_verdict_says_what_it_judged_and_what_it_could_not() -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.read(3, 4, -1)
    verdict = judge(telling.history())
    assert verdict.status == BROKEN
    assert verdict.summary == (
        "broken: 1 violations (1 x commit lost); judged 1 commits, 1 reads, 2 requests"
    )
    found = {promise.name: promise.status for promise in verdict.promises}
    assert found == {
        "commits": BROKEN,
        "ownership": NOT_SHOWN,
        "answers": KEPT,
        "epochs": NOT_SHOWN,
        "recovery": NOT_SHOWN,
        "service": NOT_SHOWN,
    }
    assert "orders-0 shows -1" in verdict.violations[0].text
    assert verdict.plain()["by_rule"] == {"commit lost": 1}


def test_nothing_observed_is_not_shown_and_never_kept() -> None:
    """A history without a single answer had been "no violation"."""
    verdict = judge(Telling().history())
    assert (verdict.status, verdict.is_fine) == (NOT_SHOWN, False)
    assert {promise.status for promise in verdict.promises} == {NOT_SHOWN}
    assert "service, " in verdict.because


def test_what_a_history_has_nothing_of_is_not_required() -> None:
    """A tool that only commits and reads has no members whose ownership could be shown."""
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.read(3, 4, 7)
    verdict = judge(telling.history(), planned=PLANNED)
    assert verdict.status == KEPT
    missing = {promise.name for promise in verdict.promises if promise.status == NOT_SHOWN}
    assert missing == {"ownership", "epochs", "recovery"}


def test_parts_of_a_run_are_judged_as_one() -> None:
    """Broken if any part is; else not shown if a part did not show what it had to: one in which nobody was
    served makes the run no green one, however well the others went."""
    good, bad, idle = Telling(), Telling(), Telling()
    for telling, shown in ((good, 7), (bad, -1)):
        telling.commit(0, 2, 7)
        telling.read(3, 4, shown)
    judged = {
        name: judge(each.history(), planned=PLANNED)
        for name, each in (("good", good), ("bad", bad), ("idle", idle))
    }

    def of_all(*names: str) -> str:
        return combined([judged[name] for name in names]).status

    assert of_all("good", "good") == KEPT
    assert of_all("good", "idle") == NOT_SHOWN
    assert of_all("good", "bad", "idle") == BROKEN
    assert of_all("idle") == NOT_SHOWN
    assert of_all() == NOT_SHOWN


def _write(path: Path, history: History) -> None:
    with CallWriter(path, "run 1") as writer:
        for row in (*history.calls, *history.gone, *history.faults, *history.topics):
            writer.write(row)
        writer.end(history.ended_us)


def test_history_comes_back_from_its_files_as_it_was(tmp_path: Path) -> None:
    first, second = _handed_over("a"), _handed_over("b")
    _write(tmp_path / "1.calls", first.history())
    _write(tmp_path / "2.calls", second.history())
    both = read_history(tmp_path)
    assert both.is_whole
    assert sorted(both.calls) == sorted((*first.history().calls, *second.history().calls))
    assert judge(both).summary == judge(read_history(tmp_path)).summary


def test_names_that_come_again_and_again_are_kept_once(tmp_path: Path) -> None:
    """Else those of millions of calls would not fit into memory."""
    _write(tmp_path / "1.calls", _handed_over("a").history())
    calls = read_history(tmp_path).calls
    assert len(calls) > 1
    for field in ("client", "group_id", "api"):
        words = [getattr(call, field) for call in calls]
        assert len({id(word) for word in words}) == len(set(words))


def test_file_of_an_older_version_has_defaults_in_the_fields_that_came_later(tmp_path: Path) -> None:
    call = Call("a", "c1", "Heartbeat", 5, 6, ANSWERED, group_id="billing")
    old = [list(call)[: Call._fields.index("detail")]]
    packed = [
        msgpack.packb(row) for row in (["groupd calls", 1, "run 1"], ["call", *old[0]], ["end", 9, True])
    ]
    (tmp_path / "1.calls").write_bytes(b"".join(packed))
    assert read_history(tmp_path).calls == (call,)


def _handed_over(name: str) -> Telling:
    telling = Telling()
    telling.topic(2)
    telling.consumer_beat(name, 0, 1, (0, 1), assigned=[0, 1], owned=[])
    telling.commit(2, None, 3)
    telling.gone(name, 9)
    telling.fault(3, 4, silences=True)
    return telling


def test_file_of_a_killed_writer_is_read_up_to_where_it_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "1.calls"
    _write(path, _handed_over("a").history())
    whole = path.read_bytes()
    rows = len(read_file(path).rows)
    chance = random.Random(5)
    for size in chance.sample(range(30, len(whole)), 40):
        path.write_bytes(whole[:size])
        cut = read_file(path)
        assert len(cut.rows) < rows
        assert not read_history(tmp_path).is_whole


@pytest.mark.parametrize("content", [b"", b"PAR1....", b"\x93\xabgroupd calls\x09\xa1r"])
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.calls"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match=r"odd\.calls"):
        read_history(tmp_path)


def test_files_of_two_runs_are_not_one_history(tmp_path: Path) -> None:
    for run_id in ("one", "two"):
        with CallWriter(tmp_path / f"{run_id}.calls", run_id) as writer:
            writer.end(5)
    with pytest.raises(UnreadableFile, match="several runs: one, two"):
        read_history(tmp_path)
