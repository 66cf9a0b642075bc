"""Give offsets partitions to their preferred leaders when a client asks for it (ElectLeaders, KIP-183)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors import runtime
from actors.ground.spec import TierSpec, partition_group, partition_name
from actors.node.controller_client import RayControllerClient

log = logging.getLogger("groupd.broker")

LOOK_TIMEOUT_S: Final = 1.5
MOVE_TIMEOUT_S: Final = 6.0
"""Longer, in seconds, than a replica waits until another one serves."""


class Elections:
    """The broker's way to the leaders of offsets partitions. `controller` knows where their replicas are."""

    def __init__(self, spec: TierSpec, controller: RayControllerClient) -> None:
        self._spec = spec
        self._controller = controller

    async def elect(self, partition: int) -> ErrorCode:
        """Return ELECTION_NOT_NEEDED if the preferred replica leads, NONE once it does, or why it cannot:
        PREFERRED_LEADER_NOT_AVAILABLE, NOT_CONTROLLER, REQUEST_TIMED_OUT."""
        placement = await self._controller.placement()
        if placement is None:
            return ErrorCode.not_controller
        replicas: list[int] = [copy[0] for copy in placement[partition_group(partition)][0]]
        serving = await asyncio.gather(*(self._does_serve(partition, replica) for replica in replicas))
        leader = next((replica for replica, serves in zip(replicas, serving, strict=True) if serves), None)
        preferred = replicas[0]
        if leader == preferred:
            return ErrorCode.election_not_needed
        if leader is None:
            return ErrorCode.preferred_leader_not_available
        try:
            moved = await self._call(
                partition, leader, "move_leadership", preferred, timeout_s=MOVE_TIMEOUT_S
            )
        except TimeoutError:
            return ErrorCode.request_timed_out
        except Exception as error:
            log.info("partition %d stays with replica %d: %r", partition, leader, error)
            return ErrorCode.preferred_leader_not_available
        return ErrorCode.none if moved else ErrorCode.preferred_leader_not_available

    async def _does_serve(self, partition: int, replica: int) -> bool:
        try:
            return bool(await self._call(partition, replica, "serves", timeout_s=LOOK_TIMEOUT_S))
        except Exception as error:
            log.info("replica %d of partition %d does not answer: %r", replica, partition, error)
            return False

    async def _call(self, partition: int, replica: int, method: str, *args: Any, timeout_s: float) -> Any:
        name = partition_name(partition, replica)
        handle = await runtime.look_up(name, self._spec.namespace)
        return None if handle is None else await runtime.call(handle, method, *args, timeout_s=timeout_s)
