"""The upstream cluster's active controller, as it describes itself, and what may be wrong with it."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from actors.upstream.levels import can_cordon, misunderstood
from actors.upstream.node import TierNode
from actors.upstream.requests import CORDONING_VERSION, NEEDED_VERSIONS, BrokerHeartbeat, Request


class Controller(NamedTuple):
    """The active controller."""

    cluster_id: str
    """Kafka tells it from 3.7 on; "" if it is an older one."""
    controller_ids: frozenset[int]
    """The node ids of the controllers that vote."""
    versions: Mapping[int, tuple[int, int]]
    """API key -> the lowest and the highest version that it speaks."""
    supported: Mapping[str, int]
    """Feature -> the highest level that its software supports."""
    finalized: Mapping[str, int]
    """Feature -> the level that is in force."""


def newest_version(controller: Controller, request: type[Request]) -> int | None:
    """Return the newest version of a request that both sides speak; None if there is none."""
    needed = NEEDED_VERSIONS[request]
    low, high = controller.versions.get(needed.api_key, (0, -1))
    newest = min(high, needed.high)
    return newest if newest >= max(low, needed.low) else None


def may_cordon(controller: Controller) -> bool:
    """Return whether brokers may cordon their log directories."""
    newest = newest_version(controller, BrokerHeartbeat)
    return newest is not None and newest >= CORDONING_VERSION and can_cordon(controller.finalized)


def wrong_with(controller: Controller, node: TierNode) -> Iterator[str]:
    """Name everything that keeps a node from being a broker of this controller's cluster."""
    if controller.cluster_id != node.cluster_id:
        yield (
            f"the controllers are those of cluster {controller.cluster_id}, and this node belongs to cluster "
            f"{node.cluster_id}: check the addresses of the controllers"
        )
    if node.broker_id in controller.controller_ids:
        yield f"id {node.broker_id} is a controller's: choose another id for this node"
    for problem in misunderstood(controller.finalized):
        yield f"{problem}: raise it or lower it with kafka-features, or install a groupd that understands it"
    for request, needed in NEEDED_VERSIONS.items():
        if newest_version(controller, request) is None:
            low, high = controller.versions.get(needed.api_key, (0, -1))
            spoken = "not at all" if high < 0 else f"{low} to {high}"
            yield (
                f"the controller speaks {request.__name__} {spoken}, and this release {needed.low} to "
                f"{needed.high}: the tier needs Kafka 3.9 or newer, without ZooKeeper"
            )
