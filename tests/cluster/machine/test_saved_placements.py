"""A whole start asks the machines where replicas are: who gives it may not know of what was done since."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from actors import runtime
from actors.controller import placement_file
from actors.controller.placement_file import SavedPlacement
from actors.ground.spec import Copy, NodeSpec, copies
from actors.metadata.records import GroupPlacementValue, SplitValue
from cluster import machine_secret, saved_placements
from cluster.tier_file import TierFile
from tests.cluster.machine.agents import Agents

TIER = TierFile(
    tier_id="t" * 22,
    nodes=(NodeSpec(node_id=1, host="h", port=1),),
    placement=(copies((1,)),),
    controllers=copies((1,)),
    ray_address="",
    started_partitions=1,
)
MOVED = GroupPlacementValue((Copy(1, 2),), 2)
SAVED = SavedPlacement(
    TIER.tier_id,
    7,
    {"controller": MOVED, "partition-0": MOVED, "partition-1": GroupPlacementValue(copies((2,)), 1)},
    (NodeSpec(node_id=2, host="i", port=1),),
    SplitValue(2, (0,), (0,)),
)


def test_the_machines_know_what_the_directory_of_the_start_does_not(tmp_path: Path) -> None:
    data_dir = tmp_path / "tier"
    data_dir.mkdir()

    async def story() -> None:
        agents = Agents(tmp_path)
        head = await agents.head()
        runtime.use_machines([head.address], machine_secret.read(agents.path("head")))
        try:
            assert await asyncio.to_thread(saved_placements.newest, TIER, data_dir) == TIER
            placement_file.write(data_dir, SAVED)
            found = await asyncio.to_thread(saved_placements.newest, TIER, data_dir)
            assert found.placement == ((Copy(1, 2),), (Copy(0, 2),))
            assert (found.nodes, found.controllers, found.unmoved) == (SAVED.nodes, ((1, 2),), (0,))
            newer = replace(TIER, placement_version=8)
            assert await asyncio.to_thread(saved_placements.newest, newer, data_dir) == newer
            await asyncio.to_thread(saved_placements.forget, data_dir)
            assert await asyncio.to_thread(saved_placements.newest, TIER, data_dir) == TIER
        finally:
            runtime.use(None)
            await agents.close()

    asyncio.run(story())


def test_a_tier_in_one_ray_has_no_machines_to_ask(tmp_path: Path) -> None:
    placement_file.write(tmp_path, SAVED)
    assert saved_placements.newest(TIER, tmp_path) == TIER
