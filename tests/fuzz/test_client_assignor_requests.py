"""Requests of members that assign, at the real actors (A4, A7, A9, A10): all is right but one thing. What
comes is the documented error, or the connection is closed with one line in the log; and the group goes on."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from actors.network.connection import Connection
from actors.network.wire import frame_of, from_plain, parsed
from actors.protocol.client_assignor_messages import INVALID_ASSIGNMENT
from actors.protocol.java_hash import partition_for
from bench.client_assignors.wire import HEARTBEAT, INSTALL, PREPARE, class_with_tags
from bench.ground.steady_heartbeat import steady_heartbeat
from tests.fuzz.distortions import NULL, Distortion, distorted, distortions
from tests.fuzz.mutations import framed
from tests.fuzz.stack import PARTITIONS, Stack
from tests.fuzz.stories import frames_of, play
from tests.protocol.random_entities import request_head

TOPIC: Final = "t0"
LIMIT_S: Final = 10
"""How long who computes may take."""
JOIN_S: Final = 6
"""Longer than a new group waits for further members."""
GROUPS = [f"g{n}" for n in range(2_000) if partition_for(f"g{n}", PARTITIONS) == 0]
ASSIGNOR: Mapping[str, Any] = {
    "name": "sticky",
    "minimum_version": 0,
    "maximum_version": 0,
    "reason": 0,
    "metadata_version": 0,
    "metadata_bytes": b"\0\0\0\1",
}
CLOSED: Final = "closed"
FINE, UNKNOWN = 0, int(ErrorCode.unknown_member_id)
ELSEWHERE: Final = {
    int(ErrorCode.not_coordinator),
    int(ErrorCode.invalid_group_id),
    int(ErrorCode.group_id_not_found),
}
STALE: Final = int(ErrorCode.stale_member_epoch)
INVALID, UNSUPPORTED = int(ErrorCode.invalid_request), int(ErrorCode.unsupported_assignor)
OUTCOMES: Mapping[tuple[str, ...], set[int]] = {
    ("group_id",): ELSEWHERE,
    ("member_id",): {UNKNOWN},
    ("member_epoch",): {STALE, FINE},
    ("group_epoch",): {INVALID_ASSIGNMENT},
    ("error",): {FINE},
    ("error_message",): {FINE},
    ("members",): {INVALID_ASSIGNMENT, FINE},
    ("members", "member_id"): {INVALID_ASSIGNMENT},
    ("members", "error"): {FINE},
    ("members", "topic_partitions"): {INVALID_ASSIGNMENT, FINE},
    ("members", "topic_partitions", "topic_id"): {INVALID_ASSIGNMENT},
    ("members", "topic_partitions", "partitions"): {INVALID_ASSIGNMENT, FINE},
    ("members", "metadata_version"): {FINE},
    ("members", "metadata_bytes"): {FINE},
    ("client_assignors",): {INVALID, FINE},
    ("client_assignors", "name"): {INVALID, FINE},
    ("client_assignors", "minimum_version"): {INVALID, FINE},
    ("client_assignors", "maximum_version"): {INVALID, FINE},
    ("client_assignors", "reason"): {FINE},
    ("client_assignors", "metadata_version"): {INVALID, FINE},
    ("client_assignors", "metadata_bytes"): {FINE},
}
"""What may come of a request with one field that is wrong, by the field's path: an error, or 0 if it is right
all the same, as an extreme number may be that only members understand. What
lies about its bytes closes the connection."""


class Member:
    """The one member of a group, on a connection to its leader."""

    def __init__(self, stack: Stack, group_id: str, member_id: str = "m") -> None:
        self.stack = stack
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0
        self.told: dict[str, Any] = {}
        self.connect()

    def connect(self) -> None:
        self.connection, self.socket = self.stack.connect(0, ("groupd-fuzz", "1"))

    @property
    def who(self) -> dict[str, Any]:
        return {"group_id": self.group_id, "member_id": self.member_id, "member_epoch": self.epoch}

    async def ask(self, api: tuple[str, int], fields: Mapping[str, Any]) -> dict[str, Any]:
        """Ask on the connection, which has to stay open."""
        self.connection.data_received(frame_of(class_with_tags(*api, "request"), 1, "c", dict(fields)))
        outcome = await self._outcome(api)
        assert isinstance(outcome, dict), outcome
        return outcome

    async def _outcome(self, api: tuple[str, int]) -> Any:
        await self.stack.settle()
        frames = frames_of(self.socket)
        for _ in range(JOIN_S):
            if frames or self.socket.closed:
                break
            await self.stack.leap(1.0, 1)
            frames = frames_of(self.socket)
        if self.socket.closed:
            assert not frames
            return CLOSED
        [frame] = frames
        return parsed(class_with_tags(*api, "response"), frame)[1]

    async def ask_wrongly(self, api: tuple[str, int], fields: Mapping[str, Any], wrong: Distortion) -> Any:
        """Ask with one field made wrong. Returns the answer, or that the connection was closed."""
        cls = class_with_tags(*api, "request")
        chance = random.Random(str(wrong))
        _, body = distorted(chance, from_plain(cls, dict(fields)), wrong, flexible=True)
        self.connection.data_received(framed(request_head(cls.__api_key__, api[1], 1) + body))
        outcome = await self._outcome(api)
        if outcome is CLOSED:
            self.connect()
        return outcome

    def heartbeat(self, **said: Any) -> dict[str, Any]:
        joins = {"rebalance_timeout": 60_000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}
        fields = steady_heartbeat(self.group_id, self.member_id, self.epoch)
        return {**fields, **(joins if self.epoch == 0 else {}), "client_assignors": [ASSIGNOR], **said}

    async def beat(self, **said: Any) -> dict[str, Any]:
        self.told = await self.ask(HEARTBEAT, self.heartbeat(**said))
        assert self.told["error_code"] == 0, self.told
        self.epoch = self.told["member_epoch"]
        return self.told

    async def is_asked(self) -> bool:
        return bool((await self.beat())["should_compute_assignment"])

    async def install_fields(self) -> dict[str, Any]:
        """Ask for the group. Returns the fields of a right installation."""
        prepared = await self.ask(PREPARE, self.who)
        assert prepared["error_code"] == 0, prepared
        return {**self.who, "group_epoch": prepared["group_epoch"], "error": 0, "error_message": None} | {
            "members": [
                {
                    "member_id": self.member_id,
                    "error": 0,
                    "topic_partitions": [
                        {"topic_id": each["topic_id"], "partitions": list(range(each["partition_count"]))}
                        for each in prepared["topics"]
                    ],
                    "metadata_version": 1,
                    "metadata_bytes": b"yours",
                }
            ]
        }


async def asked_member(stack: Stack, group_id: str) -> Member:
    """Return the only member of a new group, which is asked to compute."""
    member = Member(stack, group_id)
    await member.beat()
    assert await member.is_asked(), member.told
    return member


async def topic(stack: Stack) -> None:
    wanted = {"name": TOPIC, "num_partitions": 3, "replication_factor": 1, "assignments": (), "configs": ()}
    connection, socket = stack.connect(-1)
    fields = {"topics": [wanted], "timeout": 5_000, "validate_only": False}
    connection.data_received(frame_of(class_with_tags("create_topics", 5, "request"), 1, "c", fields))
    await stack.leap(2.0, 8)
    assert frames_of(socket)
    assert stack.topic_ids([TOPIC])


@contextmanager
def logged() -> Iterator[list[str]]:
    """Yield the warnings that connections log, and what is worse, as they come: an actor's log is its own."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(Connection.__module__)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def wrongs(api: tuple[str, int]) -> Iterator[Distortion]:
    """Every field of ours made wrong in each way; those of Kafka's heartbeat are others' tests."""
    for wrong in distortions(class_with_tags(*api, "request")):
        if api is not HEARTBEAT or wrong.path[0] == "client_assignors":
            yield wrong


@pytest.mark.parametrize("api", [PREPARE, INSTALL, HEARTBEAT], ids=lambda api: api[0])
def test_one_thing_wrong_is_the_documented_error_or_closes_the_connection(
    api: tuple[str, int],
) -> None:
    async def story(stack: Stack) -> None:
        await topic(stack)
        for group_id, wrong in zip(GROUPS, wrongs(api), strict=False):
            member = await asked_member(stack, group_id)
            await play_wrong(member, api, wrong)
            await comes_to_rest(member)

    play(story)


async def play_wrong(member: Member, api: tuple[str, int], wrong: Distortion) -> None:
    fields = {PREPARE: member.who, HEARTBEAT: member.heartbeat()}
    right = await member.install_fields() if api is INSTALL else fields[api]
    with logged() as lines:
        outcome = await member.ask_wrongly(api, right, wrong)
        await member.stack.settle()
    if outcome is CLOSED:
        assert len(lines) == 1, (wrong, lines)
        assert wrong.how in (NULL, "too long", "often"), wrong
    else:
        assert not lines, (wrong, lines)
        assert outcome["error_code"] in OUTCOMES[wrong.path], (wrong, outcome)
        if not outcome["error_code"]:
            member.epoch = outcome.get("member_epoch", member.epoch)


async def comes_to_rest(member: Member) -> None:
    """Have the member go on as it should, until it has everything and nobody is to compute."""
    for _ in itertools.repeat(None, 4):
        if await member.is_asked():
            answer = await member.ask(INSTALL, await member.install_fields())
            assert answer["error_code"] == 0, answer
        elif member.told["assignment"] is not None:
            await member.beat(topic_partitions=member.told["assignment"]["topic_partitions"])
    assert not member.told["should_compute_assignment"]
    assert member.epoch > 1


def test_who_was_not_asked_or_is_late_or_sends_it_twice_is_refused() -> None:
    async def story(stack: Stack) -> None:
        await topic(stack)
        asked = await asked_member(stack, GROUPS[0])
        result = await asked.install_fields()
        other = Member(stack, asked.group_id, "n")
        await other.beat()
        unasked = await other.ask(INSTALL, {**result, **other.who})
        assert unasked["error_code"] == UNKNOWN, "it was not asked"
        assert (await asked.ask(INSTALL, result))["error_code"] == FINE, "though the group has gone on"
        assert (await asked.ask(INSTALL, result))["error_code"] == UNKNOWN, "it comes once"
        assert await other.is_asked(), "the next computation begins at once"
        early = {**result, **other.who}
        assert (await other.ask(INSTALL, early))["error_code"] == INVALID_ASSIGNMENT, "nothing was handed out"
        assert await asked.is_asked(), "the other one has failed"
        late = await asked.install_fields()
        await stack.leap(LIMIT_S + 1.0, 11)
        assert (await asked.ask(INSTALL, late))["error_code"] == UNKNOWN, "its time is over"
        await comes_to_rest(other)

    play(story)
