"""What Ray, where it is ours, loads into the process of an actor: each actor pays for every module."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADED = """
import json, sys
from actors.ray_worker import import_ray

import_ray()
import ray._private.workers.default_worker

print(json.dumps(sorted(sys.modules)))
import ray._private.accelerators.tpu as user
import yaml
assert yaml.safe_load("a: 1") == {"a": 1}
import requests.exceptions
assert issubclass(user.requests.Timeout, requests.exceptions.RequestException)
"""
NOT_LOADED = ("requests", "urllib3", "jsonschema", "rpds", "yaml", "pyarrow", "pydantic", "numpy")


def test_ray_does_not_load_what_no_actor_needs() -> None:
    """They are there when somebody uses them."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert sorted(set(NOT_LOADED).intersection(json.loads(done.stdout))) == []
