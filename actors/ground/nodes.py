"""The nodes of a tier: those it began with stand in the spec, those of now in the metadata image."""

from __future__ import annotations

from actors.ground.image import MetadataImage, NodeImage
from actors.ground.spec import NodeSpec, TierSpec


def nodes_of(spec: TierSpec, image: MetadataImage) -> tuple[NodeSpec, ...]:
    """Return the nodes that the image names. While it names none, the tier is starting, with the nodes of the
    spec.

    The spec says more of a node than clients are told (the port that it binds, its machine in the Ray
    cluster), so that its word is taken for every node that stands in it.
    """
    if not image.nodes:
        return spec.nodes
    began_with = {node.node_id: node for node in spec.nodes}
    return tuple(
        began_with.get(node_id) or _as_clients_see(image.nodes[node_id]) for node_id in sorted(image.nodes)
    )


def _as_clients_see(node: NodeImage) -> NodeSpec:
    return NodeSpec(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)


def node_address(spec: TierSpec, image: MetadataImage, node_id: int) -> tuple[str, int]:
    """Return host and port at which the tier's own actors reach a node's broker. Raises ConnectionError."""
    for node in nodes_of(spec, image):
        if node.node_id == node_id:
            return node.host, node.port
    raise ConnectionError(f"the tier has no node {node_id}")
