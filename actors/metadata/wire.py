"""Pack metadata images into bytes, as the controller's leader sends them to every actor."""

from __future__ import annotations

from typing import Any, cast

import msgpack

from actors.ground.acl import Acl
from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.image import (
    DETACHED,
    MetadataImage,
    NodeHome,
    NodeImage,
    ScramCredential,
    TopicImage,
    Upstream,
)
from actors.ground.release import LEVEL_MAX, unserved

FORMAT = 4
"""The format that stands before every packed image at level 1 of `groupd.version`; each level above has the
next one. What a level brought is told from that level on."""
WITH_HOMES = 5
"""The format of level 2, which brought nodes that were added or changed since the tier began, offsets
partitions that are split, and a Kafka cluster whose groups are coordinated."""
READABLE = tuple(range(2, FORMAT + LEVEL_MAX))
_ABSENT: list[Any] = [{}, (), (), {}, (0, ()), {}, (), (), DETACHED, None]
"""What stands for the fields that an older release does not write."""


class Unreadable(ValueError):
    """Raised if bytes are no command, result or image of a format that this release reads."""


def pack_image(image: MetadataImage) -> bytes:
    of_level = FORMAT - 1 + image.features.level(GROUPD_VERSION)
    is_in_front = image.upstream_goal != DETACHED or image.upstream is not None
    has_splits = image.undropped or is_in_front
    has_homes = image.homes or has_splits
    fields: tuple[Any, ...] = (
        max(of_level, WITH_HOMES) if has_homes else of_level,
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
    if has_homes:
        fields = (*fields, image.homes)
    if has_splits:
        fields = (*fields, image.unmoved, image.undropped)
    if is_in_front:
        fields = (*fields, image.upstream_goal)
    if image.upstream is not None:
        fields = (*fields, (image.upstream.offsets_topic_id, dict(image.upstream.racks)))
    return cast(bytes, msgpack.packb(fields))


def unpack_image(packed: bytes) -> MetadataImage:
    """Return the image that `pack_image` packed. Raises Unreadable."""
    try:
        format_version, *fields = msgpack.unpackb(packed, use_list=False, strict_map_key=False)
        if type(format_version) is int and format_version > READABLE[-1]:
            raise Unreadable(unserved(format_version - FORMAT + 1, "the tier"))
        if format_version not in READABLE:
            raise Unreadable(f"image of format version {format_version}; this release reads {READABLE}")
        version, cluster_id, controller_node_id, nodes, topics, offsets_leaders, controllers, *later = fields
        later += _ABSENT[len(later) :]
        group_configs, acls, credentials, broker_configs, features, homes, *newest = later
        unmoved, undropped, goal, upstream = newest
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
            unmoved=unmoved,
            undropped=undropped,
            upstream_goal=goal,
            upstream=None if upstream is None else Upstream(*upstream),
        )
    except Unreadable:
        raise
    except (TypeError, ValueError, msgpack.UnpackException) as error:
        raise Unreadable(f"no metadata image: {error!r}") from error
