"""What the upstream cluster's metadata say is laid over the tier's own: the image that coordinators look at.
PURE.

The cluster says which topics there are, how they, groups and brokers are configured, who its users are and
what they may do. The tier says what its nodes are, who leads its offsets partitions and what has become of
them. Nodes keep the ids that they have within the tier, so the cluster's brokers get ids here that no node
has (`inner_id`).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from actors.ground.changeable import ALL_NODES, CHANGEABLE, parsed
from actors.ground.image import NO_NODE, NO_TOPIC_ID, MetadataImage, TopicImage, Upstream
from actors.ground.settings import GroupSettings
from actors.ground.spec import UpstreamSpec
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.security.scram import MECHANISM_NAMES
from actors.upstream.image import BROKER_RESOURCE, GROUP_RESOURCE, ClusterImage, Topic

_MECHANISMS: Final = frozenset(MECHANISM_NAMES.values())


def inner_id(spec: UpstreamSpec, broker_id: int) -> int:
    """Return the id that a broker of the cluster has within the tier: a node's own; below NO_NODE, or above
    all nodes', for other brokers; NO_NODE for no broker."""
    if broker_id < 0:
        return NO_NODE
    behind = broker_id - spec.first_broker_id
    return behind if behind >= 0 else behind - 1


def outer_id(spec: UpstreamSpec, leader: int) -> int:
    """Return the id that whoever leads a topic's partition has in the cluster, as `inner_id` made it."""
    if leader == NO_NODE:
        return NO_NODE
    return spec.first_broker_id + (leader if leader >= 0 else leader + 1)


def overlaid(own: MetadataImage, cluster: ClusterImage, spec: UpstreamSpec) -> MetadataImage:
    """Return the tier's own image with what the cluster says. Its version rises with each of the two. Only
    the cluster says who its users are, and what they may do."""
    topics = tuple(
        _topic_image(cluster, topic, spec) for topic in cluster.topics.values() if topic.name != OFFSETS_TOPIC
    )
    credentials = (each for each in cluster.credentials.values() if each.mechanism in _MECHANISMS)
    return MetadataImage(
        version=own.version + cluster.offset + 1,
        cluster_id=spec.cluster_id,
        controller_node_id=own.controller_node_id,
        nodes=tuple(own.nodes.values()),
        topics=topics,
        offsets_leaders=own.offsets_leaders,
        controllers=own.controllers,
        group_configs={
            name: dict(configs)
            for (resource_type, name), configs in cluster.configs.items()
            if resource_type == GROUP_RESOURCE
        },
        broker_configs=_broker_configs(own, cluster, spec),
        features=own.features,
        acls=tuple(sorted(set(cluster.acls.values()))),
        credentials=tuple(credentials),
        homes=own.homes,
        unmoved=own.unmoved,
        undropped=own.undropped,
        upstream_goal=own.upstream_goal,
        upstream=Upstream(
            cluster.topic_ids.get(OFFSETS_TOPIC, NO_TOPIC_ID),
            {
                inner_id(spec, broker.broker_id): broker.rack
                for broker in cluster.brokers.values()
                if inner_id(spec, broker.broker_id) not in own.nodes
            },
        ),
    )


def is_news(shown: MetadataImage | None, image: MetadataImage) -> bool:
    """Return whether an image says something that the one shown last does not. The cluster's metadata move on
    all the time, though hardly any of it concerns coordinators."""
    if shown is None:
        return True
    fields = (name for name in MetadataImage.__slots__ if name != "version")
    return any(getattr(shown, name) != getattr(image, name) for name in fields)


def _topic_image(cluster: ClusterImage, topic: Topic, spec: UpstreamSpec) -> TopicImage:
    leaders = tuple(inner_id(spec, partition.leader) for _, partition in sorted(topic.partitions.items()))
    configs = tuple(sorted(cluster.topic_configs(topic.name).items()))
    return TopicImage(topic.topic_id, topic.name, leaders, configs)


def _broker_configs(
    own: MetadataImage, cluster: ClusterImage, spec: UpstreamSpec
) -> Mapping[str, Mapping[str, str]]:
    """Return the settings of coordinators that were changed at run time, for all brokers of the cluster or
    for a node of the tier as one of them. What the tier would not take for itself is left out."""
    named = {ALL_NODES: ALL_NODES} | {str(spec.broker_id(node)): str(node) for node in own.nodes}
    found = {name: dict(configs) for name, configs in own.broker_configs.items()}
    for (resource_type, broker), configs in cluster.configs.items():
        if resource_type == BROKER_RESOURCE and broker in named:
            taken = dict(_of_coordinators(configs))
            if taken:
                found.setdefault(named[broker], {}).update(taken)
    return found


def _of_coordinators(configs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in configs.items():
        setting = CHANGEABLE.get(name)
        if setting is None or setting.field not in GroupSettings._fields:
            continue
        try:
            yield name, parsed(setting, text)
        except ValueError:
            continue
