"""Which files are the project's: those that git tracks. Whatever else lies in a checkout is its user's."""

from __future__ import annotations

import ast
import os
import subprocess
from functools import cache
from pathlib import Path


def tracked(root: Path) -> list[Path]:
    """All of them below `root`, in order. Raises CalledProcessError outside a checkout."""
    # A hook of git's own sets variables that name another index.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, check=True, env=clean).stdout
    return sorted(root / os.fsdecode(name) for name in listed.split(b"\0") if name)


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file: each is parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's tree, each before those within it."""
    return tuple(ast.walk(tree(path)))
