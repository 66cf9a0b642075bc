"""Requests of groups on connections that stay with the node's broker: each is relayed to the leaders of its
groups on this node, and what is led elsewhere is refused."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.api import groups as spanning
from actors.api.gather import gathered, parted
from actors.api.transaction_relay import Ways
from actors.catalog import codec
from actors.catalog.screening import screen_body
from actors.catalog.table import coordinated
from actors.ground.identity import ClientIdentity
from actors.node.fallen_leaders import FallenLeaders
from actors.protocol.header import Header
from actors.security.gate import Gate

RELAY_TIMEOUT_S: Final = 1_900.0
"""How long, in seconds, a leader's answer to a relayed request is waited for: longer than any join may be
parked (group.max.session.timeout.ms is 30 minutes by default)."""


class GroupRelay:
    """The way of group requests to this node's leaders."""

    def __init__(self, ways: Ways, fallen: FallenLeaders, gate: Gate) -> None:
        self._hub = ways.hub
        self._leaders = ways.leaders
        self._fallen = fallen
        self._gate = gate

    async def serve(
        self, header: Header, frame: bytes, body_offset: int, identity: ClientIdentity
    ) -> bytes | None:
        """Return the answer frame; None to close the connection. Raises MalformedRequest."""
        body = codec.decode(header, frame, body_offset)
        parts = self.split(header, body)
        local = {p: slot for p in parts if (slot := self._leaders.slot_of(p)) is not None}
        if not local and self._fallen.waits_for(header, set(parts)):
            [partition_] = parts
            return await self._fallen.fetch(
                partition_, identity, header, frame, elsewhere=not self._gate.checks
            )
        if not local:
            return self.refused(identity, header, body)
        frames = dict.fromkeys(parts, frame)
        if len(parts) > 1 and coordinated(header.api_key).batch is not None:
            frames = parted(header, frame, body_offset, self._leaders.partitioning.partition_of)
        answers = await asyncio.gather(
            *(self._hub.relay(slot, identity, frames[p], RELAY_TIMEOUT_S) for p, slot in local.items())
        )
        answered = {p: answer for p, answer in zip(local, answers, strict=True) if answer is not None}
        if not answered:
            return None
        if len(parts) == 1:
            return next(iter(answered.values()))
        given = [answered.get(p) or self.refused(identity, header, part) for p, part in parts.items()]
        return gathered(header, body, given)

    def refused(self, identity: ClientIdentity, header: Header, body: Any) -> bytes:
        """Return the answer that no replica of this node leads any of the groups asked for (W17; W9 for
        lists). Groups that the client may not ask for are refused for that reason (W10)."""
        allowed, finish = screen_body(self._gate, identity, header, body)
        answer = None
        if allowed is not None:
            code = ErrorCode.not_coordinator
            refused = spanning.refused_part(header.api_key, allowed, code, header.api_version)
            answer = spanning.merge(header.api_key, [refused], allowed)
        if finish is not None:
            answer = finish(answer)
        return codec.encode(header.api_key, header.api_version, header.correlation_id, answer)

    def split(self, header: Header, body: Any) -> dict[int, Any]:
        """Return the part of a request for each offsets partition that it is for."""
        spread = self._leaders.partitioning
        return spanning.split(header.api_key, body, spread.partition_of, spread.total)
