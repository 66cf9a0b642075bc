"""Tell the tier that a replica of this node leads an offsets partition.

The node's broker does so, and not the leader: whoever calls an actor has Ray load what that is made of. A
broker has all of it already, while a leader would load brokers and controllers in the moment in which it has
been elected, and the clients of the dead leader come.
"""

from __future__ import annotations

from typing import Final

from actors import runtime
from actors.ground.image import MetadataImage
from actors.ground.nodes import told_of_leaders
from actors.ground.spec import TierSpec, broker_name

TIMEOUT_S: Final = 2.0
LeaderNews = tuple[int, int, int]
"""The news of a leader: offsets partition, its node, its term."""


async def tell_the_tier(spec: TierSpec, image: MetadataImage, news: LeaderNews) -> None:
    """Tell the other brokers and the controllers of a leader. Who does not answer learns it from the
    controllers."""
    own = broker_name(news[1])
    names = [name for name in told_of_leaders(spec, image) if name != own]
    await runtime.tell_all(names, spec.namespace, "on_leader", news, TIMEOUT_S)
