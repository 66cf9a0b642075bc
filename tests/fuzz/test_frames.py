"""Spoilt frames at the real actors: whatever comes, an answer, a refusal or a closed connection (W13)."""

from __future__ import annotations

from tests.fuzz.campaign import Campaign


def test_spoilt_frames_cost_their_sender_alone() -> None:
    """Every answer decodes, every connection gets its own, nobody owes one in the end, and the members of
    other groups go on as if nothing were."""
    tally = Campaign(848, 0).run(1_500)
    assert tally.frames == 1_500
    assert tally.answered > 500
    assert tally.closed > 50
