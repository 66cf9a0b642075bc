"""Kafka's own clients and tools against one real tier, or the cluster that GROUPD_TEST_BOOTSTRAP names.

Run against a real Kafka, the same stories tell what Kafka does: that is how they were written.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.kafka import jvm
from tests.kafka.members import JavaMember
from tests.kafka.tools import Tools

DEADLINE_S = 30.0
SESSION_TIMEOUT_MS = 10_000
"""Twice the heartbeat interval of a KIP-848 member: a busy machine must not cost a member its place."""
FLAGS = (
    "--set=group.initial.rebalance.delay.ms=200",
    f"--set=group.consumer.min.session.timeout.ms={SESSION_TIMEOUT_MS}",
    f"--set=group.consumer.session.timeout.ms={SESSION_TIMEOUT_MS}",
)
"""Short waits: a story about a silent member need not take Kafka's 45 s."""


class Start(Protocol):
    """Starts a Java consumer; it is killed when the test is over."""

    def __call__(self, topic: str, group_id: str, **settings: Any) -> JavaMember: ...


@pytest.fixture(scope="session")
def built() -> Path:
    """The directory with Kafka's jars and our Java program."""
    reason = jvm.missing()
    if reason is not None:
        pytest.skip(reason)
    return jvm.build()


@pytest.fixture(scope="session")
def own_tier(built: Path) -> Iterator[Tier | None]:
    """A tier of three nodes; None when the tests are pointed at another cluster."""
    if os.environ.get("GROUPD_TEST_BOOTSTRAP"):
        yield None
        return
    with Tier(*FLAGS, port=free_ports(3)) as running:
        yield running


@pytest.fixture
def tier(own_tier: Tier | None) -> Tier:
    """The tier itself, for stories that kill its processes."""
    if own_tier is None:
        pytest.skip("GROUPD_TEST_BOOTSTRAP names a cluster whose processes are not ours to kill")
    return own_tier


@pytest.fixture(scope="session")
def bootstrap(own_tier: Tier | None) -> str:
    return own_tier.bootstrap if own_tier is not None else os.environ["GROUPD_TEST_BOOTSTRAP"]


@pytest.fixture(scope="session")
def tools(built: Path, bootstrap: str) -> Iterator[Tools]:
    with Tools(jvm.build_tools(), bootstrap) as running:
        yield running


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


_names = itertools.count()
_run = os.getpid()
"""A number in every name, so that a second run against the same cluster finds nothing of the first."""


@pytest.fixture
def topic(admin: AdminClient) -> str:
    """A new topic of six partitions."""
    return new_topic(admin)


def new_topic(admin: AdminClient) -> str:
    name = f"java-topic-{_run}-{next(_names)}"
    admin.create_topics([NewTopic(name, 6, 1)])[name].result(DEADLINE_S)
    return name


@pytest.fixture
def group_id() -> str:
    return f"java-group-{_run}-{next(_names)}"


@pytest.fixture
def start(built: Path, bootstrap: str) -> Iterator[Start]:
    members: list[JavaMember] = []

    def started(topic: str, group_id: str, **settings: Any) -> JavaMember:
        member = partial(JavaMember, built, bootstrap)(topic, group_id, **settings)
        members.append(member)
        return member

    yield started
    for member in members:
        member.kill()
