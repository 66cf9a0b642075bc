"""Moments are told by the wall clock, in UTC, as the server's logs tell them."""

from __future__ import annotations

from bench.swarm.counted.wall import Wall, iso, wall_of
from storage.history.judge.findings import when

BEGAN_US = 5_000_000
WALL_US = 1_700_000_000_000_000
WALL = Wall(BEGAN_US, WALL_US)


def test_moment_is_told_by_run_and_by_wall_clock() -> None:
    assert WALL.tell(BEGAN_US + 12_345_678) == "+12.345 s (22:13:37.345 UTC)"
    assert WALL.iso(BEGAN_US) == "2023-11-14T22:13:25.000Z"
    assert iso(WALL_US + 999_999) == "2023-11-14T22:13:20.999Z"


def test_story_of_a_judge_is_told_by_the_wall_clock() -> None:
    """A violation was told in seconds since the machine had booted."""
    story = f"sent {when(BEGAN_US + 1_500_000)}, answered {when(BEGAN_US + 61_500_000)}, epoch 7, for 2.5 s"
    assert WALL.in_words(story) == (
        "sent +1.500 s (22:13:26.500 UTC), answered +61.500 s (22:14:26.500 UTC), epoch 7, for 2.5 s"
    )


def test_run_that_did_not_say_has_its_own_seconds_only() -> None:
    wall = wall_of({}, BEGAN_US)
    assert wall.tell(BEGAN_US - 250_000) == "-0.250 s"
    assert (wall.iso(BEGAN_US), wall.clock(BEGAN_US)) == ("", "")
    assert wall_of({"wall_us": WALL_US}, BEGAN_US) == WALL
