"""The main of an actor's process where Ray is ours: Ray's own main, with less loaded.

Ray loads libraries into each of its workers for what nothing of ours does: some to speak HTTP and to check
environments, should anybody ask for that; and pyarrow, NumPy and pydantic, so that it could pass their
objects on. Here the former are loaded when they are first used, and the latter by whoever needs them.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

LATER: Final = ("requests", "jsonschema", "yaml")
"""What Ray imports, and does not use as long as nobody asks for environments or Google's accelerators."""
MAIN: Final = "_private/workers/default_worker.py"


class _Later(ModuleType):
    """A module that is loaded when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def import_ray() -> Any:
    """Import Ray, and have what is in LATER loaded when Ray first uses something of it. Whoever else imports
    that gets it as always. Return Ray."""
    later = {name: _Later(name) for name in LATER if name not in sys.modules}
    sys.modules.update(later)
    ray = importlib.import_module("ray")
    for name, module in later.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    return ray


def main() -> None:
    """Run Ray's main in this process, with the arguments that it was given."""
    # The script's folder is no place to import from: its modules are those of a package.
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).resolve().parent)]
    ray = import_ray()
    addons: Any = importlib.import_module("ray.util.serialization_addons")
    addons.apply = _add_nothing
    (folder,) = ray.__path__
    runpy.run_path(str(Path(folder) / MAIN), run_name="__main__")


def _add_nothing(context: Any) -> None:
    """Take the place of what tells Ray how to pass on objects of other libraries."""


if __name__ == "__main__":
    main()
