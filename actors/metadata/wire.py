"""Metadata images as bytes: how the controller's leader sends them to every actor."""

from __future__ import annotations

from typing import cast

import msgpack

from actors.metadata.commands import Unreadable
from actors.metadata.image import MetadataImage, NodeImage, TopicImage

FORMAT = 2
"""Stands before every packed image (design.md section 11); any other is refused."""


def pack_image(image: MetadataImage) -> bytes:
    fields = (
        FORMAT,
        image.version,
        image.cluster_id,
        image.controller_node_id,
        tuple(image.nodes.values()),
        tuple(image.topics.values()),
        image.offsets_leaders,
        image.controllers,
    )
    return cast(bytes, msgpack.packb(fields))


def unpack_image(packed: bytes) -> MetadataImage:
    """Raises Unreadable."""
    try:
        format_version, *fields = msgpack.unpackb(packed, use_list=False)
        if format_version != FORMAT:
            raise Unreadable(f"image of format version {format_version}; this release reads {FORMAT}")
        version, cluster_id, controller_node_id, nodes, topics, offsets_leaders, controllers = fields
        return MetadataImage(
            version=version,
            cluster_id=cluster_id,
            controller_node_id=controller_node_id,
            nodes=tuple(NodeImage(*node) for node in nodes),
            topics=tuple(TopicImage(*topic) for topic in topics),
            offsets_leaders=offsets_leaders,
            controllers=controllers,
        )
    except Unreadable:
        raise
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise Unreadable(f"no metadata image: {error!r}") from error
