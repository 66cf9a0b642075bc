"""What a node does with requests as one of a Kafka cluster's brokers, in front of a broker that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.ground.identity import ClientIdentity
from actors.ground.spec import Copy, NodeSpec, TierSpec, UpstreamSpec
from actors.network.early import Again, Keep
from actors.network.wire import request_frame
from actors.node.passing_on import Rights
from actors.node.upstream import NOT_HERE, UpstreamNode
from actors.protocol.api_keys import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    LIST_TRANSACTIONS,
    METADATA,
)
from actors.protocol.errors import UnsupportedRequest
from actors.protocol.header import Header
from actors.security.gate import Gate
from actors.upstream.image import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.upstream.speaking_broker import SpeakingBroker, question

BROKER_ID = 7
SERVICE: Any = None
"""Who would serve a connection that is kept."""


class TellingBroker(SpeakingBroker):
    """A broker that also tells of metadata, and of configs that there are none."""

    apis: ClassVar[Mapping[int, tuple[str, int, int]]] = {
        **SpeakingBroker.apis,
        METADATA: ("metadata", 0, 1),
        DESCRIBE_CONFIGS: ("describe_configs", 0, 1),
    }

    async def _metadata(self, asked: Any) -> dict[str, Any]:
        self.asked += 1
        return {"brokers": [], "controller_id": self.broker_id, "topics": []}

    async def _describe_configs(self, asked: Any) -> dict[str, Any]:
        self.asked += 1
        return {"throttle_time": 0, "results": []}


CLIENT = ClientIdentity("/127.0.0.1", "127.0.0.1:5")


class Early:
    """A connection that has yet to show what it is, as far as the node looks at it."""

    def __init__(self) -> None:
        self.session: Any = None
        self.identity = CLIENT


def node_in_front_of(broker: SpeakingBroker, directory: Path) -> UpstreamNode:
    spec = TierSpec(
        tier_id="tier",
        secret="secret",
        data_dir=str(directory),
        run_dir="",
        nodes=(NodeSpec(node_id=1, host="127.0.0.1", port=1),),
        placement=((Copy(0, 1),),),
        controllers=(Copy(0, 1),),
        upstream=UpstreamSpec("upstream", (broker.address,), (broker.address,), 1_000),
    )
    return UpstreamNode(spec, spec.nodes[0], lambda image: None, Rights(Gate(), lambda *request: b""))


def told(story: Callable[[UpstreamNode, TellingBroker], Coroutine[Any, Any, None]], directory: Path) -> None:
    async def prepared() -> None:
        async with TellingBroker(BROKER_ID).listening() as broker:
            node = node_in_front_of(broker, directory)
            await story(node, broker)
            await node.close()

    asyncio.run(prepared())


def metadata() -> bytes:
    return request_frame("metadata", 1, 5, "client", {"topics": None})[4:]


def configs(kind: int, name: str) -> bytes:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    fields = {"resources": [resource], "include_synonyms": False}
    return request_frame("describe_configs", 1, 6, "client", fields)[4:]


HEARTBEAT = request_frame("heartbeat", 0, 1, "", {"group_id": "g", "generation_id": 1, "member_id": "m"})[4:]


def test_a_new_connection_is_not_kept_because_it_asks_for_metadata(tmp_path: Path) -> None:
    """Most clients ask for metadata before they show whose groups they want."""

    async def story(node: UpstreamNode, broker: TellingBroker) -> None:
        early: Any = Early()
        decided = node.decide(early, metadata(), SERVICE)
        assert isinstance(decided, Again)
        woken = asyncio.Event()
        decided.wake_with(woken.set)
        await woken.wait()
        answer = node.decide(early, metadata(), SERVICE)
        assert isinstance(answer, bytes)
        assert codec.decode_response(Header(METADATA, 1, 5), answer).controller_id == BROKER_ID
        assert early.session is None, "the next request is another one"

    told(story, tmp_path)


def test_without_an_answer_the_connection_is_kept_to_be_closed(tmp_path: Path) -> None:
    async def story(node: UpstreamNode, broker: TellingBroker) -> None:
        early: Any = Early()
        await broker.hang_up()
        decided = node.decide(early, b"\0\3\x7f\xff" + bytes(20), SERVICE)
        assert isinstance(decided, Again)
        woken = asyncio.Event()
        decided.wake_with(woken.set)
        await woken.wait()
        assert isinstance(node.decide(early, metadata(), SERVICE), Keep)

    told(story, tmp_path)


def test_a_client_whose_session_ends_is_kept_by_who_sees_to_that(tmp_path: Path) -> None:
    async def story(node: UpstreamNode, broker: TellingBroker) -> None:
        early: Any = Early()
        early.identity = CLIENT._replace(session_expires_ms=1)
        assert isinstance(node.decide(early, metadata(), SERVICE), Keep)
        assert broker.asked == 0

    told(story, tmp_path)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [(question(1), Keep), (HEARTBEAT, type(None))],
    ids=["cluster", "group"],
)
def test_other_connections_are_decided_by_what_they_ask(frame: bytes, expected: type, tmp_path: Path) -> None:
    async def story(node: UpstreamNode, broker: TellingBroker) -> None:
        early: Any = Early()
        assert isinstance(node.decide(early, frame, SERVICE), expected)

    told(story, tmp_path)


def test_what_is_of_the_cluster_is_passed_on_and_the_rest_is_not(tmp_path: Path) -> None:
    async def story(node: UpstreamNode, broker: TellingBroker) -> None:
        answer = await node.serve(CLIENT, question(9))
        assert codec.decode_response(Header(DESCRIBE_CLUSTER, 1, 9), answer).controller_id == BROKER_ID
        versions = request_frame("api_versions", 0, 1, "", {})[4:]
        assert int.from_bytes(versions[:2], "big") == API_VERSIONS
        assert await node.serve(CLIENT, versions) is NOT_HERE
        assert broker.asked == 1

    told(story, tmp_path)


@pytest.mark.parametrize("head", [b"\0\3\0\x02", b"\0\3\xff\xff", b"\0\x3e\0\0"], ids=lambda head: head.hex())
def test_what_no_broker_offers_is_not_passed_on(head: bytes, tmp_path: Path) -> None:
    """A broker would hang up, and with it go the connections of everybody's requests."""

    async def story(node: UpstreamNode, broker: TellingBroker) -> None:
        assert await node.serve(CLIENT, metadata()) is not None
        with pytest.raises(UnsupportedRequest):
            await node.serve(CLIENT, head + bytes(20))
        assert broker.asked == 1

    told(story, tmp_path)


@pytest.mark.parametrize(
    ("frame", "asked"),
    [
        (configs(BROKER_RESOURCE, "1001"), 0),
        (configs(BROKER_RESOURCE, "1"), 1),
        (configs(TOPIC_RESOURCE, "t"), 1),
    ],
    ids=["its own", "another broker's", "a topic's"],
)
def test_configs_are_told_by_whom_they_concern(frame: bytes, asked: int, tmp_path: Path) -> None:
    async def story(node: UpstreamNode, broker: TellingBroker) -> None:
        answer = await node.serve(CLIENT, frame)
        assert (answer is NOT_HERE) == (asked == 0)
        assert broker.asked == asked

    told(story, tmp_path)


def test_it_lists_no_transactions(tmp_path: Path) -> None:
    async def story(node: UpstreamNode, broker: TellingBroker) -> None:
        fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": []}
        answer = await node.serve(CLIENT, request_frame("list_transactions", 0, 3, "", fields)[4:])
        assert codec.decode_response(Header(LIST_TRANSACTIONS, 0, 3), answer).error_code == ErrorCode.none
        assert broker.asked == 0

    told(story, tmp_path)


def test_status_says_that_it_is_no_broker_yet(tmp_path: Path) -> None:
    async def story(node: UpstreamNode, broker: TellingBroker) -> None:
        status = node.status()
        assert (status["broker_id"], status["state"], status["problem"]) == (1_001, "not registered", None)
        assert node.own_version == -1
        screen: Any = None
        assert (
            node.answer_in_place("PLAINTEXT", {}, False, screen, (Header(METADATA, 1, 1), metadata(), 0))
            is None
        )

    told(story, tmp_path)
