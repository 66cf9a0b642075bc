"""Machines come to know each other: one that joins anywhere is known everywhere, one that does not fit is
refused and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.ground.calls import ActorCallError
from actors.ground.release import LEVEL_MAX, LEVEL_MIN, RELEASE, told
from cluster.machine import identity
from cluster.machine.agent import Agent, take_in
from tests.cluster.machine.agents import Agents, join, new_address
from tests.polling import reached

Story = Callable[[Agents], Awaitable[None]]


def play(directory: Path, story: Story) -> None:
    async def run() -> None:
        agents = Agents(directory / "agents")
        agents.path("").mkdir()
        try:
            await story(agents)
        finally:
            await agents.close()

    asyncio.run(run())


def knows(agent: Agent, *others: Agent) -> bool:
    return set(agent.others.me.others) == {other.address for other in others}


def test_a_machine_that_joins_one_is_known_by_all_and_stays_so(tmp_path: Path) -> None:
    async def story(agents: Agents) -> None:
        head, b, c = await agents.head(), await agents.new("b"), await agents.new("c")
        await take_in(b, head.address)
        await take_in(c, b.address)
        everybody = (head, b, c)
        await reached(
            lambda: all(knows(each, *(set(everybody) - {each})) for each in everybody), "all know all"
        )
        await reached(lambda: len(head.others.answering()) == 2, "all answer")
        kept = [identity.read(agents.path(name)) for name in ("head", "b", "c")]
        assert all(each is not None and len(each.others) == 2 for each in kept)
        assert len({each.cluster for each in kept if each is not None}) == 1

    play(tmp_path, story)


def test_a_machine_that_lost_its_disk_joins_under_its_old_address(tmp_path: Path) -> None:
    async def story(agents: Agents) -> None:
        head, b = await agents.head(), await agents.new("b")
        await take_in(b, head.address)
        await take_in(b, head.address)
        assert knows(head, b)
        assert knows(b, head)

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            {"its_levels": (LEVEL_MAX + 1, LEVEL_MAX + 2)},
            f"it has groupd 0.9.9, which serves levels {LEVEL_MAX + 1} to {LEVEL_MAX + 2} of groupd.version, "
            f"and the machines here have {RELEASE}, which serves {LEVEL_MIN} to {LEVEL_MAX}",
        ),
        ({"late_ms": 3_600_000}, "its clock is 3600 s away from this one's"),
        ({"late_ms": -3_600_000}, "its clock is 3600 s away from this one's"),
        ({"cluster": "others"}, "its directory belongs to other machines (others)"),
    ],
    ids=["levels", "clock-before", "clock-behind", "directory"],
)
def test_a_machine_that_does_not_fit_is_told_why_and_taken_in_by_nobody(
    tmp_path: Path, changed: dict[str, Any], why: str
) -> None:
    async def story(agents: Agents) -> None:
        head, b = await agents.head(), await agents.new("b")
        with pytest.raises(ActorCallError) as refused:
            await join(b, head, **changed)
        assert why in str(refused.value)
        assert knows(head)

    play(tmp_path, story)


def test_a_machine_of_another_release_joins_if_its_levels_fit(tmp_path: Path) -> None:
    async def story(agents: Agents) -> None:
        head, b = await agents.head(), await agents.new("b")
        await join(b, head, its_levels=(LEVEL_MIN, LEVEL_MAX + 1))
        assert knows(head, b)
        said = await head._releases()
        assert said[head.address] == told()

    play(tmp_path, story)


def test_an_address_that_peers_cannot_reach_is_refused(tmp_path: Path) -> None:
    async def story(agents: Agents) -> None:
        head, b = await agents.head(), await agents.new("b")
        nobody = new_address()
        with pytest.raises(ActorCallError, match=f"{nobody} cannot be reached from {head.address}"):
            await join(b, head, address=nobody)
        with pytest.raises(ActorCallError, match="is the address of the machine that was asked"):
            await join(b, head, address=head.address)
        assert knows(head)

    play(tmp_path, story)


def test_a_machine_with_another_secret_gets_no_answer_but_that(tmp_path: Path) -> None:
    async def story(agents: Agents) -> None:
        head, stranger = await agents.head(), await agents.new("stranger", secret_of=None)
        with pytest.raises(ActorCallError, match="it has another secret"):
            await join(stranger, head)
        assert knows(head)

    play(tmp_path, story)


def test_a_machine_that_answers_no_more_is_left_out_and_taken_back(tmp_path: Path) -> None:
    async def story(agents: Agents) -> None:
        head, b = await agents.head(), await agents.new("b")
        await take_in(b, head.address)
        await reached(lambda: head.others.answering() == [b.address], "it answers")
        await agents.end(b)
        await reached(lambda: head.others.answering() == [], "it is silent")
        assert await head.others.ask_all("ping", head.address, timeout_s=1.0) == {}
        await agents.again("b")
        await reached(lambda: head.others.answering() == [b.address], "it is back")

    play(tmp_path, story)


def test_a_machine_that_comes_back_under_another_address_is_the_same_to_all(tmp_path: Path) -> None:
    """One of them is away meanwhile, and hears of it when it is back."""

    async def story(agents: Agents) -> None:
        head, b, c = await agents.head(), await agents.new("b"), await agents.new("c")
        await take_in(b, head.address)
        await take_in(c, head.address)
        everybody = [head, b, c]
        await reached(lambda: all(len(each.others.me.others) == 2 for each in everybody), "all know all")
        former = b.address
        await agents.end(c)
        await agents.end(b)
        moved = identity.read(agents.path("b"))
        assert moved is not None
        now = new_address()
        identity.write(
            agents.path("b"), identity.with_moves(replace(moved, address=now), ((moved.address, now, 1),))
        )
        b = await agents.again("b")
        await reached(lambda: knows_only(head, now, c.address), "the head knows the new address")
        c = await agents.again("c")
        await reached(lambda: knows_only(c, now, head.address), "so does who was away")
        assert former not in head.others.me.others

    play(tmp_path, story)


def knows_only(agent: Agent, *addresses: str) -> bool:
    return set(agent.others.me.others) == set(addresses)
