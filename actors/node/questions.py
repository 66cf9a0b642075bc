"""What commands ask of the tier over a node's port, so that they need no Ray: the broker asks the actors.

Only the methods of a fixed list may be called. Who looks needs DESCRIBE of the cluster, who changes something
ALTER, and who copies what the tier keeps CLUSTER_ACTION, as whoever reads Kafka's logs as a replica does.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from actors import runtime
from actors.ground.acl import Operation
from actors.ground.calls import ActorCallError
from actors.ground.identity import ClientIdentity
from actors.ground.nodes import nodes_of
from actors.ground.spec import CONTROLLER_GROUP, TierSpec, broker_name, partition_group
from actors.machines.link import FAILED, OK, Answer, answer_of
from actors.metadata.commands import PlaceGroup, UpdateFeatures, unpack
from actors.metadata.node_commands import RemoveNode, SetNodeDuty
from actors.metadata.records import GroupPlacementValue
from actors.metadata.wire import Unreadable
from actors.node.controller_client import RayControllerClient
from actors.protocol.header import Header
from actors.protocol.questions import (
    ABOUT,
    BUSY,
    NOT_ALLOWED,
    TIER,
    UNREADABLE,
    Question,
    Told,
    pack_answer,
    unpack_request,
)
from actors.security.gate import Gate

log = logging.getLogger("groupd.questions")

Methods = Mapping[str, Operation]
_LOOKS: Final = Operation.DESCRIBE
_COPIES: Final = dict.fromkeys(("begin_copy", "copy_piece", "end_copy"), Operation.CLUSTER_ACTION)
METHODS: Final[Mapping[str, Methods]] = {
    TIER: {ABOUT: _LOOKS},
    "broker": {"status": _LOOKS, "metrics": _LOOKS},
    "controller": {
        **dict.fromkeys(("status", "placement", "nodes", "split_state", "upstream_state"), _LOOKS),
        **dict.fromkeys(
            ("submit", "replace_replica", "split_partitions", "set_upstream_goal"), Operation.ALTER
        ),
        **_COPIES,
    },
    "partition": {
        **dict.fromkeys(("status", "metrics", "explain", "top", "serves"), _LOOKS),
        **dict.fromkeys(("move_leadership",), Operation.ALTER),
        **_COPIES,
    },
}
"""Kind of actor -> method that may be asked for -> the operation on the cluster that whoever asks must be
allowed."""
COMMANDS: Final = (PlaceGroup, SetNodeDuty, RemoveNode, UpdateFeatures)
"""The commands that may be submitted so: all others are made by requests of Kafka's, with their own
rights."""
UNTOLD: Final = frozenset({"copy_piece", "end_copy"})
"""What the log leaves out: the question before has told of it."""
AT_ONCE_MAX: Final = 64
"""How many requests of this kind one broker works on at a time."""
KEEP_INTERVAL_S: Final = 30.0
KNOWN_TIMEOUT_S: Final = 1.5
_NAME: Final = re.compile(r"(broker|controller|partition-\d+)-\d+")

Own = Callable[[], Awaitable[Any]]


class Questions:
    """Answers what commands ask. `own` are the methods of the broker itself that may be asked for."""

    def __init__(
        self,
        spec: TierSpec,
        node_id: int,
        controller: RayControllerClient,
        gate: Gate,
        own: Mapping[str, Own],
    ) -> None:
        self._spec = spec
        self._name = broker_name(node_id)
        self._controller = controller
        self._gate = gate
        self._own = own
        self._under_way = 0

    async def answer(self, identity: ClientIdentity, header: Header, frame: bytes, body_offset: int) -> bytes:
        """Return the whole frame of the answer. Raises MalformedRequest."""
        told = await self._told(identity, unpack_request(frame[body_offset:]))
        try:
            return pack_answer(header.correlation_id, told)
        except ValueError as error:
            late = (FAILED, f"the answers cannot be told: {error}")
            return pack_answer(header.correlation_id, Told("", "", (late,) * len(told.answers)))

    async def _told(self, identity: ClientIdentity, questions: Sequence[Question]) -> Told:
        refusal = self._refusal(identity, questions)
        if refusal is not None:
            return refusal
        if self._under_way >= AT_ONCE_MAX:
            return Told(BUSY, f"{AT_ONCE_MAX} requests like this one are under way here")
        self._under_way += 1
        try:
            return Told("", "", tuple(await asyncio.gather(*map(self._ask, questions))))
        finally:
            self._under_way -= 1

    def _refusal(self, identity: ClientIdentity, questions: Sequence[Question]) -> Told | None:
        """Return why none of these may be asked; None if all may."""
        asking = self._gate.asking(identity.principal, identity.client_host)
        for question in questions:
            kind = _kind_of(question.actor)
            operation = None if kind is None else METHODS[kind].get(question.method)
            if operation is None or not _may_be_submitted(question):
                return Told(UNREADABLE, f"nobody may ask {question.actor} for {question.method:.100}")
            if not asking.may_cluster(operation):
                log.warning("%s may not ask for %s", identity.principal, question.method)
                return Told(NOT_ALLOWED, operation.name)
            if operation != _LOOKS and question.method not in UNTOLD:
                log.info("%s at %s: %s", identity.principal, identity.peer, _in_words(question))
        return None

    async def _ask(self, question: Question) -> Answer:
        try:
            return OK, await self._asked(question)
        except Exception as error:
            return answer_of(error)

    async def _asked(self, question: Question) -> Any:
        timeout_s = question.timeout_ms / 1_000
        if question.actor == TIER:
            async with asyncio.timeout(timeout_s):
                return await self._about()
        if question.actor == self._name:
            return await self._own[question.method]()
        handle = await runtime.look_up(question.actor, self._spec.namespace)
        if handle is None:
            raise runtime.ActorGoneError("there is no such actor")
        return await runtime.call(handle, question.method, *question.args, timeout_s=timeout_s)

    async def _about(self) -> dict[str, Any]:
        """Return which tier this is, and where its replicas are: as the controller says, or as they began if
        it has no majority."""
        image = self._gate.image
        return {
            "tier_id": self._spec.tier_id,
            "version": _version(),
            "nodes": [asdict(node) for node in nodes_of(self._spec, image)],
            "placement": await self._controller.placement() or self._placement_of_the_beginning(),
            "unmoved": image.unmoved,
            "undropped": image.undropped,
            "machines": await self._machines(),
        }

    def _placement_of_the_beginning(self) -> dict[str, Any]:
        groups = [CONTROLLER_GROUP, *map(partition_group, range(self._spec.offsets_partitions))]
        return {group: (self._spec.copies(group), 0, ()) for group in groups}

    async def _machines(self) -> dict[str, bool]:
        """Return the addresses of the machines' agents, and whether each answers; {} if there is one Ray."""
        known = runtime.machines()
        if known is None:
            return {}
        try:
            return await asyncio.to_thread(known.list_machines)
        except (ActorCallError, TimeoutError) as error:
            log.info("the machines cannot be listed: %s", error)
            return {}

    async def keep_known(self) -> None:
        """Know every actor of the tier before somebody asks for it: then Ray's directory of actors may be
        gone. A handle works without it once a call has gone through."""
        while True:
            placement = await self._controller.placement()
            if placement is not None:
                for name in self._names(placement):
                    await self._speak_to(name)
            await asyncio.sleep(KEEP_INTERVAL_S if placement is not None else KNOWN_TIMEOUT_S)

    def _names(self, placement: Mapping[str, Any]) -> list[str]:
        names = [broker_name(node.node_id) for node in nodes_of(self._spec, self._gate.image)]
        for group, fields in placement.items():
            placed = GroupPlacementValue.of(fields)
            names += [f"{group}-{copy.replica_id}" for copy in (*placed.copies, *placed.leaving)]
        return [name for name in names if name != self._name]

    async def _speak_to(self, name: str) -> None:
        try:
            handle = await runtime.look_up(name, self._spec.namespace)
            if handle is not None:
                await runtime.call(handle, "start", timeout_s=KNOWN_TIMEOUT_S)
        except Exception as error:
            log.debug("%s cannot be spoken to: %s", name, error)


def _kind_of(actor: str) -> str | None:
    if actor == TIER:
        return TIER
    matched = _NAME.fullmatch(actor)
    return None if matched is None else matched[1].partition("-")[0]


def _may_be_submitted(question: Question) -> bool:
    """Return whether a command is one of those that may come this way; true for what is no command."""
    if question.method != "submit":
        return True
    try:
        [packed] = question.args
        return isinstance(unpack(packed), COMMANDS)
    except (ValueError, TypeError, Unreadable):
        return False


def _in_words(question: Question) -> str:
    args = question.args
    if question.method == "submit":
        args = (unpack(args[0]),)
    return f"{question.actor}.{question.method}{args!r:.500}"


def _version() -> str:
    try:
        return version("groupd")
    except PackageNotFoundError:
        return "not installed"
