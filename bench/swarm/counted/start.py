"""Finds when a group was stable for the first time.

PURE. The start of a group is over when no member begins a rebalance for QUIET_US while all members are at one
epoch and all partitions are owned, or when something is done to the group at rest: a member leaves or
crashes, a topic grows, there is a fault. Otherwise the start of a group that is redeployed soon would last as
long as the deploy.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Final

from bench.swarm.counted.life import Rebalance
from storage.history.calls import NEVER, Partitions

QUIET_US: Final = 5_000_000
"""How long a group has to be quiet: a KIP-848 member learns of an epoch, and gets partitions that others gave
up, at its next heartbeat, by default within five seconds."""


def are_all_owned(assigned: Iterable[Partitions], topics: Collection[str], sizes: Mapping[str, int]) -> bool:
    """Whether members have all partitions of their topics, as far as these are known: members at one epoch
    may have some to come."""
    owned = sum(len(numbers) for partitions in assigned for _, numbers in partitions)
    return owned >= sum(sizes.get(topic, 0) for topic in topics)


def stable_us(
    joined_us: int, rebalances: Iterable[Rebalance], after_rest: Container[int], disturbed_us: int
) -> int | None:
    """The time from the first join until the group was stable; None: it never was. `rebalances` come in the
    order of their beginning, `after_rest` are epochs before which the group was whole, `disturbed_us` is when
    something was done to the group at rest, or NEVER."""
    settled_us = NEVER
    for rebalance in rebalances:
        is_quiet = rebalance.began_us - settled_us >= QUIET_US and rebalance.epoch in after_rest
        if settled_us != NEVER and (is_quiet or NEVER < disturbed_us <= rebalance.began_us):
            break
        settled_us = max(settled_us, rebalance.settled_us)
    return None if NEVER in (settled_us, joined_us) else settled_us - joined_us
