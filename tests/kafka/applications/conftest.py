"""How long the applications run, and the process that each of them is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.clients.member import Member
from bench.ground.throwaway import Tier
from tests.kafka import jvm
from tests.kafka.applications.programs import Program
from tests.kafka.conftest import DEADLINE_S


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the applications run on: our tier, or (without one) what GROUPD_TEST_BOOTSTRAP names."""

    tier: Tier | None
    bootstrap: str
    admin: AdminClient

    def create_topics(self, names: Iterable[str], partitions: int) -> None:
        for future in self.admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
            future.result(DEADLINE_S)


@pytest.fixture
def cluster(own_tier: Tier | None, bootstrap: str, admin: AdminClient) -> Cluster:
    return Cluster(own_tier, bootstrap, admin)


class Run(Protocol):
    """Starts a process of an application; it is killed when the test is over."""

    def __call__(self, program: Program, argument: str, settings: Mapping[str, Any]) -> Member: ...


@pytest.fixture(
    params=[
        pytest.param(60, id="a-minute", marks=pytest.mark.timeout(600)),
        pytest.param(600, id="ten-minutes", marks=(pytest.mark.slow, pytest.mark.timeout(1_500))),
    ]
)
def seconds(request: pytest.FixtureRequest) -> int:
    """How long the application works while leaders are killed."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def run() -> Iterator[Run]:
    reason = jvm.missing()
    if reason is not None:
        pytest.skip(reason)
    members: list[Member] = []

    def started(program: Program, argument: str, settings: Mapping[str, Any]) -> Member:
        member = Member(f"{program.main}-{len(members)}", program.command(), argument, settings)
        members.append(member)
        return member

    yield started
    for member in members:
        member.kill()
