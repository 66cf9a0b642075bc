"""The advertised versions are in kio's schemas, and are those that clients need."""

from __future__ import annotations

from importlib import import_module

import pytest

from actors.catalog.table import (
    APIS,
    is_flexible,
    is_supported,
)
from actors.protocol import api_keys
from actors.protocol.entities import has_flexible_response_header, request_class, response_class
from actors.protocol.errors import UnsupportedRequest
from tests.protocol.random_entities import EVERY_VERSION


def test_kio_has_every_advertised_version_and_agrees_where_flexible_ones_begin() -> None:
    for api_key, api_version in EVERY_VERSION:
        request, response = request_class(api_key, api_version), response_class(api_key, api_version)
        for entity_class in (request, response):
            assert (entity_class.__api_key__, entity_class.__version__) == (api_key, api_version)
        assert request.__flexible__ is is_flexible(api_key, api_version)
        header = response.__header_schema__
        assert header.__flexible__ is has_flexible_response_header(api_key, api_version)


def test_kio_names_the_apis_as_the_table_does() -> None:
    names = import_module("kio.schema.index").api_key_map
    kafkas = {key: name for key, name in api_keys.NAMES.items() if key < api_keys.OWN_FROM}
    assert {key: names[key] for key in APIS if key < api_keys.OWN_FROM} == kafkas


def test_every_api_key_of_the_tier_is_served() -> None:
    assert set(api_keys.NAMES) - set(api_keys.PUSHED) == set(APIS)


def test_w16_consumers_of_kip_848_find_what_they_look_for() -> None:
    needed = {
        api_keys.CONSUMER_GROUP_HEARTBEAT: 1,
        api_keys.CONSUMER_GROUP_DESCRIBE: 0,
        api_keys.OFFSET_COMMIT: 10,
        api_keys.OFFSET_FETCH: 10,
        api_keys.METADATA: 12,
        api_keys.PRODUCE: 3,
    }
    assert all(is_supported(api_key, api_version) for api_key, api_version in needed.items())


@pytest.mark.parametrize(("api_key", "api_version"), [(12, 5), (12, -1), (999, 0), (-1, 0), (0, 2)])
def test_what_is_not_advertised_has_no_class(api_key: int, api_version: int) -> None:
    assert not is_supported(api_key, api_version)
    with pytest.raises(UnsupportedRequest):
        request_class(api_key, api_version)
