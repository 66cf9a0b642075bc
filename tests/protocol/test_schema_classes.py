"""Classes made of kept data are what kio's are, and stand in for them where kio has none."""

from __future__ import annotations

import random
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
from kio.serial import entity_reader

from actors.protocol.entities import request_class, response_class
from actors.protocol.entity_schema import shapes
from actors.protocol.errors import UnsupportedRequest
from actors.protocol.schema_classes import (
    Kind,
    classes,
    kept_versions,
    known_versions,
    made_classes,
)
from tests.kafka.schemas import KEPT
from tests.protocol.random_entities import kio_bytes, random_entity
from tests.protocol.same_classes import differences, renamed, top

KEPT_APIS = sorted(path.stem for path in KEPT.glob("*.json"))
KINDS: tuple[Kind, ...] = ("request", "response")
OF_BOTH = [
    (api, version, kind)
    for api in KEPT_APIS
    for version in kept_versions(api)
    for kind in KINDS
    if classes(api, version, kind) is not made_classes(api, version, kind)
]


def test_kept_schemas_are_of_apis_that_kio_has_in_older_versions() -> None:
    """The comparison below would be empty otherwise."""
    assert KEPT_APIS
    assert {api for api, _, _ in OF_BOTH} == set(KEPT_APIS)


@pytest.mark.parametrize(("api", "version", "kind"), OF_BOTH)
def test_made_classes_have_the_fields_of_kios(api: str, version: int, kind: Kind) -> None:
    made, kio = made_classes(api, version, kind), import_module(f"kio.schema.{api}.v{version}.{kind}")
    assert differences(top(made, api, kind), top(kio, api, kind)) == []


@pytest.mark.parametrize(("api", "version", "kind"), OF_BOTH)
def test_made_classes_are_written_to_the_bytes_of_kios(api: str, version: int, kind: Kind) -> None:
    made = top(made_classes(api, version, kind), api, kind)
    kio = top(import_module(f"kio.schema.{api}.v{version}.{kind}"), api, kind)
    rng = random.Random(version)
    for _ in range(12):
        entity = random_entity(rng, kio)
        body = kio_bytes(entity)
        twin, read = entity_reader(made)(body, 0)
        assert read == len(body)
        assert kio_bytes(twin) == body
        assert plain(twin) == plain(entity)


def plain(value: Any) -> Any:
    """An entity as values of Python, whatever its class."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if not hasattr(type(value), "__dataclass_fields__"):
        return value
    return {renamed(shape.name): plain(getattr(value, shape.name)) for shape in shapes(type(value))}


@pytest.mark.parametrize(("api_key", "version"), [(18, 5), (28, 6), (42, 3)])
def test_versions_that_kio_lacks_have_classes(api_key: int, version: int) -> None:
    for entity_class in (request_class(api_key, version), response_class(api_key, version)):
        assert (entity_class.__api_key__, entity_class.__version__) == (api_key, version)
    for entity_class in (request_class(api_key, version - 1), response_class(api_key, version - 1)):
        assert entity_class.__module__.startswith("kio.schema.")


@pytest.mark.parametrize(("api", "version"), [("api_versions", 6), ("heartbeat", 5), ("no_such_api", 0)])
def test_what_neither_has_is_refused(api: str, version: int) -> None:
    with pytest.raises(UnsupportedRequest):
        classes(api, version, "request")


def test_known_versions_are_those_of_both() -> None:
    assert known_versions("api_versions") == (0, 1, 2, 3, 4, 5)
    assert known_versions("heartbeat") == (0, 1, 2, 3, 4)


def test_no_class_is_made_before_it_is_asked_for() -> None:
    """A process that is not asked in such a version neither reads the files nor makes classes."""
    program = """
from actors.catalog.codec import request_class
from actors.protocol import schema_classes as s
request_class(12, 4)
print(s.made_classes.cache_info().currsize, s._kept.cache_info().currsize)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "0"]
