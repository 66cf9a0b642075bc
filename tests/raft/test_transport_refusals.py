"""Which callers are refused, with which words in the log, and which are not."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.raft.handshake import Handshake, LinkIdentity
from storage.raft.members import Member
from storage.raft.roster import FORMER_MAX, REPLACED_REFUSED_S, Roster
from storage.raft.skeleton import Node
from storage.raft.transport import LINKS_MAX
from tests.polling import passed, reached
from tests.raft.transports import SECRET, A, B, Stage, Wire, framed, identity, members, play

Opening = tuple[Any, ...]


def spoken(text: str, caplog: pytest.LogCaptureFixture) -> Callable[[], bool]:
    return lambda: text in caplog.text


def opening(own: LinkIdentity | None = None, to: str = A) -> Opening:
    said: Opening = Handshake(own or identity(B), SECRET, to, lambda peer_id, nonce: None).opening()
    return said


REFUSED_OPENINGS = {
    "another tier": (
        opening(identity(B, tier_id="other")),
        f"link with {B} closed: it belongs to tier 'other', this replica to tier 'tier'",
    ),
    "another group": (
        opening(identity(B, group="controller")),
        f"link with {B} closed: it belongs to group 'controller', this replica to group 'partition-3'",
    ),
    "another directory of this replica": (
        opening(to="0.77"),
        f"link with {B} closed: it wanted to reach '0.77', this is {A}: its directory is another",
    ),
    "another replica": (
        opening(to="2.1"),
        f"link with {B} closed: it wanted to reach '2.1', this is {A}: addresses are mixed up",
    ),
    "our own name": (
        opening(identity(A)),
        f"it says that it is {A}, as this replica is: addresses are mixed up, or one of the two runs on",
    ),
    "no member id": (
        opening(identity("1")),
        "an unknown process closed: it calls itself '1', which is no <replica>.<incarnation>",
    ),
    "a long name": (opening(identity("1" * 200 + ".1")), "it calls itself '111"),
    "a name with a line of its own": (opening(identity("1.1\n")), r"it calls itself '1.1\n'"),
    "an older version": (
        ("groupd-raft", 1, "1", "0", os.urandom(32)),
        "it speaks the older format version 1, this release 2",
    ),
    "a newer version": (("groupd-raft", 3, {}), "it speaks the newer format version 3, this release 2"),
    "fields are missing": (opening()[:6], "6 fields where format version 2 has 7"),
    "another protocol": (("hello", 2), "it does not speak this protocol"),
    "a map": ({"magic": "groupd-raft"}, "it does not speak this protocol"),
    "a map as a name": ((*opening()[:4], {}, *opening()[5:]), "it calls itself {}"),
    "a short nonce": ((*opening()[:6], b"short"), "its nonce is not one of 32 bytes"),
}


@pytest.mark.parametrize("case", REFUSED_OPENINGS)
def test_a_wrong_opening_is_refused_by_name_and_not_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    said, expected = REFUSED_OPENINGS[case]

    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A)
        wire = await Wire.open(stage.addresses[A])
        wire.send(said)
        assert await wire.read() is None
        assert expected in caplog.text
        assert stage.ears[A].story == []
        await wire.close()
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes, at most 1024 are allowed"),
        (b"\x00\x00\x00\x01\xc1", "a frame that is not msgpack"),
        (b"\x00\x00\x00\x01\x01", "it does not speak this protocol"),
        (b"\x16\x03\x01\x02\x00\x01", "it speaks TLS, this replica does not"),
        (b"\xff" * 99, "a frame of 4294967295 bytes"),
    ],
)
def test_noise_on_the_socket_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, noise: bytes, expected: str
) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A)
        b = await stage.start(B)
        await stage.connected()
        wire = await Wire.open(stage.addresses[A])
        wire.write(noise)
        assert await wire.read() is None, "closed without an answer"
        assert f"link with an unknown process closed: {expected}" in caplog.text
        assert b.send(Node(A), ("still there",))
        await reached(lambda: stage.ears[A].heard == [("still there",)])
        await wire.close()
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_another_secret_is_refused_with_one_log_line_on_each_side(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both sides call, and each caller sees that the answer is wrong."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A)
        await stage.start(B, secret=b"another secret")
        await reached(lambda: len(caplog.records) == 2)
        await passed(0.6)
        texts = sorted(record.getMessage() for record in caplog.records)
        assert texts[0].startswith(f"partition-3 {A}: link with {B} closed: its proof is wrong")
        assert texts[1].startswith(f"partition-3 {B}: link with {A} closed: its proof is wrong")
        assert len(caplog.records) == 2
        assert [each.connected_ids for each in stage.ears.values()] == [(), ()]
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_a_caller_whose_proof_is_wrong_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A)
        wire = await Wire.call(stage, identity(B), A)
        assert isinstance(await wire.read(), tuple), "the listener's challenge"
        wire.send((b"p" * 32,))
        assert await wire.read() is None
        assert f"link with {B} closed: its proof is wrong: another secret" in caplog.text
        assert stage.ears[A].story == []
        await wire.close()
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_a_handshake_that_was_recorded_opens_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A recorded handshake opens nothing at a listener that remembers its nonce, nor at one that was started
    anew."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A, knows=())
        wire = await Wire.open(stage.addresses[A])
        handshake = Handshake(identity(B), SECRET, A, lambda peer_id, nonce: None)
        said = handshake.opening()
        wire.send(said)
        proof = handshake.step(await wire.read())
        wire.send(proof)
        await reached(lambda: stage.ears[A].story == [f"up {B}"])
        await wire.close()

        again = await Wire.open(stage.addresses[A])
        again.write(framed(said) + framed(proof))
        assert await again.read() is None
        assert f"link with {B} closed: its nonce was used before: a replayed handshake" in caplog.text
        await again.close()

        await stage.transports[A].close()
        await stage.start(A, knows=())
        third = await Wire.open(stage.addresses[A])
        third.write(framed(said) + framed(proof))
        assert isinstance(await third.read(), tuple)
        assert await third.read() is None
        assert f"link with {B} closed: its proof is wrong" in caplog.text
        assert stage.ears[A].story == []
        await third.close()
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_who_is_hung_up_on_again_and_again_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The refusing side's log has the reason; the refused side's log sends the reader there."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A, identity=identity(A, tier_id="other"), knows=())
        await stage.start(B)
        await reached(spoken(f"link with {A} closed: it hangs up on us, again and again", caplog))
        assert f"link with {B} closed: it belongs to tier 'tier', this replica to tier 'other'" in caplog.text
        assert len(caplog.records) == 2
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


# -- members and strangers --------------------------------------------------------------------------


def test_a_replaced_member_is_refused_by_name_and_welcome_if_it_is_a_member_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        a = await stage.start(A, knows=("1.77",), address_of=lambda member: "unix:/nobody/listens/here")
        a.set_members(members((A, "1.93")))
        wire = await Wire.call(stage, identity("1.77"), A)
        assert await wire.read() is None
        assert "link with 1.77 closed: 1.77 has been replaced by 1.93" in caplog.text
        await wire.close()
        a.set_members(members((A, "1.77")))
        wire = await Wire.call(stage, identity("1.77"), A)
        assert await wire.answer()
        await reached(lambda: stage.ears[A].connected_ids == ("1.77",))
        await wire.close()
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_no_member_is_refused_for_good() -> None:
    """A replica that missed an entry may take its leader for a replaced member: the entry that would tell it
    better can only come from that leader."""
    roster = Roster(A)
    roster.set_members(members((A, "1.77", "2.1")))
    assert roster.successor("1.77", 0.0) is None, "a member"
    roster.set_members(members((A, "1.77", "1.93", "2.1")))
    assert roster.successor("1.77", 0.0) is None, "both are, while one takes over from the other"
    assert roster.set_members(members((A, "1.93", "2.1"))) == {"1.77"}
    assert roster.successor("1.55", 100.0) is None, "never seen here"
    assert roster.successor("1.77", 100.0) == "1.93"
    assert roster.successor("1.77", 99.9 + REPLACED_REFUSED_S) == "1.93"
    assert roster.successor("1.77", 100.0 + REPLACED_REFUSED_S) is None
    assert roster.set_members(members((A, "1.93"))) == {"2.1"}
    assert roster.successor("2.1", 200.0) is None, "it left, and nobody has its place"


def test_nobody_calls_who_it_was_before_it_lost_its_directory() -> None:
    """While the replica gets its vote under the new name, both are members at one address."""
    roster = Roster("1.93")
    roster.set_members(members(("1.77", "1.93", "2.1")))
    assert list(roster.peers) == ["2.1"]


def test_what_is_remembered_of_former_members_is_bounded() -> None:
    roster = Roster(A)
    for number in range(1, 10 * FORMER_MAX):
        roster.set_members(members((A, f"1.{number}")))
    last = 10 * FORMER_MAX - 1
    refused = [number for number in range(1, last) if roster.successor(f"1.{number}", 0.0) is not None]
    assert refused == list(range(last - FORMER_MAX, last))


def test_strangers_with_the_secret_are_heard_up_to_a_bound_and_members_always(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A, knows=(B,))
        wires = []
        for number in range(LINKS_MAX):
            wire = await Wire.call(stage, identity(f"{number + 10}.4294967296"), A)
            assert await wire.answer()
            wires.append(wire)
        await reached(lambda: len(stage.ears[A].connected_ids) == LINKS_MAX)
        wires[0].send(("let me in",))
        await reached(lambda: stage.ears[A].heard == [("let me in",)])
        wires.append(await Wire.call(stage, identity("99.4294967296"), A))
        assert await wires[-1].read() is None
        assert f"link with 99.4294967296 closed: it is no member, and {LINKS_MAX} links are" in caplog.text
        wires.append(await Wire.call(stage, identity(B), A))
        assert await wires[-1].answer()
        await reached(lambda: B in stage.ears[A].connected_ids)
        for wire in wires:
            await wire.close()
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_a_caller_that_says_nothing_is_hung_up_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        stage = Stage(tmp_path)
        await stage.start(A, knows=())
        before = time.monotonic()
        wire = await Wire.open(stage.addresses[A])
        assert await wire.read() is None
        assert time.monotonic() - before > 1.9
        assert "an unknown process closed: no proof of identity within 2.0 s" in caplog.text
        await wire.close()
        await stage.close()

    with caplog.at_level(logging.WARNING):
        play(scene)


def test_a_member_that_moved_is_called_where_it_is_now(tmp_path: Path) -> None:
    """The member is on another node now: `set_members` brings the node, and the next call goes there."""

    async def scene() -> None:
        stage = Stage(tmp_path)
        nodes = {0: "unix:/nobody/listens/here", 5: stage.addresses[A]}
        await stage.start(A, knows=())
        b = await stage.start(B, address_of=lambda member: nodes[member.node_id])
        b.set_members((Member(A, 5, True), Member(B, 0, True)))
        await stage.connected()
        await stage.close()

    play(scene)
