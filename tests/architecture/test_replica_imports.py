"""What the process of a replica loads: a tier has one for each replica, and each pays for every module.

The figures and how they were measured stand in `bench/README.md`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ACTOR = "actors.leader.offsets_partition"
NOT_LOADED = {
    "settings and commands, which only the command line needs": (
        *("cluster", "bench", "pydantic", "pydantic_settings", "typer", "rich", "confluent_kafka"),
        *("prometheus_client", "logging.config"),
    ),
    "Ray, which loads the actor and not the other way round": ("ray", "psutil"),
    "libraries that a replica loads when the first big group or segment of history needs them": (
        *("numpy", "numba", "llvmlite", "pyarrow", "fsspec", "duckdb"),
    ),
    "regular expressions, which a replica loads with the first that a member subscribes to": ("re2",),
    "faults, which only a chaos run brings": ("storage.raft.injected",),
    "what the actors of a node's port and of the controller do": (
        *("actors.node", "actors.controller", "actors.topics", "actors.metadata.shard"),
        *("actors.network.listener", "actors.network.early", "actors.network.hub", "actors.network.peers"),
    ),
    "schemas of Kafka's messages, of which each API loads its own with its first request": (
        *("kio.index", "kio.serial", "kio.records", "_kio_native"),
    ),
}
OURS_MAX = 324
"""How many modules of ours there may be. One more is no mistake, but it should be one that replicas need."""
MODULES_MAX = 588
"""How many modules there may be in all, of Python 3.11 and our libraries as of today, with room for a few."""
DATACLASSES_MAX = 8
"""A dataclass costs an import as much as five to eight NamedTuples: its methods are compiled from text."""
COMPILED_ANNOTATIONS_MAX = 322
"""A NamedTuple compiles each annotation that `from __future__ import annotations` made a string. Files that
consist of NamedTuples leave that line out."""

LOADED = f"""
import json, sys, typing
import {ACTOR}

ours = [module for name, module in sys.modules.items() if name.partition(".")[0] in ("actors", "storage")]
classes = {{each for module in ours for each in vars(module).values() if isinstance(each, type)}}
classes = [each for each in classes if each.__module__.partition(".")[0] in ("actors", "storage")]
compiled = [
    f"{{each.__module__}}.{{each.__name__}}.{{name}}"
    for each in classes
    if issubclass(each, tuple) and hasattr(each, "_fields")
    for name, annotation in each.__annotations__.items()
    if isinstance(annotation, typing.ForwardRef)
]
dataclasses = [each.__qualname__ for each in classes if "__dataclass_fields__" in vars(each)]
print(json.dumps({{
    "modules": sorted(sys.modules), "ours": len(ours), "dataclasses": dataclasses, "compiled": compiled
}}))
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, Any]:
    """What a Python has loaded that imported the actor and nothing else."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@pytest.mark.parametrize("why", NOT_LOADED)
def test_a_replica_does_not_load(why: str, loaded: dict[str, Any]) -> None:
    wrong = [name for name in loaded["modules"] if any(is_within(name, each) for each in NOT_LOADED[why])]
    assert wrong == []


def test_of_kafkas_schemas_a_replica_loads_the_error_codes_alone(loaded: dict[str, Any]) -> None:
    schemas = [name for name in loaded["modules"] if is_within(name, "kio.schema")]
    assert schemas == ["kio.schema", "kio.schema.errors"]


def test_a_replica_loads_a_bounded_number_of_modules(loaded: dict[str, Any]) -> None:
    assert loaded["ours"] <= OURS_MAX
    assert len(loaded["modules"]) <= MODULES_MAX


def test_what_a_replica_loads_makes_few_costly_classes(loaded: dict[str, Any]) -> None:
    assert len(loaded["dataclasses"]) <= DATACLASSES_MAX, loaded["dataclasses"]
    assert len(loaded["compiled"]) <= COMPILED_ANNOTATIONS_MAX, loaded["compiled"]
