"""The level of what the tier writes for itself rises as far as every actor can follow, and never falls."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.catalog.api_versions import Told, api_versions_answer
from actors.ground.features import (
    FEATURES,
    GROUPD_VERSION,
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    Features,
)
from actors.ground.release import OLD_LEVELS, ReleaseTooOld, check_level, levels_of
from actors.metadata.commands import (
    FeatureUpdate,
    FoundTier,
    Outcome,
    RegisterNode,
    ReportLeader,
    Served,
    UpdateFeatures,
    pack,
    unpack,
)
from actors.protocol.api_keys import API_VERSIONS
from actors.protocol.header import Header
from tests.metadata.driver import Host, tier

HIGH = FEATURES[GROUPD_VERSION].high
ALL = (Served("broker-1", "0.2.0", 1, HIGH), Served("controller-0", "0.2.0", 1, HIGH))


def ask(host: Host, level: int, served: tuple[Served, ...] = ALL, way: int = UPGRADE) -> Outcome:
    asked = UpdateFeatures((FeatureUpdate(GROUPD_VERSION, level, way),), served=served)
    answer = host.submit(asked)
    assert isinstance(answer, Outcome)
    return answer


def level(host: Host) -> int:
    return host.shard.image().features.level(GROUPD_VERSION)


def test_a_tier_of_an_older_release_stays_at_level_1_until_it_is_finalized() -> None:
    host = tier()
    assert level(host) == 1
    assert ask(host, HIGH) == Outcome()
    assert level(host) == HIGH


def test_a_new_tier_begins_at_the_level_of_its_founders_and_clients_see_no_change() -> None:
    host = Host()
    assert host.submit(FoundTier(HIGH)) == Outcome()
    assert level(host) == HIGH
    assert host.shard.image().features.epoch == 0
    assert host.shard.image().features.finalized() == Features().finalized()


def test_a_leader_that_is_faster_than_the_founders_makes_no_tier_of_an_older_release() -> None:
    host = Host()
    host.submit(ReportLeader(0, 1, 1))
    assert host.submit(FoundTier(HIGH)) == Outcome()
    assert level(host) == HIGH


def test_a_tier_is_founded_once() -> None:
    host = tier()
    assert host.submit(FoundTier(HIGH)) == Outcome()
    assert level(host) == 1
    founded = Host()
    founded.submit(FoundTier(1))
    founded.submit(RegisterNode(1, "h", 1))
    founded.submit(FoundTier(HIGH))
    assert level(founded) == 1


@pytest.mark.parametrize(
    ("served", "named"),
    [
        ((*ALL, Served("partition-3-1", "0.1.0", 1, HIGH - 1)), "partition-3-1 has groupd 0.1.0"),
        ((*ALL, Served("broker-2")), "broker-2 does not answer"),
        ((), "nobody has asked"),
        (tuple(Served(f"broker-{n}") for n in range(9)), "broker-4 does not answer; and 4 more."),
    ],
)
def test_who_cannot_follow_is_named_and_the_level_stays(served: tuple[Served, ...], named: str) -> None:
    host = tier()
    answer = ask(host, HIGH, served)
    assert answer.error_code == ErrorCode.invalid_update_version
    assert named in str(answer.error_message)
    assert level(host) == 1


@pytest.mark.parametrize("way", [UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_a_finalized_level_never_falls(way: int) -> None:
    host = tier()
    ask(host, HIGH)
    answer = ask(host, 1, way=way)
    assert answer.error_code == ErrorCode.invalid_update_version
    assert level(host) == HIGH


def test_a_level_above_this_release_is_refused() -> None:
    host = tier()
    served = tuple(each._replace(high=HIGH + 1) for each in ALL)
    assert ask(host, HIGH + 1, served).error_code == ErrorCode.invalid_update_version


def test_a_release_refuses_a_tier_that_is_above_it() -> None:
    check_level(Features(), "the tier")
    with pytest.raises(ReleaseTooOld, match=rf"the tier is at level {HIGH + 1} of groupd.version"):
        check_level(Features(1, ((GROUPD_VERSION, HIGH + 1),)), "the tier")


def test_an_actor_that_says_nothing_of_levels_serves_the_first() -> None:
    assert levels_of({"pid": 1}) == OLD_LEVELS
    assert levels_of({"levels": [1, 3]}) == (1, 3)


def test_an_older_controller_reads_a_command_that_says_nothing_new() -> None:
    update = UpdateFeatures((FeatureUpdate("group.version", 1, UPGRADE),))
    assert b"served" not in pack(update)
    assert unpack(pack(update)) == update
    assert unpack(pack(update._replace(served=ALL))) == update._replace(served=ALL)


@pytest.mark.parametrize("version", [3, 4])
def test_clients_are_not_told(version: int) -> None:
    header = Header(API_VERSIONS, version, 1, None)
    frame = b"\x02a\x02b\x00"
    answer = api_versions_answer(header, frame, 0, told=Told(Features(1, ((GROUPD_VERSION, HIGH),))))
    assert b"group.version" in answer
    assert GROUPD_VERSION.encode() not in answer
