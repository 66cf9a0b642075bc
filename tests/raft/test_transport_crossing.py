"""If both sides dial at once, a rule lets them settle on one link without flapping."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from storage.raft.transport import CROSSING_S
from tests.polling import passed, reached
from tests.raft.transports import A, B, Port, Stage, Wire, identity, members, play


class Relay:
    """Carries the bytes of one side's calls: nothing before `opened`, then each piece a little late."""

    def __init__(self, path: Path, target: str, opened: asyncio.Event, seed: int) -> None:
        self.address = f"unix:{path}"
        self.called = asyncio.Event()
        self.carrying = 0
        self._path = path
        self._target = target.removeprefix("unix:")
        self._opened = opened
        self._random = random.Random(seed)

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._carry, self._path)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.called.set()
        await self._opened.wait()
        there, back = await asyncio.open_unix_connection(self._target)
        self.carrying += 1
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, back))
                pumps.create_task(self._pump(there, writer))
        finally:
            self.carrying -= 1

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while piece := await source.read(65536):
                await asyncio.sleep(self._random.uniform(0, 0.01))
                sink.write(piece)
        except ConnectionError:
            return
        finally:
            sink.close()

    async def close(self) -> None:
        self._server.close()
        await reached(lambda: self.carrying == 0)


def test_calls_that_cross_settle_on_one_link_without_flapping(tmp_path: Path) -> None:
    """There are 24 pairs at once, and both sides' first calls have begun before a byte travels."""

    async def pair(seed: int) -> None:
        directory = tmp_path / str(seed)
        directory.mkdir()
        stage, opened = Stage(directory), asyncio.Event()
        relays = {
            each: Relay(directory / f"to-{each}", stage.addresses[each], opened, seed) for each in (A, B)
        }
        for relay in relays.values():
            await relay.open()
        for each in (A, B):
            await stage.start(each, address_of=lambda member: relays[member.member_id].address)
        await asyncio.gather(*(relay.called.wait() for relay in relays.values()))
        opened.set()
        await stage.connected()
        await passed(1.2)  # by then any second call would have been made, and any young link is old
        assert (stage.ears[A].story, stage.ears[B].story) == ([f"up {B}"], [f"up {A}"])
        assert relays[A].carrying + relays[B].carrying == 1
        await stage.close()
        await asyncio.gather(*(relay.close() for relay in relays.values()))

    async def scene() -> None:
        async with asyncio.TaskGroup() as pairs:
            for seed in range(24):
                pairs.create_task(pair(seed))

    play(scene)


def test_the_greater_hangs_up_on_a_caller_whom_it_is_calling(tmp_path: Path) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        port = await Port(identity(A), stage.addresses[A]).open()
        await stage.start(B)
        ours = await port.called()
        theirs = await Wire.call(stage, identity(A), B)
        assert await theirs.read() is None
        assert await ours.answer()
        assert await ours.answer()
        await reached(lambda: stage.ears[B].story == [f"up {A}"])
        await stage.close()
        for each in (ours, theirs, port):
            await each.close()

    play(scene)


def test_the_lesser_hangs_up_on_its_own_call_and_takes_the_greaters(tmp_path: Path) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        port = await Port(identity(B), stage.addresses[B]).open()
        await stage.start(A)
        its = await port.called()
        ours = await Wire.call(stage, identity(B), A)
        assert await ours.answer()
        await reached(lambda: stage.ears[A].story == [f"up {B}"])
        assert isinstance(await its.read(), tuple), "its opening"
        assert await its.read(1.0) is None, "at once, not when its time is up"
        await stage.close()
        for each in (its, ours, port):
            await each.close()

    play(scene)


def test_a_greater_whose_calls_are_never_answered_is_reached_by_the_lesser(tmp_path: Path) -> None:
    """A listener at the address that the greater calls keeps silent: for that the greater must not turn the
    lesser away."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        silent = f"unix:{tmp_path}/silent"
        port = await Port(identity(A), silent).open()
        await stage.start(B, address_of=lambda member: silent)
        await stage.start(A)
        await reached(lambda: stage.ears[B].story == [f"up {A}"], 5.0)
        await passed(CROSSING_S)
        assert (stage.ears[A].story, stage.ears[B].story) == ([f"up {B}"], [f"up {A}"])
        await stage.close()
        await port.close()

    play(scene)


@pytest.mark.parametrize(("own", "peer"), [(A, B), (B, A)])
def test_a_dialer_that_is_answered_too_late_hangs_up(tmp_path: Path, own: str, peer: str) -> None:
    """The peer's call was half-way when ours began, and is through before ours is answered."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        port = await Port(identity(peer), stage.addresses[peer]).open()
        transport = await stage.start(own, knows=())
        theirs = await Wire.call(stage, identity(peer), own)
        challenge = await theirs.read()
        transport.set_members(members((own, peer)))
        ours = await port.called()
        assert theirs.handshake is not None
        theirs.send(theirs.handshake.step(challenge))
        await reached(lambda: stage.ears[own].story == [f"up {peer}"])
        assert await ours.answer()
        assert await ours.read() is None, "hung up before it proved anything"
        assert stage.ears[own].story == [f"up {peer}"]
        await stage.close()
        for each in (ours, theirs, port):
            await each.close()

    play(scene)


def test_the_greaters_own_link_stays_when_the_lessers_call_is_through_too_late(tmp_path: Path) -> None:
    """The lesser had been answered before the greater dialled, and its proof comes after the greater's."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        port = await Port(identity(A), stage.addresses[A]).open()
        b = await stage.start(B, knows=())
        theirs = await Wire.call(stage, identity(A), B)
        challenge = await theirs.read()
        b.set_members(members((A, B)))
        ours = await port.called()
        assert await ours.answer()
        assert await ours.answer()
        await reached(lambda: stage.ears[B].story == [f"up {A}"])
        assert theirs.handshake is not None
        theirs.send(theirs.handshake.step(challenge))
        assert await theirs.read(1.0) is None
        assert stage.ears[B].story == [f"up {A}"]
        await stage.close()
        for each in (ours, theirs, port):
            await each.close()

    play(scene)


def test_a_caller_with_whom_a_link_is_in_use_has_lost_it_unless_the_link_is_young(tmp_path: Path) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        port = await Port(identity(A), stage.addresses[A]).open()
        await stage.start(B)
        first = await port.called()
        assert await first.answer()
        assert await first.answer()
        await reached(lambda: stage.ears[B].story == [f"up {A}"])
        early = await Wire.call(stage, identity(A), B)
        assert await early.read() is None
        await passed(CROSSING_S)
        late = await Wire.call(stage, identity(A), B)
        assert await late.answer()
        await reached(lambda: stage.ears[B].story == [f"up {A}", f"down {A}", f"up {A}"])
        assert await first.read() is None
        await stage.close()
        for each in (first, early, late, port):
            await each.close()

    play(scene)
