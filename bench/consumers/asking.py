"""What consumers in asyncio ask of a cluster's brokers, whatever protocol their group speaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from actors.network.wire import Closed, Wire
from bench.swarm.records.requests import Partition

Address = tuple[str, int]
GONE: Final = (OSError, Closed, TimeoutError)
"""What is raised when a broker is gone, or does not know: another may be asked."""
RETRY_S: Final = 0.2


def addresses(text: str) -> list[Address]:
    """Return the addresses of `host:port,host:port`. Raises ValueError."""
    found = []
    for each in text.split(","):
        host, _, port = each.rpartition(":")
        if not port.isdecimal():
            raise ValueError(f"{each}: host:port is expected")
        found.append((host or "localhost", int(port)))
    return found


async def coordinator_of(broker: Address, group_id: str) -> Address:
    """Ask a broker where a group's coordinator is. Raises what is in GONE."""
    wire = await Wire.connect(*broker, "bootstrap")
    try:
        found = await wire.call("find_coordinator", 3, key=group_id, key_type=0)
    finally:
        await wire.close()
    if found["error_code"]:
        raise TimeoutError(f"no coordinator: error {found['error_code']}")
    return found["host"], found["port"]


async def create_topics(broker: Address, names: Iterable[str], partitions: int) -> None:
    """Create topics of so many partitions each. Raises what is in GONE, and AssertionError with what the
    broker refuses."""
    topics = [
        {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": (),
            "configs": (),
        }
        for name in names
    ]
    wire = await Wire.connect(*broker, "swarm")
    try:
        told = await wire.call("create_topics", 5, topics=topics, timeout=30_000, validate_only=False)
    finally:
        await wire.close()
    wrong = [each for each in told["topics"] if each["error_code"]]
    assert not wrong, wrong


async def committed_offsets(broker: Address, group_id: str) -> dict[Partition, int]:
    """Return what a group has committed, as its coordinator says. Raises what is in GONE."""
    wire = await Wire.connect(*await coordinator_of(broker, group_id), "swarm")
    try:
        told = await wire.call("offset_fetch", 7, group_id=group_id, topics=None, require_stable=False)
    finally:
        await wire.close()
    if told["error_code"]:
        raise TimeoutError(f"no offsets: error {told['error_code']}")
    return {
        (topic["name"], row["partition_index"]): row["committed_offset"]
        for topic in told["topics"]
        for row in topic["partitions"]
    }
