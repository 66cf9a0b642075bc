"""Ask every actor of the tier which levels of `groupd.version` its release can serve."""

from __future__ import annotations

import asyncio
from typing import Final

from actors import runtime
from actors.ground.calls import ActorCallError
from actors.ground.features import GROUPD_VERSION
from actors.ground.release import levels_of
from actors.ground.spec import (
    CONTROLLER_GROUP,
    Copy,
    TierSpec,
    broker_name,
    controller_name,
    partition_group,
    partition_name,
)
from actors.metadata.commands import Served, UpdateFeatures

ASK_TIMEOUT_S: Final = 1.0
"""How long, in seconds, all actors together may take: less than a broker waits for the controller."""


def asks_for_level(command: object) -> bool:
    """Return whether a command wants to change the level of `groupd.version`."""
    return isinstance(command, UpdateFeatures) and any(
        update.name == GROUPD_VERSION for update in command.updates
    )


async def served_levels(spec: TierSpec) -> tuple[Served, ...]:
    """Return what the actors of a tier can serve; one that does not answer serves nothing."""
    asked = {name: asyncio.ensure_future(_ask(spec, name)) for name in actor_names(spec)}
    answered, late = await asyncio.wait(asked.values(), timeout=ASK_TIMEOUT_S)
    for each in late:
        each.cancel()
    return tuple(each.result() if each in answered else Served(name) for name, each in asked.items())


def actor_names(spec: TierSpec) -> list[str]:
    """Return the names of a tier's actors, those that are leaving included."""
    names = [broker_name(node.node_id) for node in spec.nodes]
    names += [controller_name(copy.replica_id) for copy in _copies(spec, CONTROLLER_GROUP)]
    for partition in range(spec.offsets_partitions):
        names += [partition_name(partition, each) for each, _ in _copies(spec, partition_group(partition))]
    return names


def _copies(spec: TierSpec, group: str) -> list[Copy]:
    return [*spec.copies(group), *(copy for name, copy in spec.leaving if name == group)]


async def _ask(spec: TierSpec, name: str) -> Served:
    try:
        handle = await asyncio.to_thread(runtime.find, name, spec.namespace)
        if handle is None:
            return Served(name)
        status = await runtime.call(handle, "status", timeout_s=ASK_TIMEOUT_S)
    except (ActorCallError, TimeoutError):
        return Served(name)
    return Served(name, status.get("release", "of an older release"), *levels_of(status))
