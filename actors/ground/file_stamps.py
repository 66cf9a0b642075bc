"""What tells whether files have changed."""

import os
from collections.abc import Iterable

Stamps = tuple[tuple[int, int, int], ...]


def stamps_of(paths: Iterable[str]) -> Stamps:
    """Return what is different once one of the files is another one, or has another content. A file that is
    not there has a stamp, too."""
    stamps = []
    for path in paths:
        try:
            found = os.stat(path)
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        except OSError:
            stamps.append((0, 0, 0))
    return tuple(stamps)
