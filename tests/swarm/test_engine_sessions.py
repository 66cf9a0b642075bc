"""How long KIP-848 sessions last, as the broker tells it, and what is said when it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gevent
import pytest
from kio.schema.errors import ErrorCode

from actors.catalog import codec
from actors.protocol.api_keys import DESCRIBE_CONFIGS
from bench.member.assigning import CLASSIC_RANGE
from bench.swarm.load.sessions import INTERVAL, NAME, Session, consumer_session
from bench.swarm.planning.plan import CONSUMER, MemberPlan, Plan
from bench.swarm.wire.coordinators import Bootstrap
from cluster.groups.properties import properties
from tests.swarm.broker import ScriptedBroker

OFFERS = ((DESCRIBE_CONFIGS, 1, 4),)


def configs(value: str, error: ErrorCode = ErrorCode.none) -> Callable[[Any], Any]:
    """A broker's answer: a group's session time-out, behind something that was not asked for."""

    def answer(request: Any) -> Any:
        (asked,) = request.resources
        rows = {INTERVAL: "4000", NAME: value}
        row_class = codec.nested(DESCRIBE_CONFIGS, 4, "DescribeConfigsResourceResult")
        result = codec.build(
            codec.nested(DESCRIBE_CONFIGS, 4, "DescribeConfigsResult"),
            error_code=error,
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=tuple(
                codec.build(
                    row_class,
                    name=name,
                    value=row,
                    read_only=False,
                    config_source=5,
                    is_sensitive=False,
                    synonyms=(),
                    config_type=3,
                    documentation=None,
                )
                for name, row in rows.items()
                if row and not error
            ),
        )
        return codec.build(codec.response_class(DESCRIBE_CONFIGS, 4), results=(result,))

    return answer


def told(broker: ScriptedBroker, protocol: str = CONSUMER) -> Session:
    members = (MemberPlan("g/0", "g", protocol, ("t",)),)
    bootstrap = Bootstrap(properties(broker.bootstrap, None), "test")
    try:
        return consumer_session(bootstrap.connection(), Plan("test", 1, 5.0, (), members, ()))
    finally:
        bootstrap.close()
        gevent.sleep(0)  # so that gevent closes what was shut down


def test_a_broker_is_asked_for_one_of_the_plans_groups() -> None:
    with ScriptedBroker(configs("60000"), OFFERS) as broker:
        assert told(broker) == Session(60_000, interval_ms=4_000)
        ((asked,),) = (request.resources for request in broker.requests)
    assert (asked.resource_type, asked.resource_name, asked.configuration_keys) == (32, "g", (NAME, INTERVAL))


def test_nobody_is_asked_for_a_plan_without_such_members() -> None:
    with ScriptedBroker(configs("60000"), OFFERS) as broker:
        assert told(broker, CLASSIC_RANGE) == Session()
        assert broker.requests == []


@pytest.mark.parametrize(
    ("answer", "offers", "why"),
    [
        (configs("60000"), (), "the broker does not offer DescribeConfigs v4"),
        (
            configs("", ErrorCode.group_authorization_failed),
            OFFERS,
            "DescribeConfigs is refused: GROUP_AUTHORIZATION_FAILED",
        ),
        (configs(""), OFFERS, "the broker does not know a group's consumer.session.timeout.ms"),
        (lambda request: None, OFFERS, "the broker hung up"),
    ],
)
def test_what_is_not_told_is_taken_to_be_kafkas_default(
    answer: Callable[[Any], Any], offers: tuple[tuple[int, int, int], ...], why: str
) -> None:
    with ScriptedBroker(answer, offers) as broker:
        session = told(broker)
    assert session == Session(45_000, f"KIP-848 sessions are taken to be 45 s: {why}")
