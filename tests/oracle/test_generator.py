"""The generator: its sequences are the seed's, its requests can be written, and both sides say the same."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.oracle.conftest import Running
from tests.oracle.generator.asking import request
from tests.oracle.generator.choosing import KINDS, operations
from tests.oracle.generator.choosing_data import OWN_TOPICS
from tests.oracle.generator.knowledge import Knowledge
from tests.oracle.generator.known import reason
from tests.oracle.generator.masks import masked
from tests.oracle.generator.operation import SLOTS
from tests.oracle.generator.running import Generator
from tests.oracle.generator.shrinking import shrunk
from tests.oracle.generator.slots import Slot
from tests.oracle.requests import body, request_entity

SEEDS_LIVE = 120
OPERATIONS = 40


def test_seed_says_what_is_played() -> None:
    assert operations(7, OPERATIONS) == operations(7, OPERATIONS)
    assert operations(7, OPERATIONS) != operations(7 + len(KINDS), OPERATIONS)
    assert {operations(seed, 1)[0] for seed in range(len(KINDS))} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_operation_is_a_request_that_can_be_written(kind: str) -> None:
    topics = {"t": UUID(int=1), "u": UUID(int=2)}
    known = Knowledge("g", ("x", "y", "z"), topics, [Slot(n, f"i{n}") for n in range(SLOTS)], 30_000)
    known.own = {name: name for name in OWN_TOPICS}
    for seed in range(50):
        for operation in operations(seed, OPERATIONS, (kind,))[1]:
            if operation.what != "pass_time":
                asked = request(known, operation)
                assert body(request_entity(asked.api, asked.version, asked.fields)) is not None


def test_shrinking_leaves_what_is_needed() -> None:
    assert shrunk(list(range(40)), lambda kept: {3, 17, 18} <= set(kept)) == [3, 17, 18]


@pytest.mark.parametrize(
    ("config", "operation", "is_known"),
    [("no.such", 0, True), ("no.such", 1, False), ("message.max.bytes", 0, False)],
)
def test_a_known_difference_is_one_of_its_request(config: str, operation: int, is_known: bool) -> None:
    """W43: only where a setting is set that there is not may ours refuse what Kafka takes."""
    named = {"resource_type": 4, "resource_name": "1"}
    changes = [{"name": config, "config_operation": operation, "value": "1"}]
    fields = {"resources": [named | {"configs": changes}]}
    theirs, ours = ({"responses": [{"error_code": code} | named]} for code in ("none", "42 invalid_request"))
    assert (reason("incremental_alter_configs", fields, theirs, ours) is not None) == is_known


def test_times_of_markers_are_not_compared_and_times_of_records_are() -> None:
    answers = [{"topics": [{"timestamp": time, "offset": 1}]} for time in (1_795_640_792_569, 1_001)]
    told = [masked("producers", "list_offsets", answer)["topics"][0]["timestamp"] for answer in answers]
    assert told == ["now", 1_001]


@pytest.mark.kafka
@pytest.mark.clients
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("needs_kafka")
def test_random_sequences_are_answered_alike(running: Running) -> None:
    """All kinds of group; the differences that are explained stand in `generator/known.py`."""
    generator = Generator(running.kafka("base"), running.tier("base"), OPERATIONS)
    tally = generator.run(range(SEEDS_LIVE), jobs=3)
    assert tally.differences == []
