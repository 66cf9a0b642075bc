"""Clients are told of the addresses that brokers have at the listener by which they came."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.network.wire import frame_of, message_class, parse_answer, request_frame
from actors.upstream.readdressing import readdressed
from tests.upstream.log import Log, registered

OUTER, INNER = {"host": "outer", "port": 9_000}, {"host": "inner", "port": 9_001}


def endpoints(*names: str) -> list[dict[str, Any]]:
    there = {"CLIENTS": OUTER, "INTERNAL": INNER}
    return [{"name": name, "security_protocol": 0, **there[name]} for name in names]


def told(api: str, version: int, asked: dict[str, Any], **answer: Any) -> dict[str, Any]:
    """What becomes of an answer for a client of INTERNAL, a listener that broker 2 does not have."""
    log = Log()
    log.write(registered(1, 10, end_points=endpoints("CLIENTS", "INTERNAL")))
    log.write(registered(2, 11, end_points=endpoints("CLIENTS")))
    frame = request_frame(api, version, 7, "client", asked)[4:]
    given = frame_of(message_class(api, version, "response"), 7, "", answer)
    changed = readdressed(frame, given, log.image.brokers, "INTERNAL")
    correlation_id, found = parse_answer(api, version, changed[4:])
    assert correlation_id == 7
    return found


@pytest.mark.parametrize("version", [1, 7])
def test_metadata_name_the_brokers_that_have_the_listener(version: int) -> None:
    rows = [{"node_id": number, "rack": "r", **OUTER} for number in (1, 2)]
    more: dict[str, Any] = {} if version < 3 else {"throttle_time": 0, "cluster_id": "c"}
    asked: dict[str, Any] = {"topics": []} | ({} if version < 4 else {"allow_auto_topic_creation": False})
    found = told("metadata", version, asked, brokers=rows, controller_id=2, topics=[], **more)
    assert found["brokers"] == [{"node_id": 1, "rack": "r", **INNER}]
    assert found["controller_id"] == 2


def test_clusters_are_described_as_the_listener_has_them() -> None:
    rows = [{"broker_id": number, "rack": None, **OUTER} for number in (1, 2)]
    fields = {"throttle_time": 0, "error_code": ErrorCode.none, "error_message": None, "endpoint_type": 1}
    more = {"cluster_id": "c", "controller_id": 1, "cluster_authorized_operations": -(2**31)}
    asked = {"include_cluster_authorized_operations": False, "endpoint_type": 1}
    found = told("describe_cluster", 1, asked, brokers=rows, **fields, **more)
    assert found["brokers"] == [{"broker_id": 1, "rack": None, **INNER}]


@pytest.mark.parametrize("version", [3, 4])
def test_coordinators_are_named_where_the_listener_has_them(version: int) -> None:
    row = {"node_id": 1, "error_code": ErrorCode.none, "error_message": None, **OUTER}
    nobody = {"node_id": -1, "error_code": ErrorCode.not_coordinator, "host": "", "port": -1}
    if version == 3:
        found = told("find_coordinator", 3, {"key": "k", "key_type": 1}, throttle_time=0, **row)
        assert {name: found[name] for name in INNER} == INNER
        return
    rows = [{**row, "key": "k"}, {**nobody, "key": "n", "error_message": None}]
    asked = {"key_type": 1, "coordinator_keys": ["k", "n"]}
    found = told("find_coordinator", 4, asked, throttle_time=0, coordinators=rows)
    assert [(each["host"], each["port"]) for each in found["coordinators"]] == [("inner", 9_001), ("", -1)]


def test_other_answers_are_left_alone() -> None:
    group = {"group_id": "g", "protocol_type": "consumer"}
    found = told("list_groups", 1, {}, throttle_time=0, error_code=ErrorCode.none, groups=[group])
    assert found["groups"] == [group]
