"""One step that keeps a tier's actors there, run once a second by the controller's leader.

Ray restarts an actor whose process dies. What it does not bring back is done here: an actor that was
killed for good, and one whose start failed (a port or a disk that was not free yet), because Ray takes a
constructed actor for a living one. Two leaders may do this at once for a moment: a name is given once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from actors import runtime
from actors.runtime import ActorCallError
from actors.spec import TierSpec
from cluster.actor_plan import ActorPlan, actors_of, create_actor

CALL_TIMEOUT_S = 2.0
LOOK_EVERY_STEPS = 10
"""Being asked costs each actor a millisecond, so the living are asked seldom."""


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
    if _Steps.count % LOOK_EVERY_STEPS == 0:
        looked_at = await asyncio.gather(*(_look_at(spec, plan) for plan in plans if plan.name in names))
        done += [what for what in looked_at if what is not None]
    return done


def _create(spec: TierSpec, plan: ActorPlan, kinds: Mapping[str, str]) -> bool:
    try:
        create_actor(spec, plan, kinds)
    except ValueError:
        return False  # another controller was faster
    return True


async def _look_at(spec: TierSpec, plan: ActorPlan) -> str | None:
    """Construct anew an actor that says its start failed."""
    handle = await asyncio.to_thread(runtime.find, plan.name, spec.namespace)
    if handle is None:
        return None
    try:
        status: dict[str, Any] = await runtime.call(handle, "status", timeout_s=CALL_TIMEOUT_S)
    except (ActorCallError, TimeoutError):
        return None  # being restarted, or busy: Ray and Raft see to those
    problem = status.get("problem")
    if not problem or status.get("role", "starting") != "starting":
        return None  # a replica that runs and complains keeps its memory
    await asyncio.to_thread(runtime.kill, handle, no_restart=False)
    return f"{plan.name} could not start ({problem}): tried again"
