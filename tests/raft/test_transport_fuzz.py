"""Whatever bytes come instead of a handshake prove nothing and raise nothing out of the loop."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import msgpack
import pytest

from storage.raft.handshake import Handshake, Refused
from tests.polling import reached
from tests.raft.transports import SECRET, A, Port, Stage, Wire, framed, identity, play

ROUNDS = 150
DIALS = 56
"""How many calls 14 listeners get before the dialer waits too long between two of them."""
ANSWER_S = 0.05
SEED = 20


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """Change a frame. The result is never the frame itself, nor the frame with bytes behind it."""
    at = chance.randrange(len(frame))
    match chance.randrange(4):
        case 0:
            return frame[:at]
        case 1:
            return chance.randbytes(chance.randrange(1, 300))
        case 2:
            return frame[:at] + chance.randbytes(1) + frame[at:-1] + bytes([frame[-1] ^ 1])
        case _:
            return frame[:at] + bytes([frame[at] ^ (1 << chance.randrange(8))]) + frame[at + 1 :]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)


@pytest.mark.parametrize("stage_of", ["opening", "proof"])
def test_callers_that_garble_their_part_are_never_proven(tmp_path: Path, stage_of: str) -> None:
    chance = random.Random(SEED)

    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A, knows=())
        for number in range(ROUNDS):
            handshake = Handshake(identity(f"{number + 1}.1"), SECRET, A, lambda peer_id, nonce: None)
            wire = await Wire.open(stage.addresses[A])
            said = framed(handshake.opening())
            wire.write(mutated(said, chance) if stage_of == "opening" else said)
            try:
                challenge = await wire.read(ANSWER_S)
            except TimeoutError:  # the listener waits for the rest of what it takes for a frame
                challenge = None
            if challenge is not None:
                proof = framed(_proof(handshake, challenge))
                wire.write(mutated(proof, chance) if stage_of == "proof" else proof)
                wire.end()
                assert await wire.read() is None
            await wire.close()
        assert stage.ears[A].story == []
        await stage.close()

    play(scene)


def _proof(handshake: Handshake, challenge: Any) -> Any:
    """The proof that an honest dialer would send; a dialer whose opening was garbled would not get so far."""
    try:
        return handshake.step(challenge)
    except Refused:
        return handshake.opening()


def test_listeners_that_garble_their_part_are_never_proven(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    ids = [f"{number}.1" for number in range(1, 15)]

    async def scene() -> None:
        stage = Stage(tmp_path, A, *ids)
        answered = 0

        async def listen(member_id: str) -> None:
            nonlocal answered
            port = await Port(identity(member_id), stage.addresses[member_id]).open()
            try:
                while True:
                    wire = await port.called()
                    opening = await wire.read()
                    assert wire.handshake is not None
                    wire.write(mutated(framed(wire.handshake.step(opening)), chance))
                    wire.end()
                    answered += 1
                    assert await wire.read() is None, "no proof for who has proven nothing"
                    await wire.close()
            finally:
                await port.close()

        listeners = [asyncio.create_task(listen(each)) for each in ids]
        # The greatest id of all dials: it does not wait as the lesser does.
        stage.addresses["9.9"] = f"unix:{tmp_path}/9.9"
        await stage.start("9.9", knows=ids)
        await reached(lambda: answered >= DIALS)
        assert stage.ears["9.9"].story == []
        for listener in listeners:
            listener.cancel()
        ends = await asyncio.gather(*listeners, return_exceptions=True)
        assert [end for end in ends if not isinstance(end, asyncio.CancelledError)] == []
        await stage.close()

    play(scene)


def test_random_values_only_ever_refuse() -> None:
    chance = random.Random(SEED)

    def value(depth: int) -> Any:
        leaves: list[Any] = [
            None,
            True,
            chance.getrandbits(64),
            -1,
            2,
            0.5,
            "groupd-raft",
            "1.1",
            A,
            "tier",
            "partition-3",
            chance.randbytes(32),
            msgpack.ExtType(5, b"x"),
            msgpack.Timestamp(1, 2),
        ]
        if depth == 0 or chance.random() < 0.5:
            return chance.choice(leaves)
        inner = [value(depth - 1) for _ in range(chance.randrange(9))]
        return tuple(inner) if chance.random() < 0.8 else dict(enumerate(inner))

    for _ in range(5_000):
        dial = chance.choice([None, "1.1"])
        handshake = Handshake(identity(A), SECRET, dial, lambda peer_id, nonce: None)
        said = value(2)
        if dial is None and chance.random() < 0.5:
            said = ("groupd-raft", 2, "tier", "partition-3", *(value(1) for _ in range(3)))
        try:
            handshake.step(said)
        except Refused:
            continue
        finally:
            assert handshake.peer_id is None
