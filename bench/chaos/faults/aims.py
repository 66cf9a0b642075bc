"""Whom a fault hits, by chance. What is to leave every group a majority spares groups that miss somebody."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from actors.spec import CONTROLLER_GROUP
from bench.chaos.fault import NothingToHit
from bench.chaos.site import Actor, Site

Aim = Callable[[Site, Random], list[Actor]]
"""Raises NothingToHit."""


def leader(site: Site, chance: Random) -> list[Actor]:
    """Of an offsets partition."""
    return [_one([actor for actor in _spare(site) if actor.leads], chance, "leader")]


def follower(site: Site, chance: Random) -> list[Actor]:
    return [_one([actor for actor in _spare(site) if not actor.leads], chance, "follower")]


def replica(site: Site, chance: Random) -> list[Actor]:
    """Whether it leads or not."""
    return [_one(_spare(site), chance, "replica")]


def majority(site: Site, chance: Random) -> list[Actor]:
    """Of the copies of one partition: its leader and as many more as it takes."""
    found = copies(site, chance)
    return found[: len(found) // 2 + 1]


def copies(site: Site, chance: Random) -> list[Actor]:
    """All of one partition, its leader first."""
    chosen = _one([actor for actor in site.replicas() if actor.leads], chance, "led partition")
    assert chosen.group is not None, "a replica has a group"
    return site.copies(chosen.group)


def controller(site: Site, chance: Random) -> list[Actor]:
    """The controller's leader."""
    found = [actor for actor in site.copies(CONTROLLER_GROUP) if actor.leads]
    if not _can_spare(found[0], site.copies(CONTROLLER_GROUP)) if found else True:
        raise NothingToHit("the controller is not whole")
    return found


def broker(site: Site, chance: Random) -> list[Actor]:
    return [_one([actor for actor in site.actors() if actor.group is None], chance, "broker")]


def one_leader(site: Site, chance: Random) -> Actor:
    return leader(site, chance)[0]


def _spare(site: Site) -> list[Actor]:
    """Replicas of partitions without which a majority is up."""
    replicas = site.replicas()
    return [actor for actor in replicas if _can_spare(actor, replicas)]


def _can_spare(actor: Actor, others: list[Actor]) -> bool:
    """Whoever is missing now does not answer: a group has as many copies as answer when it is whole."""
    group = [each for each in others if each.group == actor.group and each.is_up]
    return actor in group and len(group) >= 3


def _one(found: list[Actor], chance: Random, what: str) -> Actor:
    if not found:
        raise NothingToHit(f"there is no {what} to be hit now")
    return chance.choice(found)
