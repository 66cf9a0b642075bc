"""Which topics a client may add to its transaction (W10, W51)."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.acl import Operation, ResourceType
from actors.ground.topic_names import INTERNAL_TOPICS
from actors.protocol.transaction_messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TransactionPartitions,
    error_of_each,
)
from actors.security.transaction_checks import add_partitions
from tests.coordinator.driver import image_of
from tests.security.test_authorizer import WRITE, access, allow

BY_CLIENT, BY_BROKER = 3, 4
"""Versions of AddPartitionsToTxn."""


@pytest.mark.parametrize("internal", INTERNAL_TOPICS)
def test_rights_to_an_internal_topic_add_it_to_no_clients_transaction(internal: str) -> None:
    """W51: beside a topic that the client may not write either. It was told UNKNOWN_TOPIC_OR_PARTITION."""
    rights = access(
        allow("tx", WRITE, resource_type=ResourceType.TRANSACTIONAL_ID),
        allow("mine", WRITE),
        allow(internal, WRITE),
    )
    topics = tuple((name, (0,)) for name in (internal, "hidden", "mine", "gone"))
    asked = AddPartitionsToTxnRequest((TransactionPartitions("tx", 7, 0, topics),))
    screened = add_partitions(rights, image_of(mine=1, hidden=1), BY_CLIENT, asked)
    assert screened.finish is not None
    answer = screened.finish(None)
    assert isinstance(answer, AddPartitionsToTxnResponse)
    assert dict(error_of_each(result.topics for result in answer.results)) == {
        (internal, 0): ErrorCode.topic_authorization_failed,
        ("hidden", 0): ErrorCode.topic_authorization_failed,
        ("mine", 0): ErrorCode.operation_not_attempted,
        ("gone", 0): ErrorCode.topic_authorization_failed,
    }


@pytest.mark.parametrize("internal", INTERNAL_TOPICS)
def test_a_broker_may_add_an_internal_topic(internal: str) -> None:
    """W51: rights to the cluster are enough."""
    rights = access(
        allow("kafka-cluster", Operation.CLUSTER_ACTION, resource_type=ResourceType.CLUSTER),
    )
    asked = AddPartitionsToTxnRequest((TransactionPartitions("tx", 7, 0, ((internal, (0,)),)),))
    assert add_partitions(rights, image_of(), BY_BROKER, asked).body == asked
