"""What the project keeps of Kafka's schemas is what the reference's jar says, and the jar is read right."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from actors.protocol.schema_classes import Kind, classes_of
from tests.kafka import schemas
from tests.protocol.same_classes import differences, top

pytestmark = pytest.mark.kafka

UNREADABLE = {"fetch_snapshot", "update_raft_voter"}
"""Requests of Kafka's controllers with a tag that has no default, which our compiled readers refuse of kio's
classes too."""
COMPARED_MIN = 500


@pytest.fixture(scope="module")
def found(built: Path) -> dict[str, schemas.Json]:
    return schemas.schemas(next((built / "libs").glob("kafka-clients-*.jar")))


@pytest.mark.parametrize("path", sorted(schemas.KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_schema_is_the_jars(found: dict[str, schemas.Json], path: Path) -> None:
    kept = path.read_text(encoding="utf-8")
    assert kept == schemas.as_text(found[path.stem]), "python -m tests.kafka.schemas"


@pytest.fixture(scope="module")
def found_records(built: Path) -> dict[str, schemas.Json]:
    return schemas.record_schemas(next((built / "libs").glob("kafka-metadata-*.jar")))


def test_the_kept_records_of_the_metadata_log_are_the_jars(found_records: dict[str, schemas.Json]) -> None:
    kept = {path.stem: path.read_text(encoding="utf-8") for path in schemas.KEPT_RECORDS.glob("*.json")}
    said = {name: schemas.as_text(schema) for name, schema in found_records.items()}
    assert kept == said, "python -m tests.kafka.schemas metadata"


def test_all_messages_of_the_jar_become_the_classes_that_kio_has(found: dict[str, schemas.Json]) -> None:
    wrong: list[str] = []
    compared = 0
    kinds: tuple[Kind, ...] = ("request", "response")
    for api, schema in found.items():
        for version in range(schema["versions"][0], schema["versions"][1] + 1):
            for kind in kinds:
                try:
                    kio = import_module(f"kio.schema.{api}.v{version}.{kind}")
                except ModuleNotFoundError:
                    continue
                if api not in UNREADABLE:
                    made = top(classes_of(schema, version, kind), api, kind)
                    wrong += differences(made, top(kio, api, kind))
                    compared += 1
    assert wrong == []
    assert compared > COMPARED_MIN
