"""The embedded consumer protocol is as Kafka's own schemas (kio) say, and bytes that are none are refused."""

from __future__ import annotations

import importlib
import random
from io import BytesIO
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from actors.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
    write_subscription,
)
from actors.protocol.errors import MalformedRequest

VERSIONS = range(4)
OWNED = (("orders", (0, 2)), ("täglich", ()))
SUBSCRIPTION = Subscription(("orders", "täglich"), b"user", OWNED, 7, "east")
ASSIGNMENT = Assignment(OWNED, b"user")


def kafkas(name: str, version: int) -> Any:
    module = importlib.import_module(f"kio.schema.{name}.v{version}")
    return getattr(module, "".join(word.capitalize() for word in name.split("_")))


@pytest.mark.parametrize("version", VERSIONS)
def test_subscription_is_what_kafkas_schema_says(version: int) -> None:
    """Every version holds what the one before it holds; the version number stands before the entity."""
    entity_class = kafkas("consumer_protocol_subscription", version)
    raw = write_subscription(SUBSCRIPTION, version)
    entity, _ = entity_reader(entity_class)(raw, 2)
    assert tuple(entity.topics) == SUBSCRIPTION.topics
    assert entity.user_data == SUBSCRIPTION.user_data
    if version >= 1:
        assert tuple((t.topic, tuple(t.partitions)) for t in entity.owned_partitions) == OWNED
    if version >= 2:
        assert entity.generation_id == SUBSCRIPTION.generation_id
    if version >= 3:
        assert entity.rack_id == SUBSCRIPTION.rack_id
    buffer = BytesIO()
    entity_writer(entity_class)(buffer, entity)
    assert raw == version.to_bytes(2, "big") + buffer.getvalue()
    assert read_subscription(raw) == Subscription(*SUBSCRIPTION[: version + 2])


@pytest.mark.parametrize("version", VERSIONS)
def test_assignment_is_what_kafkas_schema_says(version: int) -> None:
    entity_class = kafkas("consumer_protocol_assignment", version)
    raw = write_assignment(ASSIGNMENT, version)
    entity, _ = entity_reader(entity_class)(raw, 2)
    buffer = BytesIO()
    entity_writer(entity_class)(buffer, entity)
    assert raw == version.to_bytes(2, "big") + buffer.getvalue()
    assert read_assignment(raw) == ASSIGNMENT


def test_newer_versions_are_read_as_the_newest_known_one() -> None:
    """A version above 3 may add fields at the end, which are ignored."""
    raw = write_subscription(SUBSCRIPTION)
    assert read_subscription(b"\0\x09" + raw[2:] + b"more") == SUBSCRIPTION
    assert read_version(b"\0\x09") == 3


@pytest.mark.parametrize("read", [read_subscription, read_assignment])
@pytest.mark.parametrize(
    "raw", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\x7f\xff\xff\xff", b"changed", b"\0\3"]
)
def test_bytes_that_are_none_are_refused(read: Any, raw: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read(raw)


@pytest.mark.parametrize("read", [read_subscription, read_assignment])
def test_no_damage_does_more_than_refuse(read: Any) -> None:
    """Cut short or flipped, the bytes are read or refused; nothing else is raised."""
    dice = random.Random(4)
    for whole in (write_subscription(SUBSCRIPTION), write_assignment(ASSIGNMENT)):
        for _ in range(2_000):
            raw = bytearray(whole[: dice.randrange(len(whole) + 1)])
            for _ in range(dice.randrange(3)):
                if raw:
                    raw[dice.randrange(len(raw))] = dice.randrange(256)
            try:
                read(bytes(raw))
            except MalformedRequest:
                continue
