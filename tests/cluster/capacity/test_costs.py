"""Files of costs and of checks: what is written is read, and what proves nothing is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster import capacity_page
from cluster.capacity import checked
from cluster.capacity.costs import CostsError, parse, plain
from tests.cluster.capacity import made_up


def test_what_is_written_is_read() -> None:
    table = made_up.table()
    assert plain(parse(json.dumps(plain(table)))) == plain(table)
    found = made_up.checked()
    assert checked.plain(checked.parse(json.dumps(checked.plain(found)), table)) == checked.plain(found)


def test_the_files_of_this_release_can_be_read() -> None:
    assert capacity_page.costs().measured.machine
    found = capacity_page.last_check(capacity_page.costs())
    assert found is None or found.largest > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: said["costs"].pop("offset_bytes"), "no cost offset_bytes"),
        (lambda said: said["costs"].update(dust_bytes=1), "no such cost: dust_bytes"),
        (lambda said: said["costs"].update(offset_bytes=-1), "offset_bytes: -1 is no cost"),
        (lambda said: said["costs"].update(offset_bytes=float("nan")), "offset_bytes: nan is no cost"),
        (lambda said: said["by_rate"].pop("heartbeat"), "no curve heartbeat"),
        (lambda said: said["by_rate"].update(heartbeat=[[10, 50]]), "two rates or more"),
        (lambda said: said["by_rate"].update(heartbeat=[[10, 0], [20, 5]]), "above zero"),
        (lambda said: said.pop("measured"), "no file of `groupd bench costs`"),
        (lambda said: said["by_rate"].update(heartbeat="much"), "no file of `groupd bench costs`"),
    ],
)
def test_costs_that_cannot_be_used_are_refused(change: Any, words: str) -> None:
    said = plain(made_up.table())
    change(said)
    with pytest.raises(CostsError, match=words):
        parse(json.dumps(said))


@pytest.mark.parametrize("text", ["", "[]", "3", '{"measured": 1}', '{"costs": [], "by_rate": {}}'])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(CostsError, match="no file of"):
        parse(text)
    with pytest.raises(CostsError, match="no file of"):
        checked.parse(text, made_up.table())


def test_a_check_without_sizes_or_with_an_empty_figure_is_none() -> None:
    said = checked.plain(made_up.checked())
    with pytest.raises(CostsError, match="checked nothing"):
        checked.parse(json.dumps(said | {"sizes": []}), made_up.table())
    said["sizes"][0]["measured"]["cores"] = 0.0
    with pytest.raises(CostsError, match="3,000 members: cores was measured as 0"):
        checked.parse(json.dumps(said), made_up.table())


def test_the_worst_error_counts_whichever_its_sign() -> None:
    found = made_up.checked(0.1)
    low = found.sizes[0]._replace(modelled=dict.fromkeys(found.sizes[0].modelled, 70.0))
    assert found._replace(sizes=(*found.sizes, low)).worst("cores") == pytest.approx(-0.3)
