"""A coordinator shard without groups, for tests that need one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from actors.coordinator.shard import CoordinatorShard
from actors.ground.image import NO_NODE, MetadataImage
from actors.ground.settings import GroupSettings
from actors.security.gate import Gate

NO_IMAGE = MetadataImage()
DEFAULTS = GroupSettings()


def numbered(pattern: str = "id-{}") -> Callable[[], str]:
    """Make ids of a pattern, with 0, 1, 2 and so on in it."""
    numbers = count()
    return lambda: pattern.format(next(numbers))


def new_shard(
    settings: GroupSettings = DEFAULTS,
    image: MetadataImage = NO_IMAGE,
    *,
    gate: Gate | None = None,
    new_id: Callable[[], str] | None = None,
    node_id: int = NO_NODE,
) -> CoordinatorShard:
    """Make an empty shard. `new_id` is given where several shards must not make the same ids."""
    return CoordinatorShard(settings, new_id or numbered(), image, gate, node_id=node_id)
