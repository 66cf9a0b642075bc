"""The generator: its sequences are the seed's, its requests can be written, and both sides say the same."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.oracle.conftest import Running
from tests.oracle.generator.asking import request
from tests.oracle.generator.choosing import KINDS, operations
from tests.oracle.generator.choosing_data import OWN_TOPICS
from tests.oracle.generator.knowledge import Knowledge
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


@pytest.mark.kafka
@pytest.mark.clients
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("needs_kafka")
def test_random_sequences_are_answered_alike(running: Running) -> None:
    """All kinds of group; the differences that are explained stand in `generator/known.py`."""
    generator = Generator(running.kafka("base"), running.tier("base"), OPERATIONS)
    tally = generator.run(range(SEEDS_LIVE), jobs=3)
    assert tally.differences == []
