"""What the pages of the project point to is there: links, anchors, and paths of code in the two maps."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.tracked import tracked

ROOT = Path(__file__).resolve().parents[2]
FILES = [path for path in tracked(ROOT) if path.is_file()]
PAGES = [path for path in FILES if path.suffix == ".md"]
PLACES = {ROOT, *FILES, *(parent for path in FILES for parent in path.parents if parent.is_relative_to(ROOT))}
README = ROOT / "README.md"
DESIGN = ROOT / "actors" / "README.md"
README_LINES_MAX = 200
GLOSSARY_WORDS_MAX = 40
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
PATH = re.compile(r"(?:actors|bench|cluster|deploy|storage|tests)/[\w./-]*")
CHANGES = (
    "an error of a static member's join",
    "a field of KIP-848's heartbeat",
    "a new kind of group",
    "TLS on the clients' port",
    "a node added at run time",
    "a metric",
    "a fault of `groupd chaos`",
    "a shape of swarms",
    "a column of history",
    "a command of `groupd`",
)
"""Changes that a newcomer wants to make; the design's table says in which files to make them."""


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    slugs: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(prose(page)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found.add(f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
        slugs[slug] += 1
    return frozenset(found)


def broken(page: Path) -> list[str]:
    """The page's links within the project that lead nowhere."""
    wrong = []
    for link in LINK.findall(QUOTED.sub("code", prose(page))):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if target not in {page, *PLACES} or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    below = prose(page).split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_to_what_is_not_there_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n[no file](none.md) [no heading](#two) [heading](#one) [web](https://example.org)\n"
    )
    assert broken(page) == ["none.md", "#two"]


def test_the_readme_is_short() -> None:
    assert README.read_text(encoding="utf-8").count("\n") <= README_LINES_MAX


@pytest.mark.parametrize("page", [README, DESIGN], ids=["readme", "design"])
def test_code_that_a_map_names_is_there(page: Path) -> None:
    named = [quoted for quoted in QUOTED.findall(prose(page)) if PATH.fullmatch(quoted)]
    assert named
    assert [path for path in named if (ROOT / path).resolve() not in PLACES] == []


def test_the_glossary_is_short_and_in_one_meaning() -> None:
    words = [word for word, _ in rows(DESIGN, "Glossary")]
    assert 0 < len(words) <= GLOSSARY_WORDS_MAX
    assert len(set(words)) == len(words)


def test_the_design_says_where_to_make_a_change() -> None:
    """This looks at the table's rows; another test looks whether the files that they name exist."""
    table = {row[0]: row[1:] for row in rows(DESIGN, "What to change where")}
    assert [change for change in CHANGES if change not in table] == []
    assert [change for change, cells in table.items() if not PATH.search(cells[0])] == []
    assert [change for change, cells in table.items() if not PATH.search(cells[-1])] == []
