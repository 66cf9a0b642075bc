"""Ask the tier's actors how they are, and end them."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from actors import runtime
from actors.ground.spec import TierSpec, broker_name
from actors.runtime import ActorCallError
from cluster.repair import Status, leader_of
from cluster.tier_actors import TierActor, replica_actor

CALL_TIMEOUT_S = 2.0
STOP_TIMEOUT_S = 5.0
END_TIMEOUT_S = 5.0
ENDED_LOOK_S = 0.05
REPLICA_NAME = re.compile(r"(controller|partition-\d+)-(\d+)")
BROKER_NAME = re.compile(r"broker-(\d+)")
NO_NODE = -1


class Look(NamedTuple):
    """An actor that answered, and what it said."""

    handle: runtime.Handle
    status: Status


class Sight(NamedTuple):
    """What the actors of a tier said when they were asked."""

    spec: TierSpec
    looks: Mapping[str, Look]
    """Actor's name -> its answer; an actor that did not answer is not in it."""

    def statuses(self, group: str) -> dict[int, Status]:
        """Return the statuses of a group's replicas by number, the leaving ones too."""
        leaving = (copy for name, copy in self.spec.leaving if name == group)
        actors = (replica_actor(group, *copy) for copy in (*self.spec.copies(group), *leaving))
        return {
            actor.replica_id: self.looks[actor.name].status for actor in actors if actor.name in self.looks
        }

    def leader(self, group: str) -> Status | None:
        return leader_of(self.statuses(group).values())

    def start_failed(self, actor: TierActor) -> bool:
        """Return whether the actor answers and has not come up. A broker has no role and complains of nothing
        else."""
        look = self.looks.get(actor.name)
        return look is not None and bool(
            look.status.get("problem") and look.status.get("role", "starting") == "starting"
        )

    def lives(self, node_id: int) -> bool:
        look = self.looks.get(broker_name(node_id))
        return look is not None and not look.status.get("problem")


async def actor_names(spec: TierSpec) -> set[str]:
    """Return the names of the actors that live or are being restarted. Raises TimeoutError if Ray hangs."""
    return await runtime.look_up_names(spec.namespace)


def strays(names: Iterable[str]) -> list[TierActor]:
    """Return the replicas among actors that the tier should not have; on which node they are is not known."""
    found = (REPLICA_NAME.fullmatch(name) for name in sorted(names))
    return [replica_actor(match[1], int(match[2]), NO_NODE) for match in found if match]


def stray_brokers(names: Iterable[str]) -> list[TierActor]:
    """Return the brokers among actors that the tier should not have: their nodes were removed."""
    found = (BROKER_NAME.fullmatch(name) for name in sorted(names))
    return [TierActor("broker", match[0], (int(match[1]),), NO_NODE) for match in found if match]


async def silent_nodes(spec: TierSpec) -> set[int]:
    """Return the nodes whose machines do not answer; none if all live in one Ray. Raises TimeoutError."""
    known = runtime.machines()
    if known is None:
        return set()
    answers = await asyncio.wait_for(asyncio.to_thread(known.list_machines), CALL_TIMEOUT_S)
    return {node.node_id for node in spec.nodes if not answers.get(node.machine or "")}


async def look_at(spec: TierSpec, actors: Sequence[TierActor]) -> Sight:
    """Ask all these actors at once, and return what they said."""
    looks = await asyncio.gather(*(_ask(spec, actor) for actor in actors))
    found = {actor.name: look for actor, look in zip(actors, looks, strict=True) if look is not None}
    return Sight(spec, found)


async def _ask(spec: TierSpec, actor: TierActor) -> Look | None:
    try:
        handle = await runtime.known(actor.name, spec.namespace)
        if handle is None:
            return None
        return Look(handle, await runtime.call(handle, "status", timeout_s=CALL_TIMEOUT_S))
    except (ActorCallError, TimeoutError):
        runtime.doubt(actor.name, spec.namespace)
        return None  # it is being restarted, or busy: Ray and Raft see to that


async def call(handle: runtime.Handle, method: str, *args: Any) -> Any:
    """Call an actor. Return None if it does not answer: it fell meanwhile, and the next look sees what there
    is to do."""
    with suppress(ActorCallError, TimeoutError):
        return await runtime.call(handle, method, *args, timeout_s=CALL_TIMEOUT_S)


async def end(spec: TierSpec, actor: TierActor, sight: Sight) -> bool:
    """Stop an actor for good and wait until its name is free. Return False if it lingers."""
    look = sight.looks.get(actor.name)
    if look is not None:
        with suppress(ActorCallError, TimeoutError):
            await runtime.call(look.handle, "stop", timeout_s=STOP_TIMEOUT_S)
    handle = await runtime.look_up(actor.name, spec.namespace)
    if handle is not None:
        await asyncio.to_thread(runtime.kill, handle)
    deadline = time.monotonic() + END_TIMEOUT_S
    while actor.name in await actor_names(spec):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(ENDED_LOOK_S)
    return True
