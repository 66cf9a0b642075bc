"""Who may import whom, and what the pure packages may not touch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from tests.architecture.tracked import nodes, tracked

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("storage", "actors", "cluster", "bench", "tests")
MAY_IMPORT = {
    "storage": {"storage"},
    "actors": {"actors", "storage"},
    "cluster": {"cluster", "actors", "storage"},
    "bench": {"bench", "cluster", "actors", "storage"},
    "tests": set(PACKAGES),
}
PURE = (
    "actors/coordinator",
    "actors/metadata",
    "actors/assignors",
    "actors/security",
    "actors/leader/held_heartbeats.py",
    "actors/upstream/offsets_log/reading.py",
    "actors/upstream/offsets_log/unpacking.py",
    "actors/replica/replica.py",
    "actors/ground/snapshot_build.py",
    *(
        f"actors/upstream/{name}.py"
        for name in (
            *("applying", "asks", "cluster_records", "control_records", "controller", "duels", "efforts"),
            *("fresh", "given", "image", "joining", "leadership", "leaving", "moving"),
            *("levels", "moves", "node", "node_care", "offsets_round", "orders", "partitions"),
            *("registration", "reports", "requests", "sent", "states", "tier_image", "together"),
            *("topic_records", "user_records"),
        )
    ),
    "storage/history/calls.py",
    "storage/history/judge",
    "storage/history/period.py",
    "storage/history/rules.py",
    *(f"cluster/attaching/{name}.py" for name in ("facts", "obstacles", "plan")),
    "cluster/capacity",
    "cluster/placement.py",
    "cluster/repair.py",
    "bench/attached/judge.py",
    "bench/chaos/availability.py",
    "bench/chaos/compare.py",
    "bench/chaos/ddmin.py",
    "bench/chaos/page.py",
    "bench/chaos/table.py",
    "bench/member",
    "bench/swarm/runs/bisection.py",
    "bench/swarm/rows/board.py",
    "bench/swarm/told/cases.py",
    "bench/swarm/planning/clients.py",
    "bench/swarm/counted/columns.py",
    "bench/swarm/told/comparison.py",
    "bench/swarm/planning/due.py",
    "bench/swarm/wire/errors.py",
    "bench/swarm/counted/figures.py",
    "bench/swarm/counted/gaps.py",
    "bench/swarm/counted/intervals.py",
    "bench/swarm/counted/histogram.py",
    "bench/swarm/told/junit.py",
    "bench/swarm/counted/lives.py",
    "bench/swarm/told/page.py",
    "bench/swarm/planning/plan.py",
    *(
        f"bench/swarm/replay/{name}.py"
        for name in (
            *("beside", "casting", "commits", "counts", "past", "planning", "record", "software"),
            *("subscriptions", "summary", "timeline", "told", "words"),
        )
    ),
    "bench/swarm/runs/probes.py",
    "bench/swarm/runs/repeats.py",
    "bench/swarm/records/batches.py",
    "bench/swarm/records/behind.py",
    "bench/swarm/records/lag.py",
    "bench/swarm/told/records.py",
    "bench/swarm/records/requests.py",
    "bench/swarm/counted/record_tables.py",
    "bench/swarm/counted/results.py",
    "bench/swarm/counted/marked.py",
    "bench/swarm/counted/marks.py",
    "bench/swarm/told/moments.py",
    "bench/swarm/counted/second_rows.py",
    "bench/swarm/counted/seconds.py",
    "bench/swarm/told/sections.py",
    "bench/swarm/rows/tally.py",
    "bench/swarm/told/summary.py",
    "bench/swarm/planning/thresholds.py",
    "bench/swarm/planning/toml_lines.py",
    "bench/swarm/counted/wall.py",
)
IMPURE = {
    "asyncio",
    "logging",
    "os",
    "pathlib",
    "pysyncobj",
    "random",
    "ray",
    "secrets",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
ACTOR_HEAVY = {"cluster.settings", "pydantic", "pydantic_settings", "rich", "typer", "confluent_kafka"}
"""Modules that an actor must not import: each costs memory in every process of the tier."""


PATHS = [path for path in tracked(ROOT) if path.suffix == ".py" and path.is_file()]


def sources(*folders: str) -> list[Path]:
    return [path for path in PATHS if any(path.is_relative_to(ROOT / folder) for folder in folders)]


def imports_of(path: Path) -> Iterator[str]:
    """Every module named by an import statement, and by importlib with a literal."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    """bench, tests -> cluster -> actors -> storage; nothing points back."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(package)
        for name in imports_of(path)
        if (top := name.partition(".")[0]) in PACKAGES and top not in MAY_IMPORT[package]
    ]
    assert wrong == []


def test_what_is_called_pure_is_there() -> None:
    """A place that has another name by now would be looked at no more."""
    assert [place for place in PURE if not sources(place)] == []


def test_pure_packages_have_no_clock_no_chance_no_outside() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(*PURE)
        for name in imports_of(path)
        if name.partition(".")[0] in IMPURE
    ]
    assert wrong == []


@pytest.mark.parametrize("entry", entry_points(group="groupd.commands"), ids=lambda entry: entry.name)
def test_the_commands_of_other_packages_can_be_imported_first(entry: EntryPoint) -> None:
    """The modules of the other packages' commands import what all commands share from `cluster.cli`."""
    first = f"import {entry.module}; from cluster.cli import app"
    done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_three_modules_import_ray() -> None:
    importers = {
        str(path.relative_to(ROOT))
        for path in sources("storage", "actors", "cluster", "bench")
        if any(name.partition(".")[0] == "ray" for name in imports_of(path))
    }
    assert importers == {"actors/ray_host.py", "actors/ray_worker.py", "actors/runtime.py"}


def test_the_metadata_and_coordinator_packages_await_nothing() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources("actors/coordinator", "actors/metadata")
        for node in nodes(path)
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
    ]
    assert wrong == []


def test_actors_stay_lean() -> None:
    """Neither the actors nor the reconciler that one of them runs import what only the CLI needs."""
    reconciler = (
        *("reconcile", "repair", "sight", "leaders_return", "placement", "replica_directory"),
        *("formed_groups", "leader_news", "rebalancing", "splits", "tier_actors"),
    )
    assert [name for name in reconciler if not sources(f"cluster/{name}.py")] == []
    lean = sources("actors", "storage", *(f"cluster/{name}.py" for name in reconciler))
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in lean
        for name in imports_of(path)
        if name.partition(".")[0] in ACTOR_HEAVY or name in ACTOR_HEAVY
    ]
    assert wrong == []
