"""Where an actor's log lines go: one bounded file per actor in the data directory."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from actors.limits import LOG_FILE_BYTES_MAX, LOG_FILES_MAX

FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def log_to_file(data_dir: str, actor_name: str) -> None:
    """Send this process's `groupd` log lines to `<data_dir>/logs/<actor>.log`. Safe to call again."""
    directory = Path(data_dir) / "logs"
    directory.mkdir(parents=True, exist_ok=True)
    root = logging.getLogger("groupd")
    root.setLevel(logging.INFO)
    if root.handlers:
        return
    handler = RotatingFileHandler(
        directory / f"{actor_name}.log", maxBytes=LOG_FILE_BYTES_MAX, backupCount=LOG_FILES_MAX - 1
    )
    handler.setFormatter(logging.Formatter(FORMAT))
    root.addHandler(handler)
    root.propagate = False
