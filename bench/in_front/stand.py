"""One Kafka with controllers of its own and one tier, as two peers: the brokers alone, and the tier in front
of them. What is measured on both is measured on the same processes of Kafka's, with the same groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.attached import site as sites
from bench.attached.site import Site
from bench.ground.throwaway import Tier
from bench.peers import groupd, kafka_nodes
from bench.peers.kafka import kill_coordinator, start_the_dead
from bench.peers.kafka_nodes import KafkaNodes
from bench.peers.lines import Address
from bench.peers.options import Options
from bench.peers.peer import SETTINGS, Peer
from bench.peers.plan import Sample

COPIES: Final = 3
HEAP: Final = "768m"


class Stand:
    """The Kafka and the tier. `kept` is what scenarios keep: the groups are the same ones for both peers."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.kept: dict[str, Any] = {}
        self._nodes: KafkaNodes | None = None
        self._tier: Tier | None = None
        self._is_attached = False

    @property
    def site(self) -> Site:
        """The running Kafka, with the tier."""
        return Site(self.nodes, self.tier)

    @property
    def nodes(self) -> KafkaNodes:
        """The processes of Kafka's."""
        assert self._nodes is not None, "started"
        return self._nodes

    @property
    def tier(self) -> Tier:
        """The running tier."""
        assert self._tier is not None, "started"
        return self._tier

    def tier_pids(self) -> list[int]:
        """The process ids of all of the tier's processes."""
        return [process.pid for process in self.tier.processes()]

    def start(self) -> None:
        """Start both, unless they run. Raises RuntimeError with their words."""
        if self._tier is not None:
            return
        settings = {**SETTINGS, **sites.SETTINGS}
        self._nodes = sites.Nodes(sites.BROKERS, settings, self.options.kafka_home, heap=HEAP)
        self._nodes.prepare()
        self._nodes.start()
        flags = (f"--set={name}={value}" for name, value in SETTINGS.items())
        self._tier = sites.in_front_of(self._nodes, *flags).__enter__()

    def stop(self) -> None:
        """Stop both. May be called at any time, more than once."""
        tier, nodes = self._tier, self._nodes
        self._tier = self._nodes = None
        self._is_attached = False
        self.kept.clear()
        try:
            if tier is not None:
                tier.__exit__()
        finally:
            if nodes is not None:
                nodes.stop()

    def attach(self) -> None:
        """Have the tier take all groups over, unless it has them. Raises RuntimeError with its words."""
        if not self._is_attached:
            self.tier.run("attach", "--despite-warnings")
            self._is_attached = True

    def detach(self) -> None:
        """Have the tier give all groups back, if it has them. Raises RuntimeError with its words."""
        if self._is_attached:
            self.tier.run("detach")
            self._is_attached = False


class StandingPeer(Peer):
    """What both peers have in common: clients know the brokers."""

    copies = COPIES

    def __init__(self, stand: Stand) -> None:
        super().__init__(stand.options)
        self.stand = stand
        self.kept = stand.kept

    def missing(self) -> str:
        return kafka_nodes.missing(self.options.kafka_home)

    def start(self) -> None:
        self.stand.start()

    def _end(self) -> None:
        """What has failed for one of the two may have for the other, too: both begin anew."""
        self.stand.stop()

    @property
    def bootstrap(self) -> list[Address]:
        nodes = self.stand.nodes
        return [nodes.address(number) for number in nodes.numbers]

    def take_turn(self) -> None:
        """Have the groups coordinated by those who are measured next."""
        self.come_up()
        self._take_turn()
        self.stand.site.wait_until_whole()

    def come_up(self) -> None:
        """Start all processes unless they run, for the other peer's failure has ended them."""
        self.stand.start()
        self.wait_until_ready()

    @abstractmethod
    def _take_turn(self) -> None:
        """Attach the tier, or detach it."""


class Alone(StandingPeer):
    """The brokers coordinate the groups; the tier idles, and does not count."""

    name = "alone-3"
    warm_up_s = 20.0

    def pids(self) -> list[int]:
        return self.stand.nodes.pids()

    def software(self) -> str:
        return sites.software_of(sites.Nodes(sites.BROKERS, {}, self.options.kafka_home))

    def kill_leader(self, groups: Sequence[str]) -> tuple[float, list[str]]:
        return kill_coordinator(self.stand.nodes, groups)

    def mend(self) -> None:
        start_the_dead(self.stand.nodes)
        self.wait_until_ready()
        self.stand.site.wait_until_whole()

    def _take_turn(self) -> None:
        self.stand.detach()


class Attached(StandingPeer):
    """The tier coordinates the groups. Everything counts: its processes and all of Kafka's."""

    name = "attached-3"

    def pids(self) -> list[int]:
        return [*self.stand.nodes.pids(), *self.stand.tier_pids()]

    def software(self) -> str:
        return f"{groupd.release()} with three nodes in front of it"

    def kill_leader(self, groups: Sequence[str]) -> tuple[float, list[str]]:
        return groupd.kill_leader(self.stand.tier, COPIES, groups)

    def mend(self) -> None:
        groupd.leaders(self.stand.tier, COPIES)
        self.stand.site.wait_until_whole()

    def _take_turn(self) -> None:
        self.stand.attach()


def in_turn(measure: Callable[[Peer], Sample]) -> Callable[[Peer], Sample]:
    """Return what measures a peer when the tier was attached, or detached, as that peer has it."""

    def measured(peer: Peer) -> Sample:
        assert isinstance(peer, StandingPeer), peer
        peer.take_turn()
        return measure(peer)

    return measured
