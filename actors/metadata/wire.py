"""Pack metadata images into bytes, as the controller's leader sends them to every actor."""

from __future__ import annotations

from typing import Any, cast

import msgpack

from actors.ground.acl import Acl
from actors.ground.features import Features
from actors.ground.image import MetadataImage, NodeHome, NodeImage, ScramCredential, TopicImage

FORMAT = 4
"""The format that stands before every packed image, unless it says more."""
WITH_HOMES = 5
"""The format of an image in which nodes were added or changed since the tier began."""
READABLE = (2, 3, FORMAT, WITH_HOMES)
_ABSENT: list[Any] = [{}, (), (), {}, (0, ()), {}]
"""What stands for the fields that an older release does not write."""


class Unreadable(ValueError):
    """Raised if bytes are no command, result or image of a format that this release reads."""


def pack_image(image: MetadataImage) -> bytes:
    fields: tuple[Any, ...] = (
        WITH_HOMES if image.homes else FORMAT,
        image.version,
        image.cluster_id,
        image.controller_node_id,
        tuple(image.nodes.values()),
        tuple(image.created_topics.values()),
        image.offsets_leaders,
        image.controllers,
        image.group_configs,
        image.acls,
        tuple(image.credentials.values()),
        image.broker_configs,
        image.features,
    )
    if image.homes:
        fields = (*fields, image.homes)
    return cast(bytes, msgpack.packb(fields))


def unpack_image(packed: bytes) -> MetadataImage:
    """Return the image that `pack_image` packed. Raises Unreadable."""
    try:
        format_version, *fields = msgpack.unpackb(packed, use_list=False, strict_map_key=False)
        if format_version not in READABLE:
            raise Unreadable(f"image of format version {format_version}; this release reads {READABLE}")
        version, cluster_id, controller_node_id, nodes, topics, offsets_leaders, controllers, *later = fields
        later += _ABSENT[len(later) :]
        group_configs, acls, credentials, broker_configs, features, homes = later
        return MetadataImage(
            version=version,
            cluster_id=cluster_id,
            controller_node_id=controller_node_id,
            nodes=tuple(NodeImage(*node) for node in nodes),
            topics=tuple(TopicImage(*topic) for topic in topics),
            offsets_leaders=offsets_leaders,
            controllers=controllers,
            group_configs=group_configs,
            broker_configs=broker_configs,
            features=Features(*features),
            acls=tuple(Acl(*acl) for acl in acls),
            credentials=tuple(ScramCredential(*credential) for credential in credentials),
            homes={node_id: NodeHome(*home) for node_id, home in homes.items()},
        )
    except Unreadable:
        raise
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise Unreadable(f"no metadata image: {error!r}") from error
