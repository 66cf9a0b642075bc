"""The commands that add nodes to the tier, have them give up what they hold, and remove them."""

from __future__ import annotations

from typing import NamedTuple

from actors.ground.image import ACTIVE


class AddNode(NamedTuple):
    """The order to take a node into the tier. It is refused if the tier has the node or its address, or had a
    node of that id before: what such a node left behind must not be taken for the new one's."""

    node_id: int
    host: str
    port: int
    """The port that clients are told."""
    rack: str | None
    bound_port: int
    """The port that the broker binds."""
    machine: str | None = None
    ray_node: str | None = None
    duty: int = ACTIVE


class SetNodeDuty(NamedTuple):
    """The order that a node is to hold replicas (ACTIVE), to give them up (DRAINING), or is given up itself
    (LOST); `actors.ground.image` says more. It is refused if the other nodes could not hold all copies."""

    node_id: int
    duty: int


class MoveNode(NamedTuple):
    """The news that the machine of a node, and with it the node, has another address."""

    node_id: int
    host: str
    bound_port: int
    machine: str


class RemoveNode(NamedTuple):
    """The order to forget a node. It is refused while a replica is there."""

    node_id: int


NodeCommand = AddNode | SetNodeDuty | MoveNode | RemoveNode
NODE_COMMANDS = (AddNode, SetNodeDuty, MoveNode, RemoveNode)
