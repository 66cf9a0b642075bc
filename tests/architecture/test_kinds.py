"""Nobody outside a kind's folder asks which kind of group it has before it, or touches what the kind keeps.

What is looked for in the files of the actors, outside `classic/`, `consumer/` and `push/`:
* imports from these folders (`KINDS` imports their `kind` files);
* a subscript of an attribute `of`, which is how a kind finds its own half of the shard's state;
* a kind's name in a comparison, an `in` or a `match`: "classic", CLASSIC and so on.
Exceptions stand below with what they are for. A text in other places (a table, a label) asks nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tracked import tracked

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("actors/coordinator/classic", "actors/coordinator/consumer", "actors/coordinator/push")
MODULES = tuple(folder.replace("/", ".") for folder in FOLDERS)
NAMES = ("classic", "consumer", "push")
CONSTANTS = ("CLASSIC", "CONSUMER", "PUSH")
OWN_BUSINESS = {
    "actors/coordinator/kinds.py": "the table of kinds",
    "actors/leader/plug_in_assignments.py": "runs the plug-ins that consumer groups ask for, in a thread",
    "actors/leader/warm_kernels.py": "compiles the kernels that big consumer groups will need",
}
"""Files that may import from a kind's folder, and why."""
STATE = "actors/coordinator/ground/state.py"
"""Makes the state of each kind, whatever its name is."""


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Find the lines of a file that import from the folder of a kind of groups."""
    for node in ast.walk(tree):
        named: list[str] = []
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in named:
            if any(f"{name}.".startswith(f"{module}.") for module in MODULES):
                yield node.lineno, f"imports {name}"  # type: ignore[attr-defined]


def takes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Find the lines of a file that look into what one kind of groups keeps."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "of"
        ):
            yield node.lineno, f"takes {ast.unparse(node)}"


def asks(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Find the lines of a file that compare something with the name of a kind of groups."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare | ast.match_case):
            continue
        inside = node if isinstance(node, ast.Compare) else node.pattern
        for each in ast.walk(inside):
            is_text = isinstance(each, ast.Constant) and each.value in NAMES
            if is_text or (isinstance(each, ast.Name) and each.id in CONSTANTS):
                yield inside.lineno, f"asks {ast.unparse(inside)}"


def outside() -> list[Path]:
    """The files of the actors that are in no kind's folder."""
    return [
        path
        for path in tracked(ROOT)
        if path.suffix == ".py"
        and path.is_file()
        and (name := str(path.relative_to(ROOT))).startswith("actors/")
        and not name.startswith(tuple(f"{folder}/" for folder in FOLDERS))
    ]


def test_nobody_asks_which_kind_a_group_is() -> None:
    wrong = []
    for path in outside():
        name, tree = str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))
        found = [*asks(tree)]
        if name not in OWN_BUSINESS:
            found += imports(tree)
        if name != STATE:
            found += takes(tree)
        wrong += [f"{name}:{line} {what}" for line, what in found]
    assert wrong == []


def test_no_exception_is_left_over() -> None:
    """Every file that may import from a kind's folder does so, or it has to come off the list."""
    unused = [
        name
        for name in OWN_BUSINESS
        if not list(imports(ast.parse((ROOT / name).read_text(encoding="utf-8"))))
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from actors.coordinator.classic.state import classic_groups", 1),
        ("from actors.coordinator import consumer", 1),
        ("def late():\n    import actors.coordinator.consumer.views", 1),
        ("group = state.of['roster'].groups", 1),
        ("if group.group_type == 'classic': pass", 1),
        ("is_new = kind.name != CONSUMER", 1),
        ("match kind:\n    case 'consumer': pass", 1),
        ("if kind in ('classic', other): pass", 1),
        ("from actors.coordinator.ground.kind import kind_of\nrow = ('group_count', ('classic',), 1)", 0),
    ],
)
def test_a_file_that_asks_is_seen(text: str, found: int) -> None:
    tree = ast.parse(text)
    assert len([*imports(tree), *takes(tree), *asks(tree)]) == found
