"""The secret that the machines of a tier share: a file for its owner only, copied to whoever needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cluster import owner_file
from cluster.tier_file import TierError

NAME: Final = "machine-secret"
"""What the file is called, in a machine's directory and in a tier's."""


def take(directory: Path, source: Path) -> None:
    """Keep a copy of the machines' secret, readable by its owner only. Raises TierError."""
    try:
        text = source.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise TierError(f"the machines' secret {source} cannot be read: {error.strerror or error}") from None
    path = directory / NAME
    if path.exists() and path.samefile(source):
        return
    owner_file.write(path, text.encode())


def read(directory: Path) -> str:
    """Return the secret that a directory has a copy of. Raises TierError."""
    try:
        return (directory / NAME).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise TierError(f"{directory / NAME} cannot be read: {error.strerror or error}") from None
