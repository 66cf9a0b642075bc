"""What holds for all tests: the environment of the processes that they start, and which of them share one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.authority import Authority
from tests.lanes import LANES, lane_of

_LEAN = str(Path(__file__).with_name("lean"))
# kio imports hypothesis wherever it is installed: a quarter of the start of each of a tier's many processes,
# which users' tiers do not have.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_LEAN, os.environ.get("PYTHONPATH"))))

# Images of containers often forbid Python to keep what it has compiled. The tests' processes and those that
# they start then compile the project hundreds of times.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


class LaneScheduling(LoadScopeScheduling):
    """Gives every lane to one worker, in the order in which the lanes' first tests come."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return lane_of(PurePath(nodeid.partition("::")[0]))

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a process away that has ended. The test that ended it has failed: no other one tries it."""
        ended_by: str | None = super().remove_node(node)
        for tests in self.workqueue.values():
            if ended_by in tests:
                tests[ended_by] = True
        return ended_by


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LaneScheduling:
    """Share the work of `pytest -n` out by lanes."""
    return LaneScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the long lanes begin first where several processes share the work."""
    if hasattr(config, "workerinput"):
        lanes = [*LANES]
        items.sort(key=lambda item: _place(lanes, item.nodeid))


def _place(lanes: list[str], nodeid: str) -> int:
    lane = lane_of(PurePath(nodeid.partition("::")[0]))
    return lanes.index(lane) if lane in lanes else len(lanes)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Keep a note of the test that runs, which `.ci/run` prints if it is ended before the test is."""
    run_dir = os.environ.get("CI_RUN_DIR")
    if run_dir is None:
        return (yield)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    note = Path(run_dir, "running", worker)
    note.parent.mkdir(exist_ok=True)
    note.write_text(item.nodeid + "\n")
    try:
        return (yield)
    finally:
        note.unlink()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority for certificates, in a directory of its own."""
    return Authority(tmp_path_factory.mktemp("authority") / "ca")
