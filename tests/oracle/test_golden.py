"""Every transcript against our tier: each answer is what a real Kafka said when it was recorded."""

from __future__ import annotations

import pytest

from tests.oracle.conftest import Running
from tests.oracle.registry import Transcript, all_transcripts, by_profile
from tests.oracle.run import GOLDEN, difference, golden_path, read_golden, run

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]


@pytest.mark.parametrize("transcript", by_profile(), ids=str)
def test_transcript_is_answered_as_kafka_does(running: Running, transcript: Transcript) -> None:
    tier = running.tier(transcript.profile)
    golden = read_golden(transcript)
    assert golden is not None, f"python -m tests.oracle record '{transcript.name}'"
    found = difference(transcript, golden, run(transcript, tier), ("kafka", "groupd"))
    assert found is None, found


def test_no_golden_file_is_left_of_a_transcript_that_is_gone() -> None:
    wanted = {golden_path(each) for each in all_transcripts()}
    assert set(GOLDEN.rglob("*.json")) - wanted == set()
