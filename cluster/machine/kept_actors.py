"""Which actors a machine has, kept on its disk: whatever ends its Ray, the machine starts them again itself.

Each is kept as what it was made with, until it is ended for good. It starts again with what its disk holds; a
replica that finds no journal then knows that it lost one, once the tier was formed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.runtime import ActorOptions
from cluster import owner_file

FORMED: Final = "formed"
SUFFIX: Final = ".actor"


class KeptActor(NamedTuple):
    """What an actor was made with; the first of its arguments is the tier's spec."""

    kind: str
    name: str
    args: tuple[Any, ...]
    options: ActorOptions


class KeptActors:
    """The actors of this machine, below a directory: a folder for each tier, a file for each actor."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep(self, actor: KeptActor) -> None:
        path = self._path(actor.name, actor.options.namespace)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner_file.write(path, pickle.dumps(tuple(actor)))

    def forget(self, name: str, namespace: str) -> None:
        self._path(name, namespace).unlink(missing_ok=True)

    def form(self, namespace: str) -> None:
        """Note that a tier is formed: its replicas have journals that must not be missing later."""
        folder = self._directory / namespace
        if folder.is_dir():
            (folder / FORMED).touch()

    def is_formed(self, namespace: str) -> bool:
        """Return whether this machine was told that a tier is formed."""
        return (self._directory / namespace / FORMED).exists()

    def __iter__(self) -> Iterator[KeptActor]:
        """Yield every actor as it is to be started now. What cannot be read is left out: the controller makes
        it again."""
        for path in sorted(self._directory.glob(f"*/*{SUFFIX}")):
            try:
                # It was written by this process, into a file for its user only.
                actor = KeptActor(*pickle.loads(path.read_bytes()))  # noqa: S301
            except (OSError, pickle.UnpicklingError, EOFError, TypeError, AttributeError, ImportError):
                continue
            spec, *index = actor.args
            is_formed = spec.formed or self.is_formed(path.parent.name)
            actor = actor._replace(args=(spec._replace(formed=is_formed), *index))
            yield actor._replace(options=ActorOptions(*actor.options))

    def _path(self, name: str, namespace: str) -> Path:
        assert "/" not in name + namespace, "names of actors and tiers are words"
        return self._directory / namespace / f"{name}{SUFFIX}"
