"""What a node tells of itself as one of a Kafka cluster's brokers, and what it passes on."""

from __future__ import annotations

import pytest

from actors.catalog.in_front import LEADER_APIS, REPEATABLE, SERVED, api_key_of, is_passed_on, offer
from actors.catalog.table import APIS
from actors.protocol import api_keys

SHARE_FETCH, DESCRIBE_QUORUM, ALTER_REASSIGNMENTS = 78, 55, 45
THEIRS = {
    api_keys.METADATA: (0, 12),
    api_keys.JOIN_GROUP: (2, 5),
    api_keys.WRITE_TXN_MARKERS: (0, 9),
    api_keys.FIND_COORDINATOR: (1, 4),
    api_keys.DESCRIBE_CONFIGS: (2, 9),
    SHARE_FETCH: (1, 1),
    ALTER_REASSIGNMENTS: (0, 7),
    api_keys.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
}
FEATURES = ({"name": "group.version", "min_version": 0, "max_version": 1},)


def told() -> dict[int, tuple[int, int]]:
    return {key: (low, high) for key, low, high in offer(THEIRS, FEATURES, {"group.version": 1}, 7).rows}


@pytest.mark.parametrize("key", [api_keys.METADATA, ALTER_REASSIGNMENTS])
def test_what_is_passed_on_has_the_versions_of_the_broker_that_it_goes_to(key: int) -> None:
    assert is_passed_on(key)
    assert told()[key] == THEIRS[key]


@pytest.mark.parametrize("key", [api_keys.JOIN_GROUP, api_keys.WRITE_TXN_MARKERS, api_keys.TXN_OFFSET_COMMIT])
def test_what_is_served_here_has_the_tiers_versions(key: int) -> None:
    assert not is_passed_on(key)
    assert told()[key] == (APIS[key].min_version, APIS[key].max_version)


def test_what_may_go_either_way_has_the_versions_of_both() -> None:
    assert told()[api_keys.FIND_COORDINATOR] == (1, 4)
    assert told()[api_keys.DESCRIBE_CONFIGS] == (2, 4)


@pytest.mark.parametrize("key", [SHARE_FETCH, api_keys.GET_TELEMETRY_SUBSCRIPTIONS, DESCRIBE_QUORUM])
def test_what_nobody_serves_or_offers_is_not_told(key: int) -> None:
    assert key not in told()


def test_features_are_the_clusters() -> None:
    made = offer(THEIRS, FEATURES, {"group.version": 1, "metadata.version": 33}, 7)
    assert made.supported == (("group.version", 0, 1),)
    assert (made.finalized, made.epoch) == ((("group.version", 1), ("metadata.version", 33)), 7)
    assert made == offer(THEIRS, FEATURES, {"metadata.version": 33, "group.version": 1}, 7)


def test_requests_of_our_own_and_of_nobody_stay_here() -> None:
    assert not is_passed_on(api_keys.OWN_FROM)
    assert not is_passed_on(api_key_of(b"\0"))
    assert not is_passed_on(api_key_of(b"\xff\xff"))
    assert api_keys.REGISTER_CONSUMER in LEADER_APIS
    assert all(key < api_keys.OWN_FROM for key in told())


def test_nothing_is_repeated_that_changes_something() -> None:
    changing = {
        name
        for key, name in api_keys.NAMES.items()
        if key in REPEATABLE and not name.startswith(("describe_", "list_", "find_", "metadata"))
    }
    assert changing == set()


def test_transactional_ids_are_coordinated_by_the_clusters_brokers() -> None:
    of_ids = (api_keys.ADD_PARTITIONS_TO_TXN, api_keys.END_TXN, api_keys.DESCRIBE_TRANSACTIONS)
    assert all(is_passed_on(key) for key in of_ids)
    assert api_keys.TXN_OFFSET_COMMIT in SERVED
