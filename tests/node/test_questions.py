"""Who may ask a broker what of the tier: a fixed list of questions, each with the right that it needs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.catalog.headers import parse_header
from actors.ground.acl import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage
from actors.ground.spec import BrokerSettings, Copy, NodeSpec, TierSpec, copies
from actors.metadata.commands import Command, CreateTopics, NewTopic, PlaceGroup, UpdateFeatures, pack
from actors.node.controller_client import RayControllerClient
from actors.node.questions import METHODS, Questions
from actors.protocol.questions import (
    NOT_ALLOWED,
    UNREADABLE,
    Question,
    Told,
    pack_request,
    unpack_answer,
)
from actors.security.gate import ACLS, Gate

ALICE = ClientIdentity("/127.0.0.1", "127.0.0.1:5000", principal="User:alice")
STATUS = Question("broker-1", "status", (), 1_000)
SPEC = TierSpec(
    tier_id="tier",
    secret="",
    data_dir="",
    run_dir="",
    nodes=(NodeSpec(node_id=1, host="127.0.0.1", port=9092),),
    placement=(copies([1]),),
    controllers=copies([1]),
)


async def status() -> dict[str, Any]:
    return {"node_id": 1, "leaders": {0: 1}}


def told(*questions: Question, operation: Operation | None = None) -> Told:
    """What alice is told, who has this operation on the cluster; None: everybody has all."""
    gate = Gate(BrokerSettings(authorizer="none" if operation is None else ACLS))
    if operation is not None:
        acl = Acl(
            *(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, "User:alice", "*"),
            *(operation, Permission.ALLOW),
        )
        gate.take(MetadataImage(acls=(acl,)))
    asked = Questions(SPEC, 1, RayControllerClient(SPEC), gate, {"status": status, "metrics": status})
    frame = pack_request(1, "", questions)[4:]
    header, body_offset = parse_header(frame)
    return unpack_answer(asyncio.run(asked.answer(ALICE, header, frame, body_offset))[4:])


def submit(command: Command) -> Question:
    return Question("controller-0", "submit", (pack(command),), 1_000)


def test_the_broker_tells_of_itself_without_ray() -> None:
    assert told(STATUS, STATUS).answers == (("ok", {"node_id": 1, "leaders": {0: 1}}),) * 2


@pytest.mark.parametrize("operation", [Operation.DESCRIBE, Operation.ALTER], ids=lambda each: each.name)
def test_who_may_describe_the_cluster_may_look(operation: Operation) -> None:
    assert told(STATUS, operation=operation).refused == ""


@pytest.mark.parametrize(
    ("question", "has", "needs"),
    [
        (STATUS, Operation.CREATE, "DESCRIBE"),
        (Question("", "about", (), 1), Operation.CREATE, "DESCRIBE"),
        (Question("partition-0-0", "move_leadership", (None,), 1), Operation.DESCRIBE, "ALTER"),
        (Question("controller-0", "replace_replica", ("partition-0", 0), 1), Operation.DESCRIBE, "ALTER"),
        (submit(PlaceGroup("controller", (), (Copy(0, 1),))), Operation.DESCRIBE, "ALTER"),
        (submit(UpdateFeatures(())), Operation.DESCRIBE, "ALTER"),
        (Question("partition-0-0", "begin_copy", (), 1), Operation.ALTER, "CLUSTER_ACTION"),
        (Question("controller-0", "copy_piece", (1, 0), 1), Operation.ALTER, "CLUSTER_ACTION"),
    ],
    ids=lambda each: each.method if isinstance(each, Question) else None,
)
def test_who_lacks_the_right_is_told_which(question: Question, has: Operation, needs: str) -> None:
    """Nothing of what is asked together is done."""
    assert told(STATUS, question, operation=has) == Told(NOT_ALLOWED, needs)


@pytest.mark.parametrize(
    "question",
    [
        Question("broker-1", "stop", (), 1),
        Question("broker-1", "__init__", (), 1),
        Question("partition-0-0", "restore", (b"",), 1),
        Question("partition-0-0", "submit", (b"",), 1),
        Question("controller-0", "on_leader", (0, 1, 2), 1),
        Question("somebody", "status", (), 1),
        Question("broker-1\n", "status", (), 1),
        Question("", "status", (), 1),
        submit(CreateTopics((NewTopic("orders"),))),
        Question("controller-0", "submit", (b"garbage",), 1),
        Question("controller-0", "submit", (), 1),
    ],
    ids=lambda question: f"{question.actor}.{question.method}".strip(),
)
def test_nothing_else_may_be_asked_by_anybody(question: Question) -> None:
    assert told(question).refused == UNREADABLE


def test_every_question_is_a_method_of_its_actor() -> None:
    from actors.controller.controller import Controller
    from actors.leader.offsets_partition import OffsetsPartition
    from actors.node.broker import Broker

    classes: dict[str, Any] = {"broker": Broker, "controller": Controller, "partition": OffsetsPartition}
    for kind, cls in classes.items():
        assert [name for name in METHODS[kind] if not callable(getattr(cls, name, None))] == []
