"""One Spark session for all of these tests: starting one takes longer than any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from storage.history.generator.plan import Plan, plan
from storage.history.generator.spec import Spec
from storage.history.generator.write import write
from storage.history.segments.folder import Folder


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from storage.history.jobs.session import session

    with session("local[2]", "1g") as found:
        yield found


@pytest.fixture(scope="session")
def planned() -> Plan:
    return plan(Spec(seed=8, events=24_000, days=3, groups=16))


@pytest.fixture
def folder(planned: Plan, tmp_path: Any) -> Folder:
    """A history of its own, to be spoiled by the test."""
    found = Folder(str(tmp_path / "history"))
    write(planned, found)
    return found
