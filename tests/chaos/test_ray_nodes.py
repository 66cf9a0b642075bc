"""A tier in a Ray cluster of three nodes, of which one is frozen, or lost and brought back."""

from __future__ import annotations

import pytest

from bench.chaos.faults import KINDS
from bench.chaos.targets import sites
from tests.chaos.load import Load
from tests.chaos.scene import Scene, suffer

pytestmark = [pytest.mark.chaos, pytest.mark.ray, pytest.mark.timeout(400)]


def test_a_whole_ray_node_is_lost_and_comes_back() -> None:
    """The node's actors come back to its address, though Ray takes it for another node."""

    names = [name for name, kind in KINDS.items() if "ray-nodes" in kind.needs]

    def node_is_silent(scene: Scene) -> None:
        host = scene.injury.target.removeprefix("Ray node ")
        [node] = [each.node_id for each in scene.site.spec.nodes if each.host == host]
        assert not any(actor.node_id == node for actor in scene.site.actors())

    with sites.throw_away("--partitions", "2", ray_nodes=True) as site, Load(site) as load:
        for name in names:
            suffer(site, load, name, node_is_silent)
