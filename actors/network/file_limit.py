"""How many files, and so connections, a process may have open."""

from __future__ import annotations

import logging
import resource
from typing import Final

logger = logging.getLogger(__name__)

_FILES_AT_MOST: Final = 1024 * 1024


def raise_file_limit() -> int:
    """Raise RLIMIT_NOFILE to what this process may have at most. Return the limit now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_AT_MOST if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as error:
        logger.warning("the file limit stays at %d: %s", soft, error)
        return soft
    return wanted
