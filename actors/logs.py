"""Where an actor's log lines go: one bounded file per actor in the data directory."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from actors.limits import LOG_FILE_BYTES_MAX, LOG_FILES_MAX

LOGGERS = ("groupd", "actors", "storage")
"""Above every logger of ours: actors log by their part's name, the modules they are made of by their own."""
FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def log_to_file(data_dir: str, actor_name: str) -> None:
    """Send this process's log lines of ours to `<data_dir>/logs/<actor>.log`. Safe to call again."""
    directory = Path(data_dir) / "logs"
    directory.mkdir(parents=True, exist_ok=True)
    if logging.getLogger(LOGGERS[0]).handlers:
        return
    handler = RotatingFileHandler(
        directory / f"{actor_name}.log", maxBytes=LOG_FILE_BYTES_MAX, backupCount=LOG_FILES_MAX - 1
    )
    handler.setFormatter(logging.Formatter(FORMAT))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False
