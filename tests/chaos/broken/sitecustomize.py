"""Found by every Python of a tier that is started with this directory in PYTHONPATH: puts a class with a bug
in the place of the actors' Replica. Nothing in the product knows of it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

TARGET = "actors.replica.replica"
BUG = os.environ.get("TIER_WITH_BUG")
"""Where the bug's class is, such as "tests.chaos.bugs:LosesCommits"."""


class _Swap(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the target as all others would, and swaps its class as soon as it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None, f"{name} is not there"
        self._loader = spec.loader
        spec.loader = self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        where, _, name = str(BUG).partition(":")
        module.Replica = getattr(importlib.import_module(where), name)


if BUG:
    sys.meta_path.insert(0, _Swap())
