"""A running tier, asked over its clients' port: by its users and ACLs, from any machine, without Ray.

`Port` stands where a Ray or the machines' agents stand else (`actors.runtime.use`): commands find and call
actors as ever, and the broker that is connected to passes their questions on (`actors.node.questions`).
Questions that are asked at the same moment go in one request. What was asked over a connection that broke is
lost: it may have been carried out. The next question goes to the next address.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from actors.ground.calls import ActorCallError
from actors.ground.spec import CONTROLLER_GROUP, NodeSpec, broker_name, partition_group
from actors.machines.far import FarActor
from actors.machines.link import Answer, told
from actors.metadata.records import GroupPlacementValue
from actors.network.wire import Closed, Wire
from actors.protocol.errors import MalformedRequest
from actors.protocol.questions import (
    ABOUT,
    NOT_ALLOWED,
    ONCE,
    QUESTIONS_MAX,
    TIER,
    TIMEOUT_MS_MAX,
    Question,
    Told,
    pack_request,
    unpack_answer,
)
from cluster import tier_file
from cluster.groups.connection import Address, opened
from cluster.groups.properties import ClientProperties
from cluster.tier_actors import replica_actor
from cluster.tier_file import TierError, TierFile

GATHER_S: Final = 0.002
"""How long, in seconds, a question waits for others that go with it."""
CONNECTIONS_MAX: Final = 8
"""How many requests may be under way: a broker answers one at a time on each connection."""
ABOUT_TIMEOUT_S: Final = 5.0
WAY_S: Final = 0.5
"""How much of a question's time, in seconds, is left for the way there and back."""
WAY_SHARE: Final = 0.25
LATE_S: Final = 5.0
"""How long, in seconds, an answer may be late before its broker is given up."""

_Waiting = tuple[Question, asyncio.Future[Answer]]


class Refused(ActorCallError):
    """Raised if nothing was asked; the text is for the user."""


class Port:
    """The way to a tier's actors through the port of one of its nodes."""

    def __init__(self, properties: ClientProperties) -> None:
        """Take a tier's addresses and how to connect. Raises TierError for properties that are wrong."""
        self._properties = properties
        self._tls = properties.tls()
        self._addresses: list[Address] = properties.addresses
        self._numbers = count(1)
        self._waiting: list[_Waiting] = []
        self._idle: list[Wire] = []
        self._exchanges: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        threading.Thread(target=self._run, name="port", daemon=True).start()

    def about(self) -> dict[str, Any]:
        """Return what the tier says of itself. Blocks. Raises TierError in words for the user."""
        try:
            said: dict[str, Any] = self._ask(Question(TIER, ABOUT, (), _ms(ABOUT_TIMEOUT_S))).result()
        except (ActorCallError, TimeoutError) as error:
            raise TierError(str(error) or "the tier does not answer") from None
        known = ((node["host"], node["port"]) for node in said["nodes"])
        self._addresses += [address for address in known if address not in self._addresses]
        return said

    def find(self, name: str, namespace: str) -> FarActor | None:
        """Return an actor's handle; whether there is one shows when it is called."""
        return FarActor("", name, namespace)

    def list_actors(self, namespace: str) -> set[str]:
        """Return the names of the actors that the tier should have. Blocks. Raises ActorCallError."""
        try:
            return _names(tier_of(self.about()))
        except TierError as error:
            raise ActorCallError(str(error)) from None

    def call(
        self, handle: FarActor, method: str, args: Sequence[Any], timeout_s: float
    ) -> concurrent.futures.Future[Any]:
        """Begin a call. The future raises like `actors.runtime.result`."""
        left_s = timeout_s - min(WAY_S, timeout_s * WAY_SHARE)
        return self._ask(Question(handle.name, method, tuple(args), _ms(left_s)))

    def _ask(self, question: Question) -> concurrent.futures.Future[Any]:
        return asyncio.run_coroutine_threadsafe(self._told(question), self._loop)

    async def _told(self, question: Question) -> Any:
        answered: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting.append((question, answered))
        if len(self._waiting) == 1:
            self._loop.call_later(GATHER_S, self._send)
        return told(await answered)

    def _send(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting[:QUESTIONS_MAX], self._waiting[QUESTIONS_MAX:]
            exchange = self._loop.create_task(self._exchange(together))
            self._exchanges.add(exchange)
            exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, together: Sequence[_Waiting]) -> None:
        """Ask what waits together. Whatever goes wrong is the answer to all of it."""
        try:
            async with self._room:
                answers = await self._answers([question for question, _ in together])
        except Exception as error:
            failure = error if isinstance(error, ActorCallError) else Refused(str(error))
            for _, answered in together:
                if not answered.done():
                    answered.set_exception(failure)
            return
        for (_, answered), answer in zip(together, answers, strict=True):
            if not answered.done():
                answered.set_result(answer)

    async def _answers(self, questions: Sequence[Question]) -> Sequence[Answer]:
        frame = pack_request(next(self._numbers), self._properties.client_id, questions)
        late_s = max(question.timeout_ms for question in questions) / 1_000 + LATE_S
        is_new = not self._idle or any(question.method in ONCE for question in questions)
        wire = await self._open() if is_new else self._idle.pop()
        try:
            async with asyncio.timeout(late_s):
                said = await _exchanged(wire, frame)
        except (Closed, OSError, MalformedRequest) as error:  # a TimeoutError is an OSError
            await wire.close()
            if isinstance(error, Closed) and not is_new:  # its session may have expired, or its node is gone
                return await self._answers(questions)
            raise Refused(self._why(error)) from None
        except BaseException:
            await wire.close()
            raise
        self._idle.append(wire)
        if said.refused:
            raise Refused(self._refusal(said))
        return said.answers

    async def _open(self) -> Wire:
        """Connect to the first address that answers; one that does not is asked last from now on."""
        problems = []
        for address in tuple(self._addresses):
            try:
                return (await opened(address, self._properties, self._tls))[0]
            except TierError as error:
                problems.append(str(error))
                self._put_last(address)
        raise Refused("; ".join(problems))

    def _put_last(self, address: Address) -> None:
        self._addresses.remove(address)
        self._addresses.append(address)

    def _why(self, error: Exception) -> str:
        """Say why there was no answer. The broker that gave none is asked last from now on."""
        address = self._addresses[0]
        self._put_last(address)
        where = f"{address[0]}:{address[1]}"
        if isinstance(error, Closed):
            return (
                f"{where} hangs up when it is asked for its tier: it is no groupd tier (Kafka knows no such "
                "request), one of an older version, or it has just gone down"
            )
        return f"{where}: {error or 'no answer in time'}"

    def _refusal(self, said: Told) -> str:
        if said.refused == NOT_ALLOWED:
            user = self._properties.sasl_username or "ANONYMOUS"
            return (
                f"user {user} may not do that: it needs the operation {said.words} on the cluster; "
                "`groupd acls add` gives it"
            )
        return said.words

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


async def _exchanged(wire: Wire, frame: bytes) -> Told:
    await wire.send_raw(frame)
    return unpack_answer(await wire.read_frame())


def _ms(seconds: float) -> int:
    return min(int(seconds * 1_000), TIMEOUT_MS_MAX)


def tier_of(said: Mapping[str, Any]) -> TierFile:
    """Return the tier that `Port.about` describes, with its replicas where they should be now."""
    placements = {group: GroupPlacementValue.of(fields) for group, fields in said["placement"].items()}
    tier = TierFile(
        tier_id=said["tier_id"],
        nodes=tuple(NodeSpec(**node) for node in said["nodes"]),
        placement=((),) * (len(placements) - 1),
        controllers=(),
        ray_address="",
        unmoved=tuple(said.get("unmoved", ())),
        undropped=tuple(said.get("undropped", ())),
        formed=True,
    )
    return tier_file.placed(tier, placements)


def _names(tier: TierFile) -> set[str]:
    """Return the names of the actors that a tier should have."""
    groups = [CONTROLLER_GROUP, *map(partition_group, range(len(tier.placement)))]
    replicas = {replica_actor(group, *copy).name for group in groups for copy in tier.copies(group)}
    return replicas | {broker_name(node.node_id) for node in tier.nodes}
