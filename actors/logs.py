"""Where an actor's log lines go: one bounded file per actor in the data directory.

A join or a rebalance is a line or two, so that in a storm of joins lines are a good part of the work. The
standard library's handler asks the file system three times for each; this one counts what it has written.
"""

from __future__ import annotations

import logging
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

from actors.limits import LOG_FILE_BYTES_MAX, LOG_FILES_MAX

LOGGERS = ("groupd", "actors", "storage")
"""Above every logger of ours: actors log by their part's name, the modules they are made of by their own."""
UNWRITABLE = "backslashreplace"
FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class Formatter(logging.Formatter):
    """As its parent, but tells a second's date and time once."""

    _second = -1
    _told = ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        second, rest = divmod(record.created, 1)
        if second != self._second:
            self._second = int(second)
            self._told = time.strftime(self.default_time_format, time.localtime(second))
        return f"{self._told},{int(rest * 1000):03d}"


class LogFile(RotatingFileHandler):
    """Rotated before the line that would make it larger than `maxBytes`; a file nobody else writes to."""

    def __init__(self, path: Path, bytes_max: int, files_max: int) -> None:
        super().__init__(path, "a", bytes_max, files_max - 1, encoding="utf-8", errors=UNWRITABLE)
        assert self.stream is not None
        self._bytes = self.stream.tell()
        self.setFormatter(Formatter(FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + self.terminator
            written = len(line.encode(errors=UNWRITABLE))
            if self._bytes and self._bytes + written > self.maxBytes:
                self.doRollover()
                self._bytes = 0
            self._bytes += written
            assert self.stream is not None
            self.stream.write(line)
            self.stream.flush()
        except Exception:
            self.handleError(record)


def log_to_file(data_dir: str, actor_name: str) -> None:
    """Send this process's log lines of ours to `<data_dir>/logs/<actor>.log`. Safe to call again."""
    directory = Path(data_dir) / "logs"
    directory.mkdir(parents=True, exist_ok=True)
    if logging.getLogger(LOGGERS[0]).handlers:
        return
    handler = LogFile(directory / f"{actor_name}.log", LOG_FILE_BYTES_MAX, LOG_FILES_MAX)
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        logger.propagate = False
