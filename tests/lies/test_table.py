"""What is committed of the lies, and that each of them is one."""

from __future__ import annotations

from tests.lies import table
from tests.lies.catalogue import KINDS_MIN, LIES
from tests.lies.lie import Lie, title
from tests.lies.stages import STAGES
from tests.lies.trial import prefix_of

METHODS = ("does", "tells", "sends", "delay_s")


def rows() -> list[list[str]]:
    lines = table.MARKDOWN.read_text(encoding="utf-8").splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][2:]


def test_the_committed_table_tells_of_every_lie_and_all_are_caught() -> None:
    assert len(LIES) >= KINDS_MIN
    assert [row[:2] for row in rows()] == [[name, title(lie)] for name, lie in LIES.items()]
    assert [row[0] for row in rows() if row[-1] != "yes"] == []


def test_every_lie_differs_from_the_truth_and_says_how() -> None:
    for name, lie in LIES.items():
        changed = [each for each in METHODS if getattr(lie, each) is not getattr(Lie, each)]
        assert changed or lie.cuts or lie.refuses, name
        assert title(lie).endswith("."), name
        assert lie.stage in STAGES
    assert len({prefix_of(name) for name in LIES}) == len(LIES)
