"""Faults of the network: between replicas by the transport's own hooks, between clients and nodes by a
proxy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from bench.chaos.targets import aims
from bench.chaos.targets.fault import OUTAGE, SAFE, FaultKind, Injury
from bench.chaos.targets.proxy import FAIR, Weather
from bench.chaos.targets.site import Site, tier_of
from bench.chaos.targets.target import NothingToHit, Target
from storage.raft.injected import Faults, LinkFault

LOSS: Final = 0.2
SLOW_MS: Final = 60.0
JITTER_MS: Final = 60.0
"""The jitter of slow links. Added to their delay it stays below the time after which a follower stands for
election: they are slow, not down."""
CLIENT_DELAY_S: Final = 0.2

Plan = Callable[[Site, Random], tuple[str, tuple[LinkFault, ...]]]
"""Chooses whom to hit. Returns its name and the faults of the links. Raises NothingToHit."""


@dataclass(slots=True, kw_only=True)
class Links:
    """Faults of links between replicas."""

    name: str
    about: str
    plan: Plan
    reach: str = SAFE
    needs: frozenset[str] = frozenset({"injection"})

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        site = tier_of(target)
        whom, links = self.plan(site, chance)
        # A leader that is cut off answers its clients neither yes nor no until it falls.
        return Injury(whom, site.fault_file.add(Faults(links=links)), silences=True)


def _cut_leader(site: Site, chance: Random) -> tuple[str, tuple[LinkFault, ...]]:
    hit = aims.one_leader(site, chance)
    return hit.label, _both_ways(hit.name)


def _cut_follower(site: Site, chance: Random) -> tuple[str, tuple[LinkFault, ...]]:
    [hit] = aims.follower(site, chance)
    return hit.label, _both_ways(hit.name)


def _mute_leader(site: Site, chance: Random) -> tuple[str, tuple[LinkFault, ...]]:
    hit = aims.one_leader(site, chance)
    return hit.label, (LinkFault(hit.name, "*", loss=1),)


def _deafen_leader(site: Site, chance: Random) -> tuple[str, tuple[LinkFault, ...]]:
    hit = aims.one_leader(site, chance)
    return hit.label, (LinkFault("*", hit.name, loss=1),)


def _cut_node(site: Site, chance: Random) -> tuple[str, tuple[LinkFault, ...]]:
    node = aims.one_leader(site, chance).node_id
    names = [actor.name for actor in site.actors() if actor.group is not None and actor.node_id == node]
    return f"node {node}", tuple(link for name in names for link in _both_ways(name))


def _cut_all(site: Site, chance: Random) -> tuple[str, tuple[LinkFault, ...]]:
    group = aims.one_leader(site, chance).group
    return f"{group}, all copies", (LinkFault(f"{group}-*", "*", loss=1),)


def _lossy(site: Site, chance: Random) -> tuple[str, tuple[LinkFault, ...]]:
    return "all replicas", (LinkFault("*", "*", loss=LOSS),)


def _slow(site: Site, chance: Random) -> tuple[str, tuple[LinkFault, ...]]:
    return "all replicas", (LinkFault("*", "*", delay_ms=SLOW_MS, jitter_ms=JITTER_MS),)


def _both_ways(name: str) -> tuple[LinkFault, LinkFault]:
    return LinkFault(name, "*", loss=1), LinkFault("*", name, loss=1)


@dataclass(slots=True, kw_only=True)
class Clients:
    """A fault that the proxy does to clients' connections for a while."""

    name: str
    about: str
    weather: Weather = FAIR
    of_all_nodes: bool = True
    resets: bool = False
    """Connections end with a reset: at the beginning, or after the weather if the fault has one."""
    reach: str = SAFE
    needs: frozenset[str] = field(default=frozenset({"proxy"}))

    def begin(self, target: Target, chance: Random, for_s: float) -> Injury:
        proxy = target.proxy
        nodes = proxy.nodes if self.of_all_nodes else [chance.choice(proxy.nodes)]
        proxy.set(self.weather, nodes)
        if self.resets and self.weather == FAIR:
            if not (ended := proxy.reset(nodes)):
                raise NothingToHit("no client is connected")
            return Injury(_words(nodes), lambda: None, detail=f"{ended} connections")

        def undo() -> None:
            if self.resets:
                proxy.reset(nodes)
            proxy.set(FAIR, nodes)

        is_silent = not (self.weather.requests_pass and self.weather.answers_pass)
        return Injury(_words(nodes), undo, silences=is_silent)


def _words(nodes: list[int]) -> str:
    return f"clients of {'node' if len(nodes) == 1 else 'nodes'} {', '.join(map(str, nodes))}"


KINDS: tuple[FaultKind, ...] = (
    Links(
        name="links-cut-leader",
        about="No message passes between a leader and its followers, whose links stay open.",
        plan=_cut_leader,
    ),
    Links(
        name="links-cut-follower",
        about="No message passes between a follower and its peers.",
        plan=_cut_follower,
    ),
    Links(
        name="links-mute-leader",
        about="What a leader sends to its followers is lost; it hears them (one-way).",
        plan=_mute_leader,
    ),
    Links(
        name="links-deaf-leader",
        about="What is sent to a leader by its followers is lost; they hear it (one-way).",
        plan=_deafen_leader,
    ),
    Links(
        name="links-cut-node",
        about="No message passes between the replicas of one node and all others.",
        plan=_cut_node,
    ),
    Links(
        name="links-cut-all",
        about="No message passes between any replicas of one partition.",
        plan=_cut_all,
        reach=OUTAGE,
    ),
    Links(
        name="links-lossy",
        about=f"{LOSS:.0%} of all messages between replicas are lost.",
        plan=_lossy,
    ),
    Links(
        name="links-slow",
        about=f"All messages between replicas are {SLOW_MS:.0f} to {SLOW_MS + JITTER_MS:.0f} ms late.",
        plan=_slow,
    ),
    Clients(
        name="clients-reset",
        about="Every client's connection ends with a reset.",
        resets=True,
    ),
    Clients(
        name="clients-slow",
        about=f"Requests and answers of all clients are {CLIENT_DELAY_S * 1000:.0f} ms late, each way.",
        weather=Weather(delay_s=CLIENT_DELAY_S),
    ),
    Clients(
        name="clients-black-hole",
        about="Nothing passes between clients and one node, whose connections stay open.",
        weather=Weather(requests_pass=False, answers_pass=False),
        of_all_nodes=False,
        reach=OUTAGE,
    ),
    Clients(
        name="clients-lost-answers",
        about="Requests reach the nodes, no answer comes back, and in the end connections are reset.",
        weather=Weather(answers_pass=False),
        resets=True,
        reach=OUTAGE,
    ),
)
