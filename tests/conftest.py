"""What holds for all tests: the environment of the processes that they start, and which of them share one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lanes import lane_of

_LEAN = str(Path(__file__).with_name("lean"))
# kio imports hypothesis wherever it is installed: a quarter of the start of each of a tier's many processes,
# which users' tiers do not have.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_LEAN, os.environ.get("PYTHONPATH"))))


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks at the same moment
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say to pytest-xdist which tests belong together."""
    root = Path(__file__).resolve().parents[1]
    for item in items:
        item.add_marker(pytest.mark.xdist_group(lane_of(item.path.relative_to(root))))
