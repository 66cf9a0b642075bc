"""Every transcript against a real Kafka and our tier, both live: one difference is one too many."""

from __future__ import annotations

import pytest

from tests.oracle.conftest import Running
from tests.oracle.registry import Transcript, by_profile
from tests.oracle.run import difference, run

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(300)]


@pytest.mark.parametrize("transcript", by_profile(), ids=str)
@pytest.mark.usefixtures("needs_kafka")
def test_both_sides_say_the_same(running: Running, transcript: Transcript) -> None:
    kafka, tier = running.kafka(transcript.profile), running.tier(transcript.profile)
    found = difference(transcript, run(transcript, kafka), run(transcript, tier), ("kafka", "groupd"))
    assert found is None, found
