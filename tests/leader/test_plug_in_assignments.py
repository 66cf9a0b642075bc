"""Plug-ins run in threads, with a deadline, and the shard is told the outcome (A22)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from actors.assignors.spec import AssignmentSpec, MemberSpec
from actors.coordinator.consumer.assignment_jobs import (
    ASSIGNED,
    AssignedRequest,
    AssignmentAsked,
)
from actors.ground.limits import PLUG_IN_THREADS_MAX
from actors.ground.settings import GroupSettings
from actors.leader.plug_in_assignments import PlugInAssignments

_HERE = f"{__name__}:"
TOPIC = bytes(16)
PACKED = ((TOPIC, bytes(4)),)
GO = threading.Event()


class Patient:
    """A plug-in that waits until a test lets it go on."""

    name = "patient"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, Iterable[int]]]:
        assert GO.wait(30)
        return {spec.members[0].member_id: {TOPIC: [0]}}


class Broken:
    name = "broken"

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, Iterable[int]]]:
        raise ValueError("no")


def asked(group_id: str, assignor: str) -> AssignmentAsked:
    member = MemberSpec("m", None, frozenset([TOPIC]), ())
    return AssignmentAsked(group_id, 3, assignor, AssignmentSpec((member,), {TOPIC: 1}))


class Shard:
    def __init__(self) -> None:
        self.told: asyncio.Queue[AssignedRequest] = asyncio.Queue()

    async def ask(self, api_key: int, body: Any) -> None:
        assert api_key == ASSIGNED
        self.told.put_nowait(body)


def runner(shard: Shard, timeout_ms: int) -> PlugInAssignments:
    settings = GroupSettings(
        group_consumer_assignors=("uniform", _HERE + "Patient", _HERE + "Broken"),
        group_consumer_assignor_timeout_ms=timeout_ms,
    )
    return PlugInAssignments(settings, shard.ask)


def test_others_are_served_while_a_plug_in_works() -> None:
    asyncio.run(_others_are_served())


async def _others_are_served() -> None:
    GO.clear()
    shard = Shard()
    plug_ins = runner(shard, 30_000)
    plug_ins.on_event(asked("slow", "patient"))
    plug_ins.on_event(asked("other", "broken"))
    first = await shard.told.get()
    assert (first.group_id, first.assignment) == ("other", None)
    assert "ValueError" in first.error
    assert len(plug_ins.tasks) > 0
    GO.set()
    assert await shard.told.get() == AssignedRequest("slow", 3, "patient", {"m": PACKED})


def test_one_that_takes_too_long_is_given_up() -> None:
    """The plug-in's thread goes on and keeps its place; when no place is left, further requests are refused
    with these words."""
    asyncio.run(_given_up())


async def _given_up() -> None:
    GO.clear()
    shard = Shard()
    plug_ins = runner(shard, 20)
    for number in range(PLUG_IN_THREADS_MAX):
        plug_ins.on_event(asked(f"g{number}", "patient"))
    errors = [(await shard.told.get()).error for _ in range(PLUG_IN_THREADS_MAX)]
    assert all(error.startswith("patient did not assign within 0.02 s") for error in errors)
    plug_ins.on_event(asked("late", "broken"))
    assert f"{PLUG_IN_THREADS_MAX} calls have not come back" in (await shard.told.get()).error
    GO.set()
    last = AssignedRequest("", 0, "", None)
    async with asyncio.timeout(30):
        while "ValueError" not in last.error:
            plug_ins.on_event(asked("again", "broken"))
            last = await shard.told.get()
    plug_ins.close()
