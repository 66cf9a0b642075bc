"""Where an actor's log lines go: one bounded file per actor in the data directory.

A rebalance is a few lines, so that in a storm of joins the log is a good part of the work. The standard
library's handler asks the file system three times for each line and writes it by itself, which lets another
thread have the interpreter; here lines are counted, and written together.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from actors.ground.limits import LOG_FILE_BYTES_MAX, LOG_FILES_MAX

LOGGERS = ("groupd", "actors", "storage")
"""The loggers above every logger of ours: actors log by their part's name, the modules they are made of by
their own."""
UNWRITABLE = "backslashreplace"
UNWRITTEN_BYTES_MAX = 64 * 1024
WRITTEN_WITHIN_S = 0.1
FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class Formatter(logging.Formatter):
    """The form of log lines. It tells the time in UTC, as reports of swarms do, whatever the machine's zone;
    the date and time of a second are made once."""

    _second = -1
    _told = ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        second, rest = divmod(record.created, 1)
        if second != self._second:
            self._second = int(second)
            self._told = time.strftime(self.default_time_format, time.gmtime(second))
        return f"{self._told}.{int(rest * 1000):03d}"


class LogFile(RotatingFileHandler):
    """A log file that nobody else writes to, rotated before it would be larger than `bytes_max`. A warning or
    worse is written at once, with all lines before it; other lines within `WRITTEN_WITHIN_S`."""

    def __init__(self, path: Path, bytes_max: int, files_max: int) -> None:
        super().__init__(path, "a", bytes_max, files_max - 1, encoding="utf-8", errors=UNWRITABLE)
        self.setFormatter(Formatter(FORMAT))
        assert self.stream is not None
        self._written_bytes = self.stream.tell()
        self._lines: list[bytes] = []
        self._unwritten_bytes = 0
        self._is_closed = False
        self._has_lines = threading.Event()
        threading.Thread(target=self._write_now_and_then, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = (self.format(record) + self.terminator).encode(errors=UNWRITABLE)
            if self._written_bytes + self._unwritten_bytes + len(line) > self.maxBytes:
                self._write()
                self.doRollover()
                self._written_bytes = 0
            self._lines.append(line)
            self._unwritten_bytes += len(line)
            if record.levelno >= logging.WARNING or self._unwritten_bytes > UNWRITTEN_BYTES_MAX:
                self._write()
            elif len(self._lines) == 1:
                self._has_lines.set()
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        self.acquire()
        try:
            self._write()
        finally:
            self.release()

    def close(self) -> None:
        super().close()
        self._is_closed = True
        self._has_lines.set()

    def _write(self) -> None:
        if self._lines and self.stream is not None:
            lines, self._lines = self._lines, []
            self._written_bytes += self._unwritten_bytes
            self._unwritten_bytes = 0
            self.stream.buffer.write(b"".join(lines))
            self.stream.flush()

    def _write_now_and_then(self) -> None:
        while self._has_lines.wait() and not self._is_closed:
            self._has_lines.clear()
            time.sleep(WRITTEN_WITHIN_S)
            with suppress(OSError):  # the disk may be full: the lines that come later are tried again
                self.flush()


def log_to_file(data_dir: str, actor_name: str) -> None:
    """Send this process's log lines of ours to `<data_dir>/logs/<actor>.log`. May be called again."""
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
