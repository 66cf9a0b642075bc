"""Makes one HTML page of a report, which needs nothing else: it can be read on a phone and on a desk, dark or
light. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN, Promise

_CSS: Final = """
:root { color-scheme: light dark; --ink: #1d2329; --paper: #fff; --dim: #66707a; --line: #d9dee3;
  --tile: #f4f6f8; --fine: #1a7f4b; --bad: #c0273c; --odd: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --paper: #14181c; --dim: #98a2ad;
  --line: #333b43; --tile: #1d2329; --fine: #4cc38a; --bad: #ff7a8a; --odd: #e0b050; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 16px; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.25rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.dim { color: var(--dim); }
.verdict { border-left: 5px solid var(--fine); background: var(--tile); padding: 10px 14px; margin: 12px 0;
  overflow-wrap: anywhere; }
.verdict b { display: block; font-size: 1.3rem; color: var(--fine); }
.verdict.bad { border-color: var(--bad); } .verdict.bad b { color: var(--bad); }
.verdict.odd { border-color: var(--odd); } .verdict.odd b { color: var(--odd); }
.word { border-left: 5px solid var(--odd); padding: 2px 14px; margin: 6px 0; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(148px, 1fr)); gap: 8px; }
.tile { background: var(--tile); padding: 8px 12px; border-radius: 4px; }
.tile b { display: block; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--dim); font-size: .82rem; line-height: 1.3; display: block; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr));
  gap: 16px 24px; }
.plot { margin: 0; } .plot svg { width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 0; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 3px 6px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--dim); font-weight: 600; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child, .text { text-align: left; }
td.text { white-space: normal; overflow-wrap: anywhere; min-width: 15rem; }
td:first-child { position: sticky; left: 0; background: var(--paper); white-space: normal;
  overflow-wrap: anywhere; min-width: 7rem; }
h1, h2, p, .dim, .tile { overflow-wrap: anywhere; }
@media (max-width: 640px) {
  body { padding: 10px; }
  thead { display: none; }
  table, tbody, tr, tbody th { display: block; width: 100%; }
  tr { border-bottom: 1px solid var(--line); padding: 5px 0; }
  td, td.text { display: flex; justify-content: space-between; gap: 12px; border: 0; padding: 1px 0;
    min-width: 0; white-space: normal; overflow-wrap: anywhere; }
  td::before { content: attr(data-label); color: var(--dim); flex: none; max-width: 45%;
    text-align: left; }
  td:first-child { display: block; position: static; text-align: left; font-weight: 600; }
  td:first-child::before { content: none; }
  td:empty { display: none; }
}
"""


_KINDS: Final = {KEPT: "fine", BROKEN: "bad", NOT_SHOWN: "odd"}
"""Classes of the headline, by status."""


class Section(NamedTuple):
    """One part of a page; `html` is put in as it is."""

    title: str
    html: str


class Tile(NamedTuple):
    """A figure that is seen first."""

    value: str
    label: str


class Headline(NamedTuple):
    """The beginning of a page."""

    title: str
    about: str
    verdict: str = ""
    """The verdict: kept, broken or not shown; empty: this page has none."""
    because: str = ""
    promises: Sequence[Promise] = ()
    """The promises, each in a row."""
    words: Sequence[str] = ()
    """The warnings."""


def page(headline: Headline, sections: Iterable[Section]) -> str:
    """Make the whole document."""
    parts = [f"<section><h2>{escape(each.title)}</h2>\n{each.html}\n</section>" for each in sections]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(headline.title)}</title>\n<style>{_CSS}</style></head>\n<body>\n"
        + "\n".join([_head(headline), *parts])
        + "\n</body></html>\n"
    )


def _head(headline: Headline) -> str:
    parts = [f'<h1>{escape(headline.title)}</h1>\n<div class="dim">{escape(headline.about)}</div>']
    if headline.verdict:
        kind = _KINDS[headline.verdict]
        because = escape(headline.because)
        parts.append(f'<div class="verdict {kind}"><b>{_told(headline.verdict)}</b>{because}</div>')
    if headline.promises:
        rows = [(each.name, _told(each.status), each.says, each.because) for each in headline.promises]
        parts.append(table(("promise", "status", "what it says", "because"), rows, text=(2, 3)))
    parts += [f'<div class="word">{escape(word)}</div>' for word in headline.words]
    return "\n".join(parts)


def _told(status: str) -> str:
    """The status as the beginning of a sentence."""
    return escape(status[:1].upper() + status[1:])


def tiles(found: Iterable[Tile]) -> str:
    """Make a grid of figures."""
    each = (
        f'<div class="tile"><b>{escape(tile.value)}</b><span>{escape(tile.label)}</span></div>'
        for tile in found
    )
    return f'<div class="tiles">{"".join(each)}</div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, text: Sequence[int] = ()) -> str:
    """Make a table. Cells are escaped; the columns in `text` hold words, not numbers, and break their lines.
    A row of one cell is a heading. On a phone each row is a block, headed by its first cell, with a line for
    every other one, so that no column is out of sight."""

    def cells(tag: str, row: Sequence[str]) -> str:
        if len(row) < len(headings):
            return f'<th colspan="{len(headings)}">{escape(row[0])}</th>'
        return "".join(cell(tag, place, words) for place, words in enumerate(row))

    def cell(tag: str, place: int, words: str) -> str:
        kind = ' class="text"' if place in text else ""
        label = f' data-label="{escape(headings[place])}"' if place and tag == "td" else ""
        return f"<{tag}{kind}{label}>{escape(words)}</{tag}>"

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', headings)}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>\n{body}\n</tbody></table></div>'


def plots(found: Iterable[str]) -> str:
    """Make a grid of plots."""
    return f'<div class="plots">{"".join(found)}</div>'


def note(text: str) -> str:
    """Make a note in small print."""
    return f'<p class="dim">{escape(text)}</p>'


def number(value: float | None) -> str:
    """A number with three significant digits; "-" without a value."""
    if value is None:
        return "-"
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def duration(value_ms: float | None) -> str:
    """A duration with its unit."""
    if value_ms is None:
        return "-"
    return f"{number(value_ms / 1e3)} s" if value_ms >= 1_000 else f"{number(float(value_ms))} ms"
