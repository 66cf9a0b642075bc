"""Members that commit all the time while a tier suffers, one group for each offsets partition."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Coroutine
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from actors.network.wire import Wire
from actors.protocol.java_hash import partition_for
from bench.chaos.targets.site import Site
from bench.chaos.targets.target import until
from bench.peers.settling import settle_group
from tests.tier.committer import Committer

TOPIC = "orders"
DEADLINE_S = 60.0
CONNECT_TIMEOUT_S = 2.0
MORE = 3
"""How many commits each group makes before the load counts as making progress."""


class Load:
    """Runs in a thread of its own. Use as a context manager; `check` it before it is left.

    `name` begins the names of its groups, for a second load on the same tier; `nodes` are the addresses of
    the nodes, unless they are still those that the tier began with.
    """

    def __init__(
        self, site: Site, name: str = "under-attack", nodes: list[tuple[str, int]] | None = None
    ) -> None:
        self._name = name
        self._nodes = nodes or addresses(site)
        self._partitions = site.spec.offsets_partitions
        self._bootstrap = site.bootstrap
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._halt = asyncio.Event()
        self._members: list[_Member] = []
        self._running: list[asyncio.Task[None]] = []

    def __enter__(self) -> Load:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        try:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(DEADLINE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        self._thread.start()
        self._await(self._start())
        return self

    def __exit__(self, *exc: object) -> None:
        self._await(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def acknowledged(self) -> list[int]:
        """Return how many commits of each partition's group were acknowledged."""
        return [member.acknowledged for member in self._members]

    def progress(self) -> None:
        """Wait until every group commits anew. Raises TimeoutError."""
        before = self.acknowledged()
        until(
            lambda: all(
                after >= so_far + MORE for after, so_far in zip(self.acknowledged(), before, strict=True)
            ),
            f"every group commits ({before} commits were acknowledged)",
            DEADLINE_S,
        )

    def pace_s(self, partition: int) -> float:
        """Return how long one commit of a partition's group takes, from one acknowledgement to the next."""
        times = []
        for _ in range(MORE):
            before, began = self.acknowledged()[partition], time.monotonic()
            while self.acknowledged()[partition] == before:
                assert time.monotonic() - began < DEADLINE_S, "nothing is committed"
                self._breathe()
            times.append(time.monotonic() - began)
        return max(times)

    def _breathe(self) -> None:
        self._await(asyncio.sleep(0.002))

    def check(self) -> None:
        """Check that no group lost a commit or a membership."""
        self._await(self._check())

    def _await(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    async def _start(self) -> None:
        for partition in range(self._partitions):
            group_id = _group_of(self._name, partition, self._partitions)
            [member] = await settle_group(self._nodes[0], group_id, 1)
            self._members.append(_Member(list(self._nodes), member, TOPIC))
        self._running = [asyncio.create_task(member.run(self._halt)) for member in self._members]

    async def _stop(self) -> None:
        self._halt.set()
        for running in self._running:
            await asyncio.wait([running], timeout=DEADLINE_S)

    async def _check(self) -> None:
        for member in self._members:
            assert member.refusals == []
            acknowledged = member.acknowledged
            assert await member.read_back() >= acknowledged
            assert await member.heartbeat() == 0, "the member is in the generation it was in"


class _Member(Committer):
    """Does not wait for a node that is silent."""

    async def _connect(self) -> Wire:
        for _ in range(len(self._bootstraps)):
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await super()._connect()
            except TimeoutError:
                self._bootstraps.append(self._bootstraps.pop(0))
        raise ConnectionError("every node is silent")


def addresses(site: Site) -> list[tuple[str, int]]:
    """Return the addresses of the nodes, in order, as clients find them."""
    return [(node.host, node.clients_port) for node in site.spec.nodes]


def _group_of(name: str, partition: int, partitions: int) -> str:
    names = (f"{name}-{number}" for number in itertools.count())
    return next(name for name in names if partition_for(name, partitions) == partition)
