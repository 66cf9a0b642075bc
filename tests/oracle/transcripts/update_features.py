"""UpdateFeatures: which levels are taken, and what switching the consumer protocol off does (W44)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.oracle.access import alice
from tests.oracle.kits import beat, beat_in, describe
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

GROUP, METADATA = "group.version", "metadata.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3
Update = tuple[str, int, int]


def update(client: Client, *updates: Update, version: int = 2, **fields: Any) -> Any:
    """Ask for levels; each of `updates` is (feature, level, way)."""
    asked = [{"feature": name, "max_version_level": level} for name, level, _ in updates]
    if version > 0:
        for entry, (_, _, way) in zip(asked, updates, strict=True):
            entry["upgrade_type"] = way
    return client.ask("update_features", version, feature_updates=asked, timeout=10_000, **fields)


def level_of(play: Play, name: str) -> int:
    """Return the level that ApiVersions tells; 0 if it tells none."""
    told = play.admin.quietly("api_versions", 4, client_software_name="a", client_software_version="1")
    return {each.name: each.max_version_level for each in told.finalized_features}.get(name, 0)


def epoch(play: Play) -> int:
    told = play.admin.quietly("api_versions", 4, client_software_name="a", client_software_version="1")
    number: int = told.finalized_features_epoch
    return number


@contextmanager
def put_back(play: Play) -> Iterator[Client]:
    """Give a connection, and have the consumer protocol on in the end."""
    try:
        yield play.connect()
    finally:
        asked = [{"feature": GROUP, "max_version_level": 1, "upgrade_type": UPGRADE}]
        play.admin.quietly("update_features", 2, feature_updates=asked, timeout=10_000)
        play.until(lambda: level_of(play, GROUP) == 1, "the consumer protocol is on")


ASKED: dict[str, tuple[Update, ...]] = {
    "nothing": (),
    "the same level": ((GROUP, 1, UPGRADE),),
    "the same level as a downgrade": ((GROUP, 1, SAFE),),
    "down": ((GROUP, 0, SAFE),),
    "down, unsafe": ((GROUP, 0, UNSAFE),),
    "down without saying so": ((GROUP, 0, UPGRADE),),
    "too high": ((GROUP, 5, UPGRADE),),
    "negative": ((GROUP, -1, UPGRADE),),
    "unknown": (("no.such", 1, UPGRADE),),
    "unknown at level 0": (("no.such", 0, SAFE),),
    "without a name": (("", 1, UPGRADE),),
    "unknown way": ((GROUP, 1, 0),),
    "another unknown way": ((GROUP, 1, 4),),
    "one right, one wrong": ((GROUP, 0, SAFE), ("no.such", 1, UPGRADE)),
    "twice": ((GROUP, 1, UPGRADE), (GROUP, 0, SAFE)),
    "metadata as it is": ((METADATA, 33, UPGRADE),),
    "metadata too high": ((METADATA, 34, UPGRADE),),
    "metadata down": ((METADATA, 32, SAFE),),
    "metadata down, unsafe": ((METADATA, 32, UNSAFE),),
    "metadata too low": ((METADATA, 6, SAFE),),
}


@transcript(rows=("W44",), cases=ASKED)
def levels_that_are_taken(play: Play, updates: tuple[Update, ...]) -> None:
    a = play.connect()
    update(a, *updates, validate_only=True)
    update(a, *updates, version=1, validate_only=True)
    play.note("group.version", level_of(play, GROUP))


@transcript(rows=("W44",), cases={"v0": 0, "v1": 1, "v2": 2})
def a_level_that_stays_changes_no_epoch(play: Play, version: int) -> None:
    with put_back(play) as a:
        before = epoch(play)
        update(a, (GROUP, 1, UPGRADE), version=version)
        update(a, (GROUP, 0, UPGRADE), version=version)
        play.note("group.version", level_of(play, GROUP))
        update(a, (GROUP, 0, SAFE))
        play.until(lambda: level_of(play, GROUP) == 0, "the level falls")
        play.note("epoch rises", epoch(play) > before)


@transcript(rows=("W44", "A25", "A1"))
def the_consumer_protocol_is_switched_off(play: Play) -> None:
    """A group that has members stays, and goes on where it was."""
    with put_back(play) as a:
        beat_in(a, play.group(), "m", [])
        update(a, (GROUP, 0, SAFE))
        play.until(lambda: level_of(play, GROUP) == 0, "the level falls")
        wait_until_off(play)
        beat(a, play.group(), "m", 1)
        beat_in(a, play.group("h"), "m", [])
        beat(a, "", "", -5)
        a.ask("consumer_group_describe", 1, group_ids=[play.group()])
        describe(a, play.group())
        a.ask("list_groups", 5)
        update(a, (GROUP, 1, UPGRADE))
        play.until(lambda: level_of(play, GROUP) == 1, "the level rises")
        fields = {"member_id": "m", "member_epoch": 1, "rebalance_timeout": -1, "topic_partitions": None}
        a.ask_until(
            lambda told: told.error_code.value == 0,
            "consumer_group_heartbeat",
            1,
            group_id=play.group(),
            **fields,
        )


def wait_until_off(play: Play) -> None:
    """Wait until every coordinator refuses heartbeats."""
    for group_id in play.watchers():
        asked = {"group_id": group_id, "member_id": "w", "member_epoch": 5, "topic_partitions": None}
        play.until(
            lambda asked=asked: (  # type: ignore[misc]
                play.admin.quietly("consumer_group_heartbeat", 1, **asked).error_code.value == 35
            ),
            "a coordinator that refuses",
        )


@transcript(rows=("W44", "W10"), profile="security", cases={"v0": 0, "v1": 1, "v2": 2})
def levels_need_a_right_on_the_cluster(play: Play, version: int) -> None:
    update(alice(play), (GROUP, 1, UPGRADE), version=version)
