"""Chooses by chance whom of a tier a fault hits. A fault that is to leave every group a majority spares
groups that miss a replica."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Final, Protocol, TypeVar

from actors.ground.spec import CONTROLLER_GROUP
from bench.chaos.targets import target
from bench.chaos.targets.actor import Actor
from bench.chaos.targets.target import NothingToHit

T = TypeVar("T")


class Site(Protocol):
    """What knows the actors of a tier (`bench.chaos.targets.site`)."""

    def actors(self) -> list[Actor]: ...

    def replicas(self) -> list[Actor]: ...

    def copies(self, group: str) -> list[Actor]: ...


Aim = Callable[[Site, Random], list[Actor]]
"""Chooses the actors to hit. Raises NothingToHit."""


def leader(site: Site, chance: Random) -> list[Actor]:
    """Choose the leader of an offsets partition."""
    return [_one([actor for actor in _spare(site) if actor.leads], chance, "leader")]


def follower(site: Site, chance: Random) -> list[Actor]:
    return [_one([actor for actor in _spare(site) if not actor.leads], chance, "follower")]


def replica(site: Site, chance: Random) -> list[Actor]:
    """Choose a replica of an offsets partition, whether it leads or not."""
    return [_one(_spare(site), chance, "replica")]


def majority(site: Site, chance: Random) -> list[Actor]:
    """Choose a majority of one partition's replicas: its leader and as many more as it takes."""
    found = copies(site, chance)
    return found[: len(found) // 2 + 1]


def copies(site: Site, chance: Random) -> list[Actor]:
    """Choose all replicas of one partition, its leader first."""
    chosen = _one([actor for actor in site.replicas() if actor.leads], chance, "led partition")
    assert chosen.group is not None, "a replica has a group"
    return site.copies(chosen.group)


def whole_leader(site: Site, chance: Random) -> list[Actor]:
    """Choose the leader of a partition that misses no replica."""
    return _one(_whole(site), chance, "whole partition")[:1]


def whole_majority(site: Site, chance: Random) -> list[Actor]:
    """Choose a majority of a partition that misses no replica."""
    found = _one(_whole(site), chance, "whole partition")
    return found[: len(found) // 2 + 1]


def node(site: Site, chance: Random) -> list[Actor]:
    """Choose every actor of a node whose replicas all groups can spare."""
    actors = site.actors()
    chosen = chance.choice(sorted({actor.node_id for actor in actors}) or [0])
    hit = [actor for actor in actors if actor.node_id == chosen]
    left = [actor for actor in actors if actor.node_id != chosen and actor.is_up]
    for actor in hit:
        copies_left = sum(each.group == actor.group for each in left)
        if actor.group is not None and not (_can_spare(actor, actors) and copies_left >= 2):
            raise NothingToHit(f"{actor.name} cannot be spared")
    return hit


def everybody(site: Site, chance: Random) -> list[Actor]:
    """Choose all replicas, controllers and brokers."""
    return site.actors()


def controller(site: Site, chance: Random) -> list[Actor]:
    """Choose the controller's leader."""
    found = [actor for actor in site.copies(CONTROLLER_GROUP) if actor.leads]
    if not _can_spare(found[0], site.copies(CONTROLLER_GROUP)) if found else True:
        raise NothingToHit("the controller is not whole")
    return found


def broker(site: Site, chance: Random) -> list[Actor]:
    return [_one([actor for actor in site.actors() if actor.group is None], chance, "broker")]


def one_leader(site: Site, chance: Random) -> Actor:
    return leader(site, chance)[0]


def _spare(site: Site) -> list[Actor]:
    """The replicas without which their partitions still have a majority."""
    replicas = site.replicas()
    return [actor for actor in replicas if _can_spare(actor, replicas)]


def _whole(site: Site) -> list[list[Actor]]:
    """The replicas of each partition that has a leader and misses none, the leader first."""
    by_group: dict[str | None, list[Actor]] = defaultdict(list)
    for actor in sorted(_spare(site), key=lambda actor: not actor.leads):
        by_group[actor.group].append(actor)
    return [copies for copies in by_group.values() if copies[0].leads]


def _can_spare(actor: Actor, others: list[Actor]) -> bool:
    """Whether a group can spare the actor: at least three of its replicas are up, the actor among them."""
    group = [each for each in others if each.group == actor.group and each.is_up]
    return actor in group and len(group) >= 3


def _one(found: list[T], chance: Random, what: str) -> T:
    if not found:
        raise NothingToHit(f"there is no {what} to be hit now")
    return chance.choice(found)


AIMS: Final[dict[str, Aim]] = {
    target.LEADER: leader,
    target.FOLLOWER: follower,
    target.BROKER: broker,
    target.NODE: node,
    target.EVERYBODY: everybody,
    target.REPLICA: replica,
    target.MAJORITY: majority,
    target.COPIES: copies,
    target.CONTROLLER: controller,
}
"""The aims by the names that faults use."""
