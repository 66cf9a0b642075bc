"""A large segment's memory goes back to the system, for a storm of joins may be the last for a long time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WRITES = """
import ctypes, sys
from storage.history.segments.folder import Folder
from storage.history.segments.writer import GIVEN_BACK_FROM_BYTES, SegmentWriter
from tests.history.segments.making import NODE, PARTITION, TIER, changed, stretch

def resident_kib():
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

writer = SegmentWriter(Folder(sys.argv[1]), TIER, PARTITION, NODE, lambda: None)
for first in range(1, 100_000, 500):
    writer.add([stretch([changed(number) for number in range(first, first + 500)], first=first)])
assert writer.size_bytes > GIVEN_BACK_FROM_BYTES, writer.size_bytes
assert writer.publish().error is None
before_kib = resident_kib()
ctypes.CDLL(None).malloc_trim(0)
print(before_kib - resident_kib())
"""
LEFT_KIB_MAX = 1_024


def test_nothing_is_left_to_give_back_once_a_large_segment_is_written(tmp_path: Path) -> None:
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}  # as actors have it
    command = [sys.executable, "-c", WRITES, str(tmp_path)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert int(ran.stdout) < LEFT_KIB_MAX
