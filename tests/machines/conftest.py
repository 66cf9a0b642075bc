"""Tiers on machines of their own for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.chaos.targets import machine_site
from bench.chaos.targets.machine_site import MachineSite
from bench.chaos.targets.stand import why_not


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip what needs a stand of machines where there can be none."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def site(possible: None) -> Iterator[MachineSite]:
    """A tier of two offsets partitions on three machines, a node on each."""
    with machine_site.throw_away("--partitions", "2") as found:
        yield found
