"""An actor's log: a line an event, in files of a bounded size, whatever is in the lines."""

from __future__ import annotations

import logging
from pathlib import Path

from actors.ground.logs import LogFile
from bench.swarm.counted.wall import date_and_time
from tests.polling import until


def _record(message: str, created_s: float) -> logging.LogRecord:
    record = logging.LogRecord("groupd.partition", logging.INFO, __file__, 1, "%s", (message,), None)
    record.created = created_s
    return record


def test_lines_are_told_the_time_in_utc_as_reports_of_swarms_tell_it(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "actor.log", 10_000, 2)
    times_s = (1_700_000_000.25, 1_700_000_000.75, 1_700_000_061.0)

    for time_s in times_s:
        log.emit(_record("MemberJoined", time_s))
    log.close()

    told = [line.split(" INFO ")[0] for line in (tmp_path / "actor.log").read_text().splitlines()]
    assert told == [date_and_time(int(time_s * 1e6)) for time_s in times_s]
    assert told[0] == "2023-11-14 22:13:20.250"


def test_a_log_keeps_to_its_files_and_their_size_after_a_restart_too(tmp_path: Path) -> None:
    for _ in range(3):
        log = LogFile(tmp_path / "actor.log", 1_000, 3)
        for number in range(50):
            log.emit(_record(f"group-{number} \N{SNOWMAN}", 1_700_000_000.0))
        log.close()

    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"actor.log", "actor.log.1", "actor.log.2"}
    assert max(sizes.values()) <= 1_000
    assert min(sizes["actor.log.1"], sizes["actor.log.2"]) > 900


def test_what_is_no_text_is_written_escaped(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "actor.log", 1_000, 2)

    log.emit(_record("lone surrogate \ud800", 1_700_000_000.0))
    log.close()

    assert (tmp_path / "actor.log").read_text().endswith("lone surrogate \\ud800\n")


def test_lines_are_written_soon_and_a_warning_at_once(tmp_path: Path) -> None:
    path = tmp_path / "actor.log"
    log = LogFile(path, 10_000, 2)

    log.emit(_record("first", 1_700_000_000.0))
    until(lambda: "first" in path.read_text(), "the first line is written")
    log.emit(_record("second", 1_700_000_000.0))
    warning = _record("third", 1_700_000_000.0)
    warning.levelno = logging.WARNING
    log.emit(warning)

    told = [line.rsplit(" ", 1)[1] for line in path.read_text().splitlines()]
    log.close()
    assert told == ["first", "second", "third"]
