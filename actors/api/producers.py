"""Answer InitProducerId for idempotent producers: ids come from the controller in blocks (KIP-730).

Producers with a transactional id are answered by its coordinator.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.catalog import codec
from actors.metadata.commands import AllocateProducerIds
from actors.protocol.api_keys import INIT_PRODUCER_ID
from actors.protocol.errors import GroupError
from actors.protocol.header import Header
from actors.protocol.transaction_messages import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class ProducerIds:
    """The block of producer ids that this broker is giving out. Ids left over at its end are never used."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._next = 0
        self._end = 0
        self._one_at_a_time = asyncio.Lock()

    async def next_id(self) -> int:
        """Return an id that no other producer has or had. Raises GroupError if the controller gives no
        block."""
        async with self._one_at_a_time:
            if self._next == self._end:
                block = await self._context.submit(AllocateProducerIds(self._context.node_id))
                if block.error_code != ErrorCode.none:
                    # Producers may try again, whatever kept the controller from answering.
                    raise GroupError(ErrorCode.coordinator_load_in_progress)
                self._next = block.first_producer_id
                self._end = block.first_producer_id + block.size
            self._next += 1
            return self._next - 1


async def init_producer_id(ids: ProducerIds, header: Header, entity: Any) -> Any:
    """Return a new id with epoch 0, as in Kafka also for a producer without transactions that brings its
    own."""
    try:
        known_id = getattr(entity, "producer_id", NO_PRODUCER_ID)
        known_epoch = getattr(entity, "producer_epoch", NO_PRODUCER_EPOCH)
        if (known_id == NO_PRODUCER_ID) != (known_epoch == NO_PRODUCER_EPOCH):
            raise GroupError(ErrorCode.invalid_request)
        producer_id, error_code = await ids.next_id(), ErrorCode.none
    except GroupError as error:
        producer_id, error_code = NO_PRODUCER_ID, error.error_code
    return codec.build(
        codec.response_class(INIT_PRODUCER_ID, header.api_version),
        error_code=error_code,
        producer_id=producer_id,
        producer_epoch=0 if error_code == ErrorCode.none else NO_PRODUCER_EPOCH,
    )
