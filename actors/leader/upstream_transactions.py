"""Have the transaction coordinators of the cluster upstream verify or add an offsets partition (KIP-890).

A commit of offsets in a transaction waits in the shard for this word, as it does in a tier of its own. The
coordinator of a transactional id is one of the cluster's brokers then, which writes the markers to this
partition only if it knows it to be part of the transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.leader.transaction_markers import AskBroker
from actors.network.wire import Closed, Wire
from actors.protocol.api_keys import FIND_COORDINATOR
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_messages import TransactionPartitions
from actors.upstream.controllers import (
    UNREADABLE,
    Address,
    Connect,
    Elsewhere,
    Versions,
    call,
    version_of,
    words,
)

log = logging.getLogger("groupd.upstream")

FIND_VERSION: Final = 4
TRANSACTION: Final = 1
"""The type of coordinator that FindCoordinator is asked for."""
ADD_VERSIONS: Final = (5, 4)
"""Which versions are spoken: older ones are for clients, and tell no more than that there was an error."""
KNOWN_MAX: Final = 10_000
"""How many transactional ids' coordinators are remembered; then the oldest are looked up again."""
LINES_MAX: Final = 64
"""How many coordinators there are connections to."""
WAITING_MAX: Final = 5_000
"""How many commits may wait for one coordinator. Others are told to come again."""
TOGETHER_MAX: Final = 200
"""How many transactions one request names."""
_Asked = tuple[TransactionPartitions, asyncio.Future[ErrorCode]]
_LOST: Final = (OSError, TimeoutError, Closed, Elsewhere, *UNREADABLE)
_ASKED_ANEW: Final = frozenset({ErrorCode.not_coordinator, ErrorCode.network_exception})
"""The errors after which another broker may be the coordinator."""


class UpstreamTransactions:
    """The way to the cluster's transaction coordinators. `ask_broker` asks the node's broker, which passes
    FindCoordinator on."""

    def __init__(self, ask_broker: AskBroker, connect: Connect) -> None:
        self._ask_broker = ask_broker
        self._connect = connect
        self._known: dict[str, Address] = {}
        """Transactional id -> where its coordinator was found."""
        self._lines: dict[Address, _Line] = {}

    async def verify(self, transaction: TransactionPartitions) -> ErrorCode:
        """Have the coordinator verify a transaction's partition, or add it. Return its error. To ask twice
        changes nothing, so another coordinator is looked for once if there is no answer."""
        error = ErrorCode.coordinator_not_available
        for _ in range(2):
            where = await self._coordinator(transaction.transactional_id)
            if where is None:
                return ErrorCode.coordinator_not_available
            line = await self._line(where)
            error = await line.verify(transaction)
            if error not in _ASKED_ANEW:
                return error
            self._known.pop(transaction.transactional_id, None)
        return ErrorCode.coordinator_not_available if error == ErrorCode.not_coordinator else error

    async def close(self) -> None:
        """Close all connections."""
        for line in self._lines.values():
            await line.close()

    async def _coordinator(self, transactional_id: str) -> Address | None:
        known = self._known.get(transactional_id)
        if known is not None:
            return known
        request = codec.build(
            codec.request_class(FIND_COORDINATOR, FIND_VERSION),
            key_type=TRANSACTION,
            coordinator_keys=(transactional_id,),
        )
        answer = await self._ask_broker(FIND_COORDINATOR, FIND_VERSION, request)
        if answer is None or not answer.coordinators or answer.coordinators[0].error_code:
            return None
        found = answer.coordinators[0]
        if len(self._known) >= KNOWN_MAX:
            del self._known[next(iter(self._known))]
        where = self._known[transactional_id] = str(found.host), int(found.port)
        return where

    async def _line(self, address: Address) -> _Line:
        line = self._lines.get(address)
        if line is None:
            idle = [each for each, other in self._lines.items() if other.is_idle]
            if len(self._lines) >= LINES_MAX and idle:
                await self._lines.pop(idle[0]).close()
            line = self._lines[address] = _Line(self._connect, address)
        return line


class _Line:
    """A connection to one coordinator. What comes while a request is under way goes with the next one."""

    def __init__(self, connect: Connect, address: Address) -> None:
        self._connect = connect
        self._address = address
        self._open: tuple[Wire, Versions] | None = None
        self._waiting: deque[_Asked] = deque()
        self._work: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return self._work is None or self._work.done()

    async def verify(self, transaction: TransactionPartitions) -> ErrorCode:
        """Ask, and return the coordinator's error; NETWORK_EXCEPTION if it gave no answer."""
        if len(self._waiting) >= WAITING_MAX:
            return ErrorCode.coordinator_not_available
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ErrorCode] = loop.create_future()
        self._waiting.append((transaction, answer))
        if self.is_idle:
            self._work = loop.create_task(self._ask_all())
        return await answer

    async def close(self) -> None:
        """Ask nothing more, and close the connection."""
        if self._work is not None:
            self._work.cancel()
        await self._hang_up()

    async def _hang_up(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            await opened[0].close()

    async def _ask_all(self) -> None:
        while self._waiting:
            asked = self._next()
            errors: dict[str, ErrorCode] = {}
            try:
                errors = await self._asked([transaction for transaction, _ in asked])
            finally:  # whatever has gone wrong, nobody waits for ever
                for transaction, answer in asked:
                    if not answer.done():
                        answer.set_result(
                            errors.get(transaction.transactional_id, ErrorCode.network_exception)
                        )

    def _next(self) -> list[_Asked]:
        """Return what is asked next. A transactional id is in a request once: answers go by it."""
        asked: dict[str, _Asked] = {}
        left: deque[_Asked] = deque()
        for each in self._waiting:
            if each[0].transactional_id in asked or len(asked) >= TOGETHER_MAX:
                left.append(each)
            else:
                asked[each[0].transactional_id] = each
        self._waiting = left
        return list(asked.values())

    async def _asked(self, transactions: list[TransactionPartitions]) -> dict[str, ErrorCode]:
        """Return the error of each transactional id, none for those without an answer."""
        try:
            if self._open is None:
                self._open = await self._connect(self._address)
            wire, versions = self._open
            version = version_of("add_partitions_to_txn", versions, ADD_VERSIONS)
            if version is None:  # such a broker verifies nothing, and no client has it add anything
                return {
                    each.transactional_id: NO_ERROR if each.verify_only else ErrorCode.unsupported_version
                    for each in transactions
                }
            answer = await call(wire, "add_partitions_to_txn", version, transactions=_fields(transactions))
        except BaseException as error:
            await self._hang_up()  # a late answer would be taken for the next one's
            if not isinstance(error, _LOST):
                raise
            log.info("the transaction coordinator at %s gives no answer: %s", words(self._address), error)
            return {}
        return _errors(transactions, answer)


def _fields(transactions: list[TransactionPartitions]) -> list[dict[str, Any]]:
    return [
        {
            **each._asdict(),
            "topics": [{"name": topic, "partitions": list(numbers)} for topic, numbers in each.topics],
        }
        for each in transactions
    ]


def _errors(transactions: list[TransactionPartitions], answer: dict[str, Any]) -> dict[str, ErrorCode]:
    """Return the error of each transaction, whose topics have but one partition."""
    if answer["error_code"]:
        log.error("AddPartitionsToTxn is refused: %s", answer["error_code"].name.upper())
        return {each.transactional_id: answer["error_code"] for each in transactions}
    return {
        result["transactional_id"]: ErrorCode(partition["partition_error_code"])
        for result in answer["results_by_transaction"]
        for topic in result["topic_results"]
        for partition in topic["results_by_partition"]
    }
