"""One real tier for the tests of this folder: three nodes, three copies, started through the command line."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.polling import DEADLINE_S


@pytest.fixture(scope="session")
def tier() -> Iterator[Tier]:
    flags = ("--set", "group.initial.rebalance.delay.ms=200")
    with Tier(*flags, port=free_ports(3)) as running:
        yield running


@pytest.fixture(scope="session")
def admin(tier: Tier) -> AdminClient:
    return AdminClient({"bootstrap.servers": tier.bootstrap})


_names = itertools.count()


@pytest.fixture
def topic(admin: AdminClient) -> str:
    """A new topic of six partitions."""
    name = f"topic-{next(_names)}"
    admin.create_topics([NewTopic(name, 6, 1)])[name].result(DEADLINE_S)
    return name


@pytest.fixture
def group_id() -> str:
    return f"group-{next(_names)}"


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
