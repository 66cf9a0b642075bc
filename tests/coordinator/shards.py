"""A coordinator shard without groups, for whoever needs one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from actors.coordinator.shard import CoordinatorShard
from actors.ground.image import MetadataImage
from actors.ground.settings import GroupSettings
from actors.security.gate import Gate

NO_IMAGE = MetadataImage()
DEFAULTS = GroupSettings()


def numbered(pattern: str = "id-{}") -> Callable[[], str]:
    """Ids that are told apart by 0, 1, 2 and so on."""
    numbers = count()
    return lambda: pattern.format(next(numbers))


def new_shard(
    settings: GroupSettings = DEFAULTS,
    image: MetadataImage = NO_IMAGE,
    *,
    gate: Gate | None = None,
    new_id: Callable[[], str] | None = None,
) -> CoordinatorShard:
    """`new_id`: where several shards must not give the same ids."""
    return CoordinatorShard(settings, new_id or numbered(), image, gate)
