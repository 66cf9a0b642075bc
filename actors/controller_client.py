"""How a broker speaks to the controller: by Ray call to the replica that leads, found by asking."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from actors import runtime
from actors.metadata.commands import pack, unpack
from actors.spec import TierSpec, controller_name

log = logging.getLogger("groupd.broker")

CALL_TIMEOUT_S = 1.5
SUBMIT_TIMEOUT_S = 10.0
RETRY_INTERVAL_S = 0.05


class RayControllerClient:
    """Submits commands, following the leader; implements actors.api.broker_apis.ControllerClient."""

    def __init__(self, spec: TierSpec) -> None:
        self._spec = spec
        self._handles: dict[int, Any] = {}
        self._leader = 0

    async def submit(self, command: Any) -> Any:
        """The committed result of `command`. Raises TimeoutError if no controller leads in time.

        A retry after a lost answer may decide the command twice: commands are written so that the second
        finds its work done (a topic exists, a block of producer ids is skipped).
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SUBMIT_TIMEOUT_S
        packed = pack(command)
        while loop.time() < deadline:
            answer = await self._call(self._leader, "submit", packed)
            if answer is not None:
                return unpack(answer)
            self._leader = (self._leader + 1) % len(self._spec.controllers)
            if self._leader == 0:
                await asyncio.sleep(RETRY_INTERVAL_S)
        raise TimeoutError(f"no controller answered in {SUBMIT_TIMEOUT_S:.0f} s")

    async def image(self) -> bytes | None:
        """The committed metadata image, from whichever controller can say."""
        for replica in range(len(self._spec.controllers)):
            payload: bytes | None = await self._call(replica, "image")
            if payload is not None:
                self._leader = replica
                return payload
        return None

    async def _call(self, replica: int, method: str, *args: Any) -> Any:
        try:
            if replica not in self._handles:
                name = controller_name(replica)
                handle = await asyncio.to_thread(runtime.find, name, self._spec.namespace)
                if handle is None:
                    return None
                self._handles[replica] = handle
            return await runtime.call(self._handles[replica], method, *args, timeout_s=CALL_TIMEOUT_S)
        except Exception as error:
            self._handles.pop(replica, None)
            log.info("controller %d does not answer %s: %r", replica, method, error)
            return None
