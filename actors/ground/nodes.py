"""The nodes of a tier: those it began with stand in the spec, those of now in the metadata image."""

from __future__ import annotations

from actors.ground.image import AS_BEGUN, MetadataImage, NodeHome, NodeImage
from actors.ground.spec import NodeSpec, TierSpec, broker_name, controller_name


def nodes_of(spec: TierSpec, image: MetadataImage) -> tuple[NodeSpec, ...]:
    """Return the nodes that the image names. While it names none, the tier is starting, with the nodes of the
    spec.

    The spec says more of a node than clients are told (the port that it binds, its machine in the Ray
    cluster), so that its word is taken for every node that stands in it. Only a node on a machine of its own
    may have moved since the spec was made; then the image says where to.
    """
    if not image.nodes:
        return spec.nodes
    began_with = {node.node_id: node for node in spec.nodes}
    return tuple(_node(began_with.get(node_id), image, node_id) for node_id in sorted(image.nodes))


def told_of_leaders(spec: TierSpec, image: MetadataImage) -> list[str]:
    """Return the names of the actors that are told of a new leader: all brokers and all replicas of the
    controller, also those that were added since the spec was made."""
    controllers = image.controllers or [replica_id for replica_id, _ in spec.controllers]
    brokers = [broker_name(node.node_id) for node in nodes_of(spec, image)]
    return [*brokers, *map(controller_name, controllers)]


def _node(began: NodeSpec | None, image: MetadataImage, node_id: int) -> NodeSpec:
    home = image.homes.get(node_id)
    if began is not None and (home is None or home.port == AS_BEGUN or began.machine is None):
        return began
    return _spec_of(image.nodes[node_id], home)


def _spec_of(node: NodeImage, home: NodeHome | None) -> NodeSpec:
    if home is None or home.port == AS_BEGUN:
        home = NodeHome(node.port)
    return NodeSpec(
        node_id=node.node_id,
        host=node.host,
        port=home.port,
        rack=node.rack,
        ray_node=home.ray_node,
        machine=home.machine,
        advertised_port=None if node.port == home.port else node.port,
    )


def node_address(spec: TierSpec, image: MetadataImage, node_id: int) -> tuple[str, int]:
    """Return host and port at which the tier's own actors reach a node's broker. Raises ConnectionError."""
    for node in nodes_of(spec, image):
        if node.node_id == node_id:
            return node.host, node.port
    raise ConnectionError(f"the tier has no node {node_id}")
