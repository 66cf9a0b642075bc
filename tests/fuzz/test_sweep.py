"""The fuzzer looks at every version that clients are told of: in others it finds nothing."""

from __future__ import annotations

import asyncio
import random
import tempfile

import pytest

from actors.catalog.table import is_flexible, name_of
from actors.network.wire import request_frame
from actors.protocol.entities import request_class
from actors.protocol.entity_schema import shapes
from tests.fuzz.campaign import Campaign, Tally
from tests.fuzz.client import Client
from tests.fuzz.distortions import distorted, distortions
from tests.fuzz.leaping import LeapingLoop
from tests.fuzz.stack import Stack
from tests.fuzz.sweep import sweep
from tests.protocol.random_entities import EVERY_VERSION, random_entity

SEED, SHARE = 2, 0.1
TOLD_AND_NOT_ANSWERED = {("Produce", 0), ("Produce", 1), ("Produce", 2)}
"""Versions that clients are told of as Kafka tells them, and that close the connection (W31)."""
SELDOM_RIGHT = {
    "DescribeAcls": "the stack has no authorizer",
    "SaslHandshake": "nobody has to log in at the stack",
    "SaslAuthenticate": "nobody has to log in at the stack",
    "ConsumerGroupHeartbeat": "the bystanders send the right ones: others seldom own what they say",
    "Heartbeat": "the bystanders send the right ones: others are seldom settled",
    "EndTxn": "its producer has to have begun something; whole sweeps have one that is right",
    "OffsetDelete": "its group has to be there without members; whole sweeps have one that is right",
    "SyncGroup": "the bystanders send the right ones: others seldom know their generation",
}
"""APIs whose every answer may have an error in a tenth of the sweep, and why."""


@pytest.fixture(scope="module")
def tally() -> Tally:
    """What a tenth of the sweep came to. Any internal error, or answer that cannot be read, ends it."""
    script = sweep(SEED, SHARE)
    return Campaign(SEED, 0, script).run(len(script))


def told() -> set[tuple[int, int]]:
    """The versions of all APIs that ApiVersions tells."""
    with tempfile.TemporaryDirectory(prefix="groupd-fuzz-") as data_dir:
        loop = LeapingLoop()

        async def ask() -> set[tuple[int, int]]:
            stack = Stack(loop, data_dir)
            await stack.start()
            client = Client(stack, -1)
            client.send(request_frame("api_versions", 0, 1, "c", {}))
            await stack.settle()
            ((_, answer),) = client.take()
            await stack.stop()
            return {
                (api.api_key, version)
                for api in answer.api_keys
                for version in range(api.min_version, api.max_version + 1)
            }

        try:
            return loop.run_until_complete(asyncio.wait_for(ask(), 60))
        finally:
            loop.close()


def test_every_version_that_clients_are_told_of_is_fuzzed() -> None:
    """The sweep is made from the catalog; what counts is what the wire says."""
    played = {(frame.api_key, frame.api_version) for frame in sweep(SEED, SHARE)}
    missing = {(name_of(key), version) for key, version in told() - played}
    assert missing == TOLD_AND_NOT_ANSWERED


def test_every_version_is_answered(tally: Tally) -> None:
    assert [version for version in EVERY_VERSION if not tally.answers[version]] == []


def test_every_api_gets_to_an_answer_without_an_error(tally: Tally) -> None:
    """What never succeeds is not looked at behind its first check."""
    right = {name_of(key) for (key, _), count in tally.rights.items() if count}
    assert {name_of(key) for key, _ in EVERY_VERSION} - right <= set(SELDOM_RIGHT)


@pytest.mark.parametrize(("api_key", "api_version"), EVERY_VERSION)
def test_every_distortion_can_be_sent(api_key: int, api_version: int) -> None:
    """There is a distortion for each field of each version, and it becomes bytes."""
    rng = random.Random(api_key * 100 + api_version)
    cls = request_class(api_key, api_version)
    flexible = is_flexible(api_key, api_version)
    right = random_entity(rng, cls)
    names = {distortion.path[0] for distortion in distortions(cls)}
    assert names == {shape.name for shape in shapes(cls)}
    for distortion in distortions(cls):
        assert distorted(rng, right, distortion, flexible)[1] != b""
