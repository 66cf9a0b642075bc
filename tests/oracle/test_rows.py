"""The table of rules and their tests is that of the tests."""

from __future__ import annotations

from tests.oracle.registry import all_transcripts
from tests.oracle.rows import TABLE, markdown, rows_in, rules, unproved


def test_table_of_rows_is_made_from_the_tests_as_they_are() -> None:
    """Mend it with `python -m tests.oracle rows --markdown > tests/ROWS.md`."""
    assert TABLE.read_text(encoding="utf-8") == markdown()


def test_every_row_is_proved_by_a_transcript_or_a_test() -> None:
    assert unproved() == []


def test_transcripts_name_rows_that_there_are() -> None:
    wrong = {each.name: set(each.rows) - set(rules()) for each in all_transcripts()}
    assert {name: rows for name, rows in wrong.items() if rows} == {}


def test_rows_are_found_in_words() -> None:
    assert rows_in("C9, C19 and M1 to M3; not A99, C30 or AB1.") == {"C9", "C19", "M1", "M2", "M3"}
