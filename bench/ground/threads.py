"""How often the threads of a process wake, and what they cost, by the kernel's own count.

A thread that waits and is woken has given the processor up by itself before (a voluntary switch); one that is
made to wait by others is switched too. Both are counted: each time it comes back it finds its caches cold.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")


class Thread(NamedTuple):
    """A thread as counted up to now. `cpu_ns` is the time for which it ran."""

    name: str
    switches: int
    cpu_ns: int


class Rate(NamedTuple):
    """The threads of one name in one process: how many, wake-ups a second, and per cent of a core."""

    name: str
    threads: int
    wakes: float
    core: float


Threads = dict[int, Thread]
"""Thread id -> thread."""


def threads_of(pid: int, proc: Path = PROC) -> Threads:
    """Return the threads of a process; those that end meanwhile, or have, are left out."""
    found: Threads = {}
    for task in _tasks(proc / str(pid) / "task"):
        try:
            status, schedule = (task / "status").read_text(), (task / "schedstat").read_text()
        except OSError:
            continue
        found[int(task.name)] = parsed(status, schedule)
    return found


def _tasks(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError:  # the process has ended
        return


def parsed(status: str, schedule: str) -> Thread:
    """Return what /proc/PID/task/TID's `status` and `schedstat` say of a thread."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    switches = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
    return Thread(
        fields["Name"].strip(), sum(int(fields[name]) for name in switches), int(schedule.split()[0])
    )


def rates(before: Threads, after: Threads, seconds: float) -> list[Rate]:
    """Return what the threads did in between, by name, those that woke most first. A thread that has just
    begun counts from its beginning."""
    by_name: dict[str, list[tuple[int, int]]] = {}
    for thread_id, thread in after.items():
        was = before.get(thread_id, Thread(thread.name, 0, 0))
        done = thread.switches - was.switches, thread.cpu_ns - was.cpu_ns
        by_name.setdefault(thread.name, []).append(done)
    found = [
        Rate(
            name,
            len(done),
            sum(switches for switches, _ in done) / seconds,
            sum(cpu_ns for _, cpu_ns in done) / seconds / 1e7,
        )
        for name, done in by_name.items()
    ]
    return sorted(found, key=lambda rate: (-rate.wakes, rate.name))
