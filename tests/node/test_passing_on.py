"""A client gets by a node what a cluster that knows its users would give it, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar, NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.catalog.in_front import Way, is_passed_on, offer, way_of
from actors.ground.acl import Acl, Operation, PatternType, Permission, ResourceType
from actors.ground.identity import TIER, ClientIdentity
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.spec import BrokerSettings
from actors.network.wire import request_frame
from actors.node.passing_on import PassingOn, Rights
from actors.protocol import api_keys
from actors.protocol.errors import UnsupportedRequest
from actors.protocol.header import Header
from actors.security.gate import ACLS, Gate
from actors.upstream import forwarding
from actors.upstream.connecting import connector
from actors.upstream.controller_way import ControllerWay
from actors.upstream.envelope import principal_bytes
from actors.upstream.forwarding import Forwarding
from tests.upstream.fake_controller import FakeController
from tests.upstream.speaking_broker import SpeakingBroker

ALICE = ClientIdentity("/10.0.0.7", "10.0.0.7:5", principal="User:alice")
BOB = ALICE._replace(principal="User:bob")
SEEN, HIDDEN = "seen", "hidden"
REFUSED = b"refused"
ANSWER_S = 5.0
CREATE_DELEGATION_TOKEN, ALTER_REPLICA_LOG_DIRS, DESCRIBE_QUORUM = 38, 34, 55


class TellingBroker(SpeakingBroker):
    """A broker that has two topics, and tells everything to the tier's user."""

    apis: ClassVar[Mapping[int, tuple[str, int, int]]] = {
        **SpeakingBroker.apis,
        api_keys.METADATA: ("metadata", 0, 8),
        api_keys.DESCRIBE_ACLS: ("describe_acls", 0, 1),
        api_keys.END_TXN: ("end_txn", 0, 3),
    }

    def __init__(self) -> None:
        super().__init__(7)
        self.requests: list[Any] = []

    async def _metadata(self, asked: Any) -> dict[str, Any]:
        self.requests.append(asked)
        since_8 = "include_cluster_authorized_operations" in asked
        names = (SEEN, HIDDEN) if asked["topics"] is None else [topic["name"] for topic in asked["topics"]]
        topics = [
            {
                "error_code": ErrorCode.none,
                "name": name,
                "is_internal": False,
                "partitions": [],
                **({"topic_authorized_operations": 0} if since_8 else {}),
            }
            for name in names
        ]
        return {
            "throttle_time": 0,
            "brokers": [],
            "cluster_id": "upstream",
            "controller_id": self.broker_id,
            "topics": topics,
            **({"cluster_authorized_operations": 0} if since_8 else {}),
        }

    async def _describe_acls(self, asked: Any) -> dict[str, Any]:
        self.requests.append(asked)
        return {"throttle_time": 0, "error_code": ErrorCode.none, "error_message": None, "resources": []}


class Place(NamedTuple):
    passing_on: PassingOn
    broker: TellingBroker
    controller: FakeController


def rule(name: str, operation: Operation) -> Acl:
    kind, pattern = ResourceType.TOPIC, PatternType.LITERAL
    return Acl(kind, name, pattern, ALICE.principal, "*", operation, Permission.ALLOW)


def told(story: Callable[[Place], Coroutine[Any, Any, None]], *rules: Acl) -> None:
    gate = Gate(BrokerSettings(authorizer=ACLS))
    topics = tuple(
        TopicImage(bytes(15) + bytes([n]), name, (0,), ()) for n, name in enumerate((SEEN, HIDDEN))
    )
    gate.take(MetadataImage(version=1, topics=topics, acls=(rule(SEEN, Operation.DESCRIBE), *rules)))

    async def prepared() -> None:
        async with TellingBroker().listening() as broker, FakeController(1, []) as controller:
            brokers = Forwarding(connector("story"), lambda: [broker.address])
            controllers = ControllerWay(connector("story"), [controller.address], "story")
            passing_on = PassingOn(brokers, controllers, Rights(gate, lambda *_: REFUSED))
            await story(Place(passing_on, broker, controller))
            await passing_on.close()

    asyncio.run(prepared())


def metadata(names: tuple[str, ...] | None, *, creates: bool = False) -> bytes:
    fields = {
        "topics": None if names is None else [{"name": name} for name in names],
        "allow_auto_topic_creation": creates,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return request_frame("metadata", 8, 5, "client", fields)[4:]


def topics_of(answer: bytes | None) -> dict[str, ErrorCode]:
    assert answer is not None
    decoded = codec.decode_response(Header(api_keys.METADATA, 8, 5), answer)
    return {topic.name: topic.error_code for topic in decoded.topics}


def test_topics_that_may_not_be_seen_are_not_told_of() -> None:
    async def story(place: Place) -> None:
        failed = ErrorCode.topic_authorization_failed
        assert topics_of(await place.passing_on.answer(ALICE, metadata(None))) == {SEEN: ErrorCode.none}
        assert topics_of(await place.passing_on.answer(BOB, metadata(None))) == {}
        answer = await place.passing_on.answer(ALICE, metadata((SEEN, HIDDEN)))
        assert topics_of(answer) == {SEEN: ErrorCode.none, HIDDEN: failed}
        assert [topic["name"] for topic in place.broker.requests[-1]["topics"]] == [SEEN]

    told(story)


def test_the_tier_itself_is_told_everything() -> None:
    async def story(place: Place) -> None:
        assert set(topics_of(await place.passing_on.answer(TIER, metadata(None)))) == {SEEN, HIDDEN}

    told(story)


def test_what_a_client_may_not_ask_reaches_nobody() -> None:
    async def story(place: Place) -> None:
        fields = {"resource_type_filter": 1, "operation": 1, "permission_type": 1, "pattern_type_filter": 1}
        nulls = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
        frame = request_frame("describe_acls", 1, 5, "client", {**fields, **nulls})[4:]
        answer = await place.passing_on.answer(ALICE, frame)
        assert answer is not None
        decoded = codec.decode_response(Header(api_keys.DESCRIBE_ACLS, 1, 5), answer)
        assert decoded.error_code == ErrorCode.cluster_authorization_failed
        assert place.broker.requests == []

    told(story)


CREATION = request_frame(
    "create_topics",
    5,
    9,
    "client",
    {
        "topics": [
            {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        ],
        "timeout": 1_000,
        "validate_only": False,
    },
)[4:]


def test_what_controllers_carry_out_goes_there_as_the_clients() -> None:
    """Another controller may have become the active one meanwhile."""

    async def story(place: Place) -> None:
        answers = [
            {"error_code": ErrorCode.not_controller, "response_data": None},
            {"error_code": ErrorCode.none, "response_data": CREATION[4:8] + b"created"},
        ]
        place.controller.answers["envelope"] = lambda fields: answers.pop(0)
        assert await place.passing_on.answer(ALICE, CREATION) == b"\0\0\0\x0b" + CREATION[4:8] + b"created"
        sent = [fields for api, fields in place.controller.asked if api == "envelope"]
        assert [fields["request_data"] for fields in sent] == [CREATION] * 2
        assert sent[0]["request_principal"] == principal_bytes("User:alice")
        assert sent[0]["client_host_address"] == b"\x0a\0\0\x07"

    told(story)


def test_clients_are_told_at_the_same_time_that_no_controller_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None of them waits until the ones before it have looked for a controller."""
    monkeypatch.setattr(forwarding, "ANSWER_TIMEOUT_S", 0.3)

    async def story(place: Place) -> None:
        place.controller.is_mute = True
        async with asyncio.timeout(ANSWER_S):
            answers = await asyncio.gather(
                *(place.passing_on.answer(ALICE, CREATION) for _ in range(forwarding.FORWARDED_MAX + 1))
            )
        assert set(answers) == {None}

    told(story)


def test_the_controller_of_another_cluster_gets_nothing() -> None:
    async def story() -> None:
        async with FakeController(1, []) as controller:
            way = ControllerWay(connector("story"), [controller.address], "story", "mine")
            assert await way.forward(ALICE, CREATION, may_repeat=True) is None
            assert "envelope" not in [api for api, _ in controller.asked]
            await way.close()

    asyncio.run(story())


def test_an_envelope_that_is_refused_has_no_answer() -> None:
    """The tier's own user lacks a right: that is not the client's to know."""

    async def story(place: Place) -> None:
        refused = {"error_code": ErrorCode.cluster_authorization_failed, "response_data": None}
        place.controller.answers["envelope"] = lambda fields: refused
        assert await place.passing_on.answer(ALICE, CREATION) is None

    told(story)


@pytest.mark.parametrize(
    ("version", "names", "told_of"),
    [
        (0, (SEEN,), {SEEN}),
        (1, (SEEN,), {SEEN}),
        (0, (HIDDEN,), {HIDDEN}),
        (0, (), {SEEN}),
        (1, None, {SEEN}),
    ],
)
def test_a_client_of_old_has_no_topics_created_as_the_tier(
    version: int, names: tuple[str, ...] | None, told_of: set[str]
) -> None:
    """Metadata of that age cannot say that nothing is to be created."""

    async def story(place: Place) -> None:
        topics = None if names is None else [{"name": name} for name in names]
        frame = request_frame("metadata", version, 5, "client", {"topics": topics})[4:]
        answer = await place.passing_on.answer(ALICE, frame)
        assert answer is not None
        decoded = codec.decode_response(Header(api_keys.METADATA, version, 5), answer)
        assert {topic.name for topic in decoded.topics} == told_of
        assert [asked["allow_auto_topic_creation"] for asked in place.broker.requests] == [False]

    told(story)


@pytest.mark.parametrize("may_create", [True, False])
def test_topics_are_created_as_the_client(may_create: bool) -> None:
    async def story(place: Place) -> None:
        created = {"error_code": ErrorCode.none, "response_data": bytes(4)}
        place.controller.answers["envelope"] = lambda fields: created
        answer = await place.passing_on.answer(ALICE, metadata(("new",), creates=True))
        error = ErrorCode.none if may_create else ErrorCode.topic_authorization_failed
        assert topics_of(answer) == {"new": error}
        sent = [fields for api, fields in place.controller.asked if api == "envelope"]
        assert len(sent) == may_create
        assert not any(asked["allow_auto_topic_creation"] for asked in place.broker.requests)

    rules = [rule("new", Operation.CREATE)] if may_create else []
    told(story, rule("new", Operation.DESCRIBE), *rules)


def test_what_a_broker_coordinates_is_refused_as_by_another_broker() -> None:
    async def story(place: Place) -> None:
        fields = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "committed": True}
        assert await place.passing_on.answer(ALICE, request_frame("end_txn", 1, 5, "", fields)[4:]) == REFUSED
        fields = {"transactional_id": "t", "transaction_timeout": 1_000}
        frame = request_frame("init_producer_id", 1, 5, "", fields)[4:]
        assert await place.passing_on.answer(ALICE, frame) == REFUSED

    told(story)


@pytest.mark.parametrize("key", [CREATE_DELEGATION_TOKEN, ALTER_REPLICA_LOG_DIRS])
def test_what_cannot_be_done_as_the_client_is_refused(key: int) -> None:
    async def story(place: Place) -> None:
        with pytest.raises(UnsupportedRequest):
            await place.passing_on.answer(ALICE, key.to_bytes(2, "big") + bytes(8))

    assert is_passed_on(key), "a cluster without users gets it"
    assert way_of(key) is Way.NOWHERE
    told(story)


def test_what_is_told_is_what_can_be_done() -> None:
    theirs = dict.fromkeys((api_keys.METADATA, DESCRIBE_QUORUM, CREATE_DELEGATION_TOKEN), (0, 99))
    rows = {key: (low, high) for key, low, high in offer(theirs, (), {}, 1, knows_users=True).rows}
    assert rows[api_keys.METADATA] == (0, 13), "it is looked into"
    assert rows[DESCRIBE_QUORUM] == (0, 99), "the envelope is not"
    assert CREATE_DELEGATION_TOKEN not in rows
