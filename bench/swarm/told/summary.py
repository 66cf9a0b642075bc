"""Makes a summary of a report in Markdown, as GitHub shows it beside a job.

PURE. GitHub takes a mebibyte for each step, so stories are few, and cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bench.swarm.told.cases import Case, Suite, is_harmless
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN

SIGNS: Final = {KEPT: "\N{WHITE HEAVY CHECK MARK}", BROKEN: "\N{CROSS MARK}", NOT_SHOWN: "\N{WARNING SIGN}"}
STORIES_MAX: Final = 10
CELL_CHARACTERS_MAX: Final = 600
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~#&!@$])")
_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f]+")


def summary(suite: Suite) -> str:
    """The summary, which is appended to $GITHUB_STEP_SUMMARY; it ends with an empty line."""
    return "\n".join((*_head(suite), *_table(suite), *_stories(suite), ""))


def _head(suite: Suite) -> Iterator[str]:
    yield f"### {SIGNS[suite.status]} groupd {_plain(suite.title)}: {suite.status}"
    yield ""
    yield _plain(suite.summary)
    yield ""
    for word in suite.words:
        yield f"* {_plain(word)}"
    yield ""


def _table(suite: Suite) -> Iterator[str]:
    yield "| | promise or threshold | |"
    yield "|---|---|---|"
    for case in suite.cases:
        yield f"| {_sign(case)} {case.status} | {_name(case)} | {_plain(case.because)} |"
    yield ""


def _sign(case: Case) -> str:
    return "\N{BALLOT BOX}" if is_harmless(case) else SIGNS[case.status]


def _name(case: Case) -> str:
    return _plain(case.name) if case.name == case.says else f"**{_plain(case.name)}** {_plain(case.says)}"


def _stories(suite: Suite) -> Iterator[str]:
    stories = [story for case in suite.cases for story in case.stories]
    if not stories:
        return
    more = len(stories) - STORIES_MAX + sum(case.untold for case in suite.cases)
    yield f"<details><summary>How, {min(len(stories), STORIES_MAX)} times</summary>"
    yield ""
    for story in stories[:STORIES_MAX]:
        yield f"* {_plain(story)}"
    if more > 0:
        yield f"* {more:,} more are in the report"
    yield ""
    yield "</details>"
    yield ""


def _plain(text: str) -> str:
    """The text in one line, with nothing in it that is Markdown or HTML."""
    line = _BLANK.sub(" ", text).strip()
    line = line if len(line) <= CELL_CHARACTERS_MAX else f"{line[:CELL_CHARACTERS_MAX]}..."
    return _SPECIAL.sub(r"\\\1", line)
