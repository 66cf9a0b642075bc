"""One step that keeps a tier's actors there, run once a second by the controller's leader.

Ray restarts an actor whose process dies. What it does not bring back is done here: an actor that was
killed for good, and one whose start failed (a port or a disk that was not free yet), because Ray takes a
constructed actor for a living one. And leaders return to their preferred nodes. Two controllers may step
at once for a moment: a name is given once, and a leader that has just gone cannot be moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from actors import runtime
from actors.runtime import ActorCallError
from actors.spec import TierSpec, partition_name
from cluster.actor_plan import ActorPlan, actors_of, create_actor, make_run_dir
from cluster.placement import leader_transfers

CALL_TIMEOUT_S = 2.0
LOOK_EVERY_STEPS = 10
"""Being asked costs each actor a millisecond, so the living are asked seldom."""
LOOK_AT_STEP = 3
"""The first look comes soon after the first leaders, which chance elected."""
LAG_MAX = 64
"""Entries that a replica may miss when it is to lead: it gets them within one round trip."""


class _Steps:
    """How often this process has stepped."""

    count = 0


async def step(spec: TierSpec, kinds: Mapping[str, str] = runtime.KINDS) -> list[str]:
    """Bring back what is missing; returns what was done, in words. Raises TimeoutError if Ray hangs."""
    names = await asyncio.wait_for(asyncio.to_thread(runtime.list_actors, spec.namespace), CALL_TIMEOUT_S)
    plans = actors_of(spec)
    done = []
    for plan in plans:
        if plan.name not in names and await asyncio.to_thread(_create, spec, plan, kinds):
            done.append(f"{plan.name} was missing: made again")
    _Steps.count += 1
    if _Steps.count % LOOK_EVERY_STEPS == LOOK_AT_STEP:
        done += await _look(spec, [plan for plan in plans if plan.name in names])
    return done


async def settle_leaders(spec: TierSpec) -> list[str]:
    """Move leadership to the preferred replicas right after a start, before any client is there."""
    plans = [plan for plan in actors_of(spec) if plan.kind == "partition"]
    looked_at = await asyncio.gather(*(_ask(spec, plan) for plan in plans))
    found = {plan.name: look for plan, look in zip(plans, looked_at, strict=True) if look is not None}
    return await _return_leaders(spec, found)


def _create(spec: TierSpec, plan: ActorPlan, kinds: Mapping[str, str]) -> bool:
    try:
        create_actor(spec, plan, kinds)
    except ValueError:
        return False  # another controller was faster
    return True


async def _look(spec: TierSpec, plans: Sequence[ActorPlan]) -> list[str]:
    """Ask every actor how it is, and mend what can be mended from outside."""
    looked_at = await asyncio.gather(*(_ask(spec, plan) for plan in plans))
    found = {plan.name: look for plan, look in zip(plans, looked_at, strict=True) if look is not None}
    done = []
    for name, (handle, status) in found.items():
        problem = status.get("problem")
        # A replica that runs and complains keeps its memory: only a failed start is tried again.
        if problem and status.get("role", "starting") == "starting":
            await asyncio.to_thread(_start_again, spec, name, handle)
            done.append(f"{name} could not start ({problem}): tried again")
    return done + await _return_leaders(spec, found)


def _start_again(spec: TierSpec, name: str, handle: runtime.Handle) -> None:
    """Construct an actor anew, on a machine whose temporary directory may have been emptied."""
    node_id = next(plan.node_id for plan in actors_of(spec) if plan.name == name)
    with suppress(ActorCallError, TimeoutError):
        make_run_dir(spec, node_id)
    runtime.kill(handle, no_restart=False)


async def _ask(spec: TierSpec, plan: ActorPlan) -> tuple[runtime.Handle, dict[str, Any]] | None:
    try:
        handle = await asyncio.to_thread(runtime.find, plan.name, spec.namespace)
        if handle is None:
            return None
        return handle, await runtime.call(handle, "status", timeout_s=CALL_TIMEOUT_S)
    except (ActorCallError, TimeoutError):
        return None  # being restarted, or busy: Ray and Raft see to those


async def _return_leaders(
    spec: TierSpec, found: Mapping[str, tuple[runtime.Handle, dict[str, Any]]]
) -> list[str]:
    """Give leadership back to the preferred replicas, so that no node does the work of two."""
    leaders: dict[int, int] = {}
    caught_up: dict[int, list[int]] = {}
    for partition, row in enumerate(spec.placement):
        for replica, node_id in enumerate(row):
            _, status = found.get(partition_name(partition, replica), (None, {}))
            if status.get("serving") and node_id != row[0]:
                leaders[partition] = replica
                lag = (status.get("lag") or {}).get(row[0])
                preferred = partition_name(partition, 0) in found
                caught_up[partition] = [0] if preferred and lag is not None and lag <= LAG_MAX else []
    done = []
    for transfer in leader_transfers(leaders, caught_up):
        handle, _ = found[partition_name(transfer.partition, transfer.from_replica)]
        try:
            await runtime.call(handle, "transfer", transfer.to_replica, timeout_s=CALL_TIMEOUT_S)
        except (ActorCallError, TimeoutError):
            continue  # it fell meanwhile; the next look sees who leads
        node_id = spec.placement[transfer.partition][0]
        done.append(f"partition {transfer.partition}: leadership goes back to node {node_id}")
    return done
