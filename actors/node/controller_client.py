"""How a broker speaks to the controller: by Ray call to the replica that leads, which it finds by asking."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from actors import runtime
from actors.ground.image import MetadataImage
from actors.ground.spec import TierSpec, controller_name, controller_of
from actors.metadata.commands import pack, unpack
from actors.node.leader_news import LeaderNews, tell_the_tier

log = logging.getLogger("groupd.broker")

CALL_TIMEOUT_S = 1.5
SUBMIT_TIMEOUT_S = 10.0
RETRY_INTERVAL_S = 0.05
LIST_INTERVAL_S = 1.0
"""How often, in seconds, a broker may ask for all actors' names, which come from one place."""


class RayControllerClient:
    """The broker's way to the controller: it submits commands to the replica that leads, and implements
    actors.api.context.ControllerClient."""

    def __init__(self, spec: TierSpec) -> None:
        self._spec = spec
        self._replicas = [replica for replica, _ in spec.controllers]
        """The numbers of the controller's replicas, first the one that answered last."""
        self._handles: dict[int, Any] = {}
        self._listed_at = float("-inf")

    async def submit(self, command: Any) -> Any:
        """Return the committed result of `command`. Raises TimeoutError if no controller leads in time.

        A retry after a lost answer may decide the command twice: commands are written so that the second
        finds its work done (a topic exists, a block of producer ids is skipped).
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SUBMIT_TIMEOUT_S
        packed = pack(command)
        while loop.time() < deadline:
            for replica in tuple(self._replicas):
                answer = await self._call(replica, "submit", packed)
                if answer is not None:
                    self._prefer(replica)
                    return unpack(answer)
            await asyncio.sleep(RETRY_INTERVAL_S)
            await self._find_replicas()
        raise TimeoutError(f"no controller answered in {SUBMIT_TIMEOUT_S:.0f} s")

    async def image(self) -> bytes | None:
        """Return the committed metadata image, from whichever replica of the controller can say; None if none
        can."""
        payload: bytes | None = await self._ask_any("image")
        return payload

    async def placement(self) -> dict[str, tuple[Any, ...]] | None:
        """Return where replicas should be, as `Controller.placement` has it; None if no controller leads."""
        placement: dict[str, tuple[Any, ...]] | None = await self._ask_any("placement")
        return placement

    async def _ask_any(self, method: str) -> Any:
        """Return the first answer that a replica of the controller gives; None if none can say."""
        for replica in tuple(self._replicas):
            answer = await self._call(replica, method)
            if answer is not None:
                self._prefer(replica)
                return answer
        await self._find_replicas()
        return None

    async def tell_of_leader(self, image: MetadataImage, news: LeaderNews) -> None:
        """Tell the controllers, and the other brokers, of a leader on this node."""
        await tell_the_tier(self._spec, image, news)

    def _prefer(self, replica: int) -> None:
        self._replicas = [replica, *(other for other in self._replicas if other != replica)]

    async def _find_replicas(self) -> None:
        """Find the replicas that the controller has now: all of them may have been replaced since this actor
        was made."""
        now = asyncio.get_running_loop().time()
        if now - self._listed_at < LIST_INTERVAL_S:
            return
        self._listed_at = now
        try:
            names = await runtime.look_up_names(self._spec.namespace)
        except Exception as error:
            log.info("the controllers cannot be listed: %r", error)
            return
        found = {replica for name in names if (replica := controller_of(name)) is not None}
        known = [replica for replica in self._replicas if replica in found]
        self._replicas = (known + sorted(found.difference(known))) or self._replicas

    async def _call(self, replica: int, method: str, *args: Any) -> Any:
        try:
            if replica not in self._handles:
                name = controller_name(replica)
                handle = await runtime.look_up(name, self._spec.namespace)
                if handle is None:
                    return None
                self._handles[replica] = handle
            return await runtime.call(self._handles[replica], method, *args, timeout_s=CALL_TIMEOUT_S)
        except Exception as error:
            self._handles.pop(replica, None)
            log.info("controller %d does not answer %s: %r", replica, method, error)
            return None
