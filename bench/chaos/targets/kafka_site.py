"""Apache Kafka under attack: brokers started here, gone afterwards. A proxy may stand before each.

A broker that was ended is started anew when the fault is over, as a supervisor does it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from actors.network.wire import Closed
from actors.upstream.controllers import listed
from bench.chaos.targets.proxy import Proxy, Way
from bench.chaos.targets.target import (
    BROKER,
    EVERYBODY,
    FOLLOWER,
    LEADER,
    NODE,
    NothingToHit,
    Server,
    Target,
    process,
    send,
    until,
)
from bench.peers import kafka_nodes
from bench.peers.kafka_nodes import HOST, KafkaNodes
from bench.peers.lines import Address, Line, unready
from cluster.ports import free_ports
from cluster.tier_file import TierError

HEAP: Final = "512m"
LOOK_TIMEOUT_S: Final = 5.0
STOP_TIMEOUT_S: Final = 60.0
READY_TIMEOUT_S: Final = 120.0
OFFSETS_TOPIC: Final = "__consumer_offsets"
METADATA_VERSION: Final = 5
LIST_GROUPS_VERSION: Final = 3
DESCRIBE_CLUSTER_VERSION: Final = 1
CONTROLLERS: Final = 2
"""The kind of endpoints at which DescribeCluster is answered by controllers."""
WORDS_MAX: Final = 300
SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}
"""Settings that a tier of ours has, too; for the rest both keep Kafka's defaults."""
SET: Final = "--set"
SHARED: Final = ("group.", "offsets.")
"""Settings that a tier of ours and Kafka both have begin so."""


class Broker(NamedTuple):
    """A broker whose process runs."""

    number: int
    pid: int
    groups: int
    """How many groups the broker coordinates; -1: it does not say."""

    @property
    def label(self) -> str:
        """The name that reports use."""
        return f"broker {self.number} ({self.groups} groups)" if self.groups > 0 else f"broker {self.number}"


@contextmanager
def throw_away(
    brokers: int, flags: Sequence[str] = (), home: Path | None = None, *, proxied: bool = True
) -> Iterator[KafkaSite]:
    """Start new brokers, and wait until all their offsets partitions answer. `flags` are those of `groupd
    up`: settings that Kafka has as well are set. Clients go through the proxy by a listener of their own, if
    `proxied`. Raises TierError if Kafka cannot run here, and RuntimeError with its words."""
    if missing := kafka_nodes.missing(home):
        raise TierError(f"Kafka cannot be started here: {missing}")
    port = free_ports(brokers)
    copies = {"default.replication.factor": str(min(3, brokers))}
    nodes = KafkaNodes(
        brokers,
        {**SETTINGS, **copies, **settings_of(flags)},
        home,
        advertised=[(HOST, port + number) for number in range(brokers)] if proxied else (),
        heap=HEAP,
    )
    try:
        nodes.prepare()
        ways = [Way(HOST, port + number - 1, nodes.clients_port(number)) for number in nodes.numbers]
        with Proxy(ways if proxied else ()) as proxy:
            nodes.start()
            clients = [(way.host, way.port) for way in ways] if proxied else _addresses(nodes)
            site = KafkaSite(nodes, proxy, clients)
            site.wait_until_whole(READY_TIMEOUT_S)
            yield site
    except TimeoutError as error:
        raise RuntimeError(f"Kafka did not start: {error}") from None
    finally:
        nodes.stop()


def _addresses(nodes: KafkaNodes) -> list[Address]:
    return [nodes.address(number) for number in nodes.numbers]


def settings_of(flags: Sequence[str]) -> dict[str, str]:
    """The settings in a tier's flags that Kafka understands."""
    said = [flag.split("=", 1) for before, flag in pairwise(flags) if before == SET]
    return {name: value for name, value in said if name.startswith(SHARED)}


class KafkaSite(Target):
    """A Kafka cluster under attack. Made by `throw_away`."""

    term_grace_s = 30.0  # a broker first hands over what it leads

    def __init__(self, nodes: KafkaNodes, proxy: Proxy, clients: Sequence[Address]) -> None:
        """`clients` are the addresses at which clients reach each broker."""
        self._nodes = nodes
        self._proxy = proxy
        self.bootstrap = listed(clients)
        self.controllers = listed(nodes.controller(number) for number in nodes.numbers)
        self.software = nodes.software()
        self.guests = 0
        """How many brokers of somebody else's the cluster has to have as well."""

    @property
    def has(self) -> frozenset[str]:
        return frozenset({"proxy"})

    @property
    def proxy(self) -> Proxy:
        return self._proxy

    @property
    def nodes(self) -> list[int]:
        return list(self._nodes.numbers)

    def close(self) -> None:
        self._nodes.stop()

    # Looking.

    def brokers(self) -> list[Broker]:
        """The brokers whose process runs, with the number of groups that each says it coordinates."""
        running = [number for number in self._nodes.numbers if self._nodes.runs(number)]
        counts = asyncio.run(_all(_groups, map(self._nodes.address, running)))
        return [
            Broker(number, self._nodes.process(number).pid, -1 if isinstance(count, str) else count)
            for number, count in zip(running, counts, strict=True)
        ]

    def is_whole(self) -> bool:
        return not self.complaint()

    def complaints(self) -> str:
        return self.complaint() or "nobody complains"

    def complaint(self) -> str:
        """Say what is not well; empty if all brokers know each other and every offsets partition has a
        coordinator and all its replicas."""
        if down := [number for number in self._nodes.numbers if not self._nodes.runs(number)]:
            return "; ".join(f"broker {number} does not run: {self._last_words(number)}" for number in down)
        addresses = _addresses(self._nodes)
        found = asyncio.run(_all(partial(_not_whole, self._nodes.brokers + self.guests), addresses))
        said = [f"broker {n}: {words}" for n, words in zip(self._nodes.numbers, found, strict=True) if words]
        return "; ".join(said) or asyncio.run(_soon(unready(addresses)))

    def active_controller(self) -> Broker | None:
        """The broker whose controller is active; None while they elect one."""
        active = active_controller(self._nodes)
        return next((each for each in self.brokers() if each.number == active), None)

    def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """The answer to a request by a broker that runs. Raises NothingToHit if none answers."""
        addresses = [self._nodes.address(broker.number) for broker in self.brokers() if broker.groups >= 0]
        asked: Look = partial(_asked, api, version, fields)
        for address in addresses:
            [answer] = asyncio.run(_all(asked, [address]))
            if not isinstance(answer, str):
                return dict(answer)
        raise NothingToHit("no broker answers")

    def _last_words(self, number: int) -> str:
        lines = [line for line in self._nodes.words(number).splitlines() if line.strip()]
        return lines[-1][-WORDS_MAX:] if lines else "it said nothing"

    # Hitting.

    def find(self, whom: str, chance: Random) -> Sequence[Server]:
        """The leader is the broker that coordinates most groups; a follower any other."""
        brokers = self.brokers()
        if whom == EVERYBODY:
            return brokers
        if len(brokers) - 1 <= self._nodes.brokers // 2:
            raise NothingToHit("no broker can be spared")
        leader = max(brokers, key=lambda broker: broker.groups)
        if whom == LEADER and leader.groups > 0:
            return [leader]
        followers = [broker for broker in brokers if broker != leader]
        if found := {FOLLOWER: followers, BROKER: brokers, NODE: brokers}.get(whom):
            return [chance.choice(found)]
        raise NothingToHit(f"there is no {whom} to be hit now")

    def bring_back(self, ended: Sequence[Server]) -> None:
        by_pid = {self._nodes.process(number).pid: number for number in self._nodes.numbers}
        for number in (by_pid[each.pid] for each in ended):
            self._launch(number)

    def restart(self, node: int) -> None:
        with suppress(TimeoutError):
            self.shut_down(node)
        with suppress(NothingToHit):
            send(process(self._nodes.process(node).pid), signal.SIGKILL)
        self._launch(node)
        self.wait_until_whole()

    def restart_politely(self, node: int) -> None:
        """Restart a broker, which may not be killed. Raises TimeoutError."""
        self.shut_down(node)
        self._launch(node)
        self.wait_until_whole()

    def shut_down(self, node: int) -> None:
        """Ask a broker to end, which first hands over what it leads. Raises TimeoutError."""
        ended = self._nodes.process(node)
        ended.send_signal(signal.SIGTERM)
        until(lambda: ended.poll() is not None, f"broker {node} ends", self.term_grace_s)

    def _launch(self, number: int) -> None:
        """Start a broker anew once it has ended."""
        self._nodes.process(number).wait(STOP_TIMEOUT_S)
        self._nodes.launch(number)


Look = Callable[[Line], Any]


def active_controller(nodes: KafkaNodes) -> int | None:
    """Return the number of the process whose controller is active; None while they elect one."""
    numbers = nodes.controller_numbers
    found = asyncio.run(_all(_active_controller, map(nodes.controller, numbers)))
    return next((number for number in numbers if number in found), None)


async def _all(look: Look, addresses: Iterable[Address]) -> list[Any]:
    """The answer of each broker, or in words why there is none."""
    return await asyncio.gather(*(_one(look, address) for address in addresses))


async def _one(look: Look, address: Address) -> Any:
    try:
        async with asyncio.timeout(LOOK_TIMEOUT_S):
            line = await Line.open(address)
            try:
                return await look(line)
            finally:
                line.close()
    except (OSError, Closed, TimeoutError) as error:
        return str(error) or "no answer"


async def _soon(look: Any) -> str:
    try:
        return str(await asyncio.wait_for(look, LOOK_TIMEOUT_S))
    except TimeoutError:
        return "a coordinator does not answer"


async def _groups(line: Line) -> int:
    return len((await line.call("list_groups", LIST_GROUPS_VERSION))["groups"])


async def _active_controller(line: Line) -> int:
    asked = {"include_cluster_authorized_operations": False, "endpoint_type": CONTROLLERS}
    return int((await line.call("describe_cluster", DESCRIBE_CLUSTER_VERSION, **asked))["controller_id"])


async def _asked(api: str, version: int, fields: Mapping[str, Any], line: Line) -> dict[str, Any]:
    return await line.call(api, version, **fields)


async def _not_whole(brokers: int, line: Line) -> str:
    """What a broker knows to be missing of so many, in words; empty if nothing is."""
    asked: dict[str, Any] = {"topics": [{"name": OFFSETS_TOPIC}], "allow_auto_topic_creation": False}
    answer = await line.call("metadata", METADATA_VERSION, **asked)
    if len(answer["brokers"]) < brokers:
        return f"it knows {len(answer['brokers'])} of {brokers} brokers"
    partitions = answer["topics"][0]["partitions"] if answer["topics"] else []
    behind = [each for each in partitions if len(each["isr_nodes"]) < len(each["replica_nodes"])]
    if behind:
        return f"{len(behind)} of {len(partitions)} offsets partitions miss a copy"
    return ""
