"""Rule 1, by histories with one planted violation each, and by the same that a lost answer explains."""

from __future__ import annotations

import pytest

from storage.history.judge.commits import judge_commits
from storage.history.judge.findings import Limits
from tests.history.telling import Telling


def _rules(telling: Telling, *, is_whole: bool = True) -> list[str]:
    return [
        violation.rule for violation in judge_commits(telling.history(is_whole=is_whole), Limits()).violations
    ]


def test_reads_of_what_was_acknowledged_are_fine() -> None:
    telling = Telling()
    telling.read(0, 1, -1)
    for number in range(1, 5):
        telling.commit(number * 10, number * 10 + 2, number)
        telling.read(number * 10 + 3, number * 10 + 4, number)
    assert _rules(telling) == []
    assert judge_commits(telling.history(), Limits()).judged == {"commits": 4, "reads": 5}


def test_acknowledged_commit_that_no_read_shows_is_lost() -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.read(3, 4, -1)
    assert _rules(telling) == ["commit lost"]


def test_older_offset_after_a_newer_was_acknowledged_has_gone_back() -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.commit(3, 4, 8)
    telling.read(5, 6, 7)
    assert _rules(telling) == ["commit went back"]


def test_commit_on_its_way_may_or_may_not_be_there() -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.commit(3, 10, 8)
    telling.read(4, 5, 7)
    telling.read(6, 7, 8)
    telling.read(8, 9, 8)
    assert _rules(telling) == []


@pytest.mark.parametrize("shown", [7, 8])
def test_commit_without_an_answer_may_or_may_not_have_happened(shown: int) -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.commit(3, None, 8)
    telling.read(20, 21, shown)
    assert _rules(telling) == []


@pytest.mark.parametrize("error", [14, 15, 16, 7])
def test_refusal_of_a_leader_on_the_move_leaves_the_outcome_unknown(error: int) -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.commit(3, 4, 8, error)
    telling.read(5, 6, 8)
    assert _rules(telling) == []


def test_refused_commit_must_not_be_there() -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.commit(3, 4, 8, error=22)
    telling.read(5, 6, 8)
    assert _rules(telling) == ["commit invented"]


def test_what_one_read_has_shown_no_later_one_may_miss() -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.commit(3, None, 8)
    telling.read(4, 5, 8)
    telling.read(6, 7, 7)
    assert _rules(telling) == ["commit went back"]


def test_lost_commit_that_a_read_has_shown_is_overwritten_by_a_later_one_for_good() -> None:
    telling = Telling()
    telling.commit(0, None, 7)
    telling.read(4, 5, 7)
    telling.commit(6, 7, 8)
    telling.read(8, 9, 7)
    assert _rules(telling) == ["commit went back"]


def test_lost_commit_that_nobody_saw_may_come_late() -> None:
    telling = Telling()
    telling.commit(0, None, 7)
    telling.commit(6, 7, 8)
    telling.read(8, 9, 7)
    assert _rules(telling) == []


def test_offset_that_nobody_sent_is_invented() -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.read(3, 4, 9)
    assert _rules(telling) == ["commit invented"]


def test_nobody_is_blamed_for_what_a_killed_writer_did_not_write_down() -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.read(3, 4, 9)
    assert _rules(telling, is_whole=False) == []


def test_deleted_group_has_nothing() -> None:
    telling = Telling()
    telling.commit(0, 2, 7)
    telling.delete(3, 4)
    telling.read(5, 6, -1)
    assert _rules(telling) == []


def _unseen(telling: Telling, **limits: float) -> str:
    return judge_commits(telling.history(), Limits(**limits)).unseen


def test_commits_that_nobody_reads_afterwards_are_not_shown() -> None:
    """Once they counted as judged, though the server might have thrown them away."""
    telling = Telling()
    telling.read(0, 1, -1)
    telling.commit(2, 3, 7)
    telling.commit(4, 5, 8)
    found = judge_commits(telling.history(), Limits())
    assert (found.judged["commits"], found.is_required) == (0, True)
    assert found.unseen.startswith("0 of 2 acknowledged commits are covered by a later read")


def test_a_commit_that_was_thrown_away_is_lost_when_the_final_reader_comes() -> None:
    telling = Telling()
    telling.commit(0, 1, 7)
    telling.read_at_end(50, 51, 7)
    assert _rules(telling) == []
    telling.commit(10, 11, 8)
    assert _rules(telling) == ["commit went back"]
    assert _unseen(telling) == ""


def test_what_the_final_reader_could_not_read_is_told_and_keeps_commits_from_being_shown() -> None:
    telling = Telling()
    telling.commit(0, 1, 7)
    telling.read(2, 3, 7)
    telling.commit(4, 5, 8)
    telling.commit(6, 7, 9)
    telling.read_at_end(50, None, -1)
    assert "1 of 3 acknowledged commits are covered" in _unseen(telling)
    assert "1 groups could not be read at the end, as billing: OffsetFetch of final reader" in _unseen(
        telling
    )


def test_a_share_of_commits_that_is_too_small_shows_nothing() -> None:
    telling = Telling()
    telling.commit(0, 1, 7)
    telling.read(2, 3, 7)
    telling.commit(4, 5, 8)
    assert _unseen(telling) == ""
    telling.commit(6, 7, 9)
    assert "1 of 3" in _unseen(telling)
    assert _unseen(telling, least_answered=0.3) == ""


def test_offsets_of_a_deleted_topic_are_gone_with_it_and_nobody_is_blamed() -> None:
    telling = Telling()
    telling.topic(3)
    telling.commit(0, 1, 7)
    telling.topic(0, at=60)
    found = judge_commits(telling.history(), Limits())
    assert (found.violations, found.unseen) == ([], "no commit was acknowledged")
    assert found.seen.endswith("1 more on deleted topics")
