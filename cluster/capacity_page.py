"""The page deploy/CAPACITY.md, and the measurements that it and `groupd capacity` are made of.

`python -m cluster.capacity_page` prints the page; a test fails when the file is stale.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from cluster.capacity import checked, page
from cluster.capacity.checked import Checked
from cluster.capacity.costs import Costs, parse

PACKAGE: Final = "cluster.capacity"
COSTS: Final = "measured.json"
"""The file that `groupd bench costs` writes."""
CHECK: Final = "checked.json"
"""The file that `groupd bench capacity-check` writes."""


def costs() -> Costs:
    """The costs that come with groupd. Raises CostsError."""
    return parse(_text(COSTS))


def last_check(table: Costs) -> Checked | None:
    """The last check of the model, which these costs are in; None: there was none. Raises CostsError."""
    try:
        text = _text(CHECK)
    except FileNotFoundError:
        return None
    return checked.parse(text, table)


def _text(name: str) -> str:
    return resources.files(PACKAGE).joinpath(name).read_text(encoding="utf-8")


def markdown() -> str:
    """Return the page. Raises CostsError."""
    table = costs()
    return page.markdown(table, last_check(table))


if __name__ == "__main__":
    print(markdown(), end="")
