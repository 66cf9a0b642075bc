"""Imports between the folders of actors and storage go down the list that actors/README.md gives of them."""

from __future__ import annotations

from tests.architecture.test_folders import file_graph
from tests.architecture.test_links import DESIGN, QUOTED, rows

LIST = tuple(
    path.rstrip("/").replace("/", ".")
    for row in rows(DESIGN, "The folders")
    for path in QUOTED.findall(row[0])
)
OUTSIDE = {"actors", "actors.ray_host", "actors.runtime", "storage"}
"""Modules that stand in no folder of the list: Ray, which whoever starts actors imports."""


def place(module: str) -> int:
    """The module's place in the list: that of the innermost folder around it."""
    around = [folder for folder in LIST if f"{module}.".startswith(f"{folder}.")]
    assert around, f"{module} stands in no folder of the list"
    return LIST.index(max(around, key=len))


def test_imports_go_down() -> None:
    up = {
        (name, other)
        for name, others in file_graph().items()
        for other in others
        if {name.partition(".")[0], other.partition(".")[0]} <= {"actors", "storage"}
        if not {name, other} & OUTSIDE and place(name) > place(other)
    }
    assert up == set()
