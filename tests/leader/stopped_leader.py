"""The only replica of an offsets partition in a process of its own, set up as an actor does: it leads and is
stopped.

`python -m tests.leader.stopped_leader FOLDER` prints how many events the history lacks, as a metric.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import uvloop

from actors.leader.offsets_partition import OffsetsPartition
from actors.metrics.numbers import merged
from tests.ground.specs import spec_in

DEADLINE_S = 20.0


async def lead_and_stop(directory: Path) -> None:
    actor = OffsetsPartition(spec_in(directory), 0, 0)
    await actor.start()
    deadline = time.monotonic() + DEADLINE_S
    while not await actor.serves():
        assert time.monotonic() < deadline, "never served"
        await asyncio.sleep(0.005)
    print(merged(await actor.metrics())["history_events_dropped", ()])
    await actor.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(lead_and_stop(Path(sys.argv[1])))
