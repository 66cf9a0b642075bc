"""A copy for a backup is made beside a snapshot of Raft's; each shows the state at its own beginning."""

from __future__ import annotations

import pytest

from actors.ground.snapshot_build import SnapshotBuild
from tests.replica.test_snapshot_build import records_of, replayed
from tests.replica.world import World

SEEDS = 20
STEPS = 400


class CopyWorld(World):
    """A world whose leader is making both nearly always, a few records at a time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.builds: dict[str, tuple[SnapshotBuild, int]] = {}
        self.completed = {"begin_snapshot": 0, "begin_copy": 0}

    def check(self) -> None:
        """Compare nothing after a step: a whole snapshot would abandon those under way. `settle` compares."""

    def snapshot(self) -> None:
        self.go_on()

    def step(self) -> None:
        super().step()
        self.go_on()

    def go_on(self) -> None:
        node = self.cluster.leader_node
        kind = self.chance.choice(sorted(self.completed))
        if kind not in self.builds:
            build = getattr(self.cluster.replicas[node], kind)()
            self.builds[kind] = (build, self.cluster.applied[node])
            return
        build, index = self.builds[kind]
        data = build.step(self.chance.randint(1, 4))
        if data is not None:
            del self.builds[kind]
            assert dict(records_of(data)) == replayed(self.cluster.entries[:index]), (kind, index)
            self.completed[kind] += 1

    def elect(self) -> None:
        super().elect()
        self.builds.clear()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_copy_and_a_snapshot_do_not_disturb_each_other(seed: int) -> None:
    world = CopyWorld(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    assert min(world.completed.values()) > 5, world.completed
