"""Write files that nobody but their owner may read: secrets, and what carries them."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Replace a file in one step, so that no reader sees half of it, and nobody else sees any of it."""
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())  # a power cut would leave an empty file, and a secret that nobody knows
    partial.replace(path)
