"""Both engines, with the same tests: DuckDB always; Spark, which takes seconds to start, with `-m spark`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from storage.history.generator.plan import Plan, plan
from storage.history.generator.spec import Spec
from storage.history.generator.write import write
from storage.history.jobs.embedded import embedded
from storage.history.jobs.engine import Engine
from storage.history.jobs.on_spark import OnSpark
from storage.history.segments.folder import Folder

Opened = Callable[[], AbstractContextManager[Engine]]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all of these tests: starting one takes longer than any of them."""
    from storage.history.jobs.session import session

    with session("local[2]", "1g") as found:
        yield found


@pytest.fixture(
    scope="session",
    params=["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.timeout(600)])],
)
def opened(request: pytest.FixtureRequest) -> Opened:
    """Engines that know no relation yet."""
    if request.param == "duckdb":
        return lambda: embedded("/tmp")
    session = request.getfixturevalue("spark")
    return lambda: nullcontext(OnSpark(session.newSession()))


@pytest.fixture
def engine(opened: Opened) -> Iterator[Engine]:
    with opened() as found:
        yield found


@pytest.fixture(scope="session")
def planned() -> Plan:
    return plan(Spec(seed=8, events=24_000, days=3, groups=16))


@pytest.fixture(scope="session")
def written(planned: Plan, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder with the planned history, which no test may change."""
    found = Folder(str(Path(tmp_path_factory.mktemp("planned"), "history")))
    write(planned, found)
    return found


@pytest.fixture
def folder(planned: Plan, tmp_path: Any) -> Folder:
    """A history of its own, to be spoiled by the test."""
    found = Folder(str(tmp_path / "history"))
    write(planned, found)
    return found
