"""A tier without client quotas: it tells none, and refuses what Kafka would store (W42)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.protocol.api_keys import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from tests.api.brokers import brokers, part, versions


def entry(version: int, user: str, key: str, value: float | None) -> Any:
    """Make an entry that sets one quota of a user, or removes it if there is no value."""
    return part(
        ALTER_CLIENT_QUOTAS,
        version,
        "EntryData",
        entity=(part(ALTER_CLIENT_QUOTAS, version, "EntityData", entity_type="user", entity_name=user),),
        ops=(
            part(ALTER_CLIENT_QUOTAS, version, "OpData", key=key, value=value or 0.0, remove=value is None),
        ),
    )


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("version", versions(ALTER_CLIENT_QUOTAS))
def test_w42_a_quota_that_nobody_would_keep_to_is_refused_in_words(version: int, validate_only: bool) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        asked = (
            entry(version, "a", "producer_byte_rate", 1000.0),
            entry(version, "b", "request_percentage", 0.5),
            entry(version, "c", "producer_byte_rate", None),
        )
        answer = await one.ask(ALTER_CLIENT_QUOTAS, version, entries=asked, validate_only=validate_only)
        assert [(each.entity[0].entity_name, each.error_code) for each in answer.entries] == [
            ("a", ErrorCode.policy_violation),
            ("b", ErrorCode.policy_violation),
            ("c", ErrorCode.none),
        ]
        assert "no client quotas" in answer.entries[0].error_message
        told = await one.ask(DESCRIBE_CLIENT_QUOTAS, version, components=(), strict=False)
        assert (told.error_code, told.entries) == (ErrorCode.none, ())

    asyncio.run(story())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_w42_bytes_a_second_are_a_number(value: float) -> None:
    async def story() -> None:
        _, (one, *_) = brokers()
        asked = (entry(1, "a", "producer_byte_rate", value),)
        answer = await one.ask(ALTER_CLIENT_QUOTAS, 1, entries=asked, validate_only=False)
        assert answer.entries[0].error_code == ErrorCode.invalid_request

    asyncio.run(story())
