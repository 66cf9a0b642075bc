"""The made-up next release is one: it can serve more, and each of the two reads what the other one kept."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from actors.ground.release import LEVEL_MAX, LEVEL_MIN
from actors.ground.spec import TierSpec
from tests.ground.specs import spec_in
from tests.machines import next_release

TOLD = "import json; from actors.ground.release import told; print(json.dumps(told()))"
KEPT = """
import pickle, sys
with open(sys.argv[1], "rb") as kept:
    spec = pickle.load(kept)
assert spec.of_the_next_release == "something", "what an older release lacks is as by default"
with open(sys.argv[1], "wb") as kept:
    pickle.dump(spec._replace(of_the_next_release="else"), kept)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return next_release.make(tmp_path_factory.mktemp("next") / "packages")


def run(packages: Path, program: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    line = [sys.executable, "-P", "-c", program, *arguments]
    return subprocess.run(line, capture_output=True, text=True, env=environment, check=True).stdout


def test_it_serves_one_level_more(packages: Path) -> None:
    expected = {"release": next_release.NUMBER, "levels": [LEVEL_MIN, LEVEL_MAX + 1]}
    assert json.loads(run(packages, TOLD)) == expected


def test_each_reads_the_spec_that_the_other_kept(packages: Path, tmp_path: Path) -> None:
    spec = spec_in(tmp_path, nodes=2)
    kept = tmp_path / "kept"
    kept.write_bytes(pickle.dumps(spec))
    run(packages, KEPT, str(kept))
    found = pickle.loads(kept.read_bytes())
    assert type(found) is TierSpec
    assert found == spec
