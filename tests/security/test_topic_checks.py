"""What a client is told of topics that are not known here when it asks (W10): in front of a Kafka cluster its
brokers know of them first."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.catalog.screening import screen_entity
from actors.ground.acl import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage
from actors.ground.spec import BrokerSettings
from actors.protocol.api_keys import DESCRIBE_TOPIC_PARTITIONS, FIND_COORDINATOR, METADATA
from actors.protocol.header import Header
from actors.security.gate import ACLS, Gate
from actors.security.screening import Screened

ALICE = ClientIdentity("/10.0.0.7", "10.0.0.7:5", principal="User:alice")
SEEN, HIDDEN = "seen", "hidden"
SEEN_ID, HIDDEN_ID, GONE_ID = (uuid.UUID(int=number) for number in (11, 12, 13))
FAILED = ErrorCode.topic_authorization_failed
SHARE = 2


def allow(name: str, operation: Operation, kind: ResourceType = ResourceType.TOPIC) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, ALICE.principal, "*", operation, Permission.ALLOW)


def screened(header: Header, entity: Any, *rules: Acl) -> Screened:
    gate = Gate(BrokerSettings(authorizer=ACLS))
    gate.take(MetadataImage(version=1, acls=(allow(SEEN, Operation.DESCRIBE), *rules)))
    return screen_entity(gate, ALICE, header, entity)


def _topic(header: Header, kind: str, name: str | None, topic_id: uuid.UUID, error: ErrorCode) -> Any:
    return codec.build(
        codec.nested(header.api_key, header.api_version, kind),
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=0,
    )


@pytest.mark.parametrize("version", [12, 13])
def test_the_name_of_a_hidden_topic_is_not_told_by_its_id(version: int) -> None:
    header = Header(METADATA, version, 1)
    asked_class = codec.nested(METADATA, version, "MetadataRequestTopic", "request")
    ids = (SEEN_ID, HIDDEN_ID, GONE_ID)
    asked = codec.build(
        codec.request_class(METADATA, version),
        topics=tuple(codec.build(asked_class, topic_id=each, name=None) for each in ids),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    body, finish = screened(header, asked)
    assert body == asked, "nobody here knows these ids"
    assert finish is not None
    none, unknown = ErrorCode.none, ErrorCode.unknown_topic_id
    kind = "MetadataResponseTopic"
    topics = (
        _topic(header, kind, SEEN, SEEN_ID, none),
        _topic(header, kind, HIDDEN, HIDDEN_ID, none),
        _topic(header, kind, None, GONE_ID, unknown),
    )
    served = codec.build(
        codec.response_class(METADATA, version),
        topics=topics,
        brokers=(),
        cluster_id=None,
        controller_id=1,
        error_code=none,
    )
    answered = {each.topic_id: (each.error_code, each.name) for each in finish(served).topics}
    assert answered == {SEEN_ID: (none, SEEN), HIDDEN_ID: (FAILED, None), GONE_ID: (unknown, None)}


def test_hidden_topics_are_left_out_of_all() -> None:
    header = Header(DESCRIBE_TOPIC_PARTITIONS, 0, 1)
    asked = codec.build(codec.request_class(DESCRIBE_TOPIC_PARTITIONS, 0), topics=(), cursor=None)
    body, finish = screened(header, asked)
    assert body == asked, "no topic is known here"
    assert finish is not None
    kind = "DescribeTopicPartitionsResponseTopic"
    topics = tuple(
        _topic(header, kind, name, topic_id, ErrorCode.none)
        for name, topic_id in ((SEEN, SEEN_ID), (HIDDEN, HIDDEN_ID))
    )
    served = codec.build(codec.response_class(DESCRIBE_TOPIC_PARTITIONS, 0), topics=topics, next_cursor=None)
    assert [each.name for each in finish(served).topics] == [SEEN]


@pytest.mark.parametrize("may_act_as_broker", [True, False])
def test_only_brokers_ask_for_coordinators_of_share_groups_states(may_act_as_broker: bool) -> None:
    """Whoever passes it on may act as one, and would have the topic of these states made."""
    header = Header(FIND_COORDINATOR, 6, 1)
    asked = codec.build(codec.request_class(FIND_COORDINATOR, 6), key_type=SHARE, coordinator_keys=("g:t:0",))
    rule = allow(CLUSTER_NAME, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    body, finish = screened(header, asked, *([rule] if may_act_as_broker else []))
    if may_act_as_broker:
        assert body == asked
        return
    assert body is None
    assert finish is not None
    (coordinator,) = finish(None).coordinators
    assert coordinator.error_code == ErrorCode.cluster_authorization_failed


def test_who_asks_for_them_too_early_is_told_that_as_by_kafka() -> None:
    asked = codec.build(codec.request_class(FIND_COORDINATOR, 5), key_type=SHARE, coordinator_keys=("g:t:0",))
    assert screened(Header(FIND_COORDINATOR, 5, 1), asked) == Screened(asked)
