"""What records about topics, partitions and configs change in the followed image. PURE."""

from collections.abc import Callable
from typing import Any, Final

from actors.upstream.image import TOPIC_RESOURCE, ClusterImage, Partition, Topic
from actors.upstream.records import id_bytes, ids_bytes

_LEADER_AS_BEFORE: Final = -2
_RECOVERY_AS_BEFORE: Final = -1
_RECOVERING: Final = 1
_CHANGES: Final = (
    ("isr", "isr"),
    ("replicas", "replicas"),
    ("removing_replicas", "removing_replicas"),
    ("adding_replicas", "adding_replicas"),
    ("eligible_leader_replicas", "eligible_leader_replicas"),
    ("last_known_elr", "last_known_leaders"),
)
"""A field of a change, which is None if it says nothing -> what it is called in the image."""
EVERY_TOPIC: Final = ""


def _topic(image: ClusterImage, fields: Any) -> None:
    topic_id = id_bytes(fields.topic_id)
    image.topics[topic_id] = Topic(topic_id, fields.name, {})
    image.topic_ids[fields.name] = topic_id


def _remove_topic(image: ClusterImage, fields: Any) -> None:
    topic = image.topics.pop(id_bytes(fields.topic_id), None)
    if topic is not None:
        image.topic_ids.pop(topic.name, None)
        # Nothing in the log says that its configs go, too.
        image.configs.pop((TOPIC_RESOURCE, topic.name), None)


def _partition(image: ClusterImage, fields: Any) -> None:
    topic = image.topics.get(id_bytes(fields.topic_id))
    if topic is None:
        return
    # Versions before 1 know nothing of directories, those before 2 nothing of eligible leader replicas.
    topic.partitions[fields.partition_id] = Partition(
        replicas=fields.replicas,
        isr=fields.isr,
        leader=fields.leader,
        leader_epoch=fields.leader_epoch,
        partition_epoch=fields.partition_epoch,
        adding_replicas=fields.adding_replicas,
        removing_replicas=fields.removing_replicas,
        eligible_leader_replicas=getattr(fields, "eligible_leader_replicas", None) or (),
        last_known_leaders=getattr(fields, "last_known_elr", None) or (),
        is_recovering=fields.leader_recovery_state == _RECOVERING,
        directories=ids_bytes(getattr(fields, "directories", ())),
    )


def _partition_change(image: ClusterImage, fields: Any) -> None:
    """Change a partition. The record does not name the epochs: each change is the next partition epoch, and
    one that names a leader, be it the same, is the next leader epoch (PartitionRegistration.merge)."""
    topic = image.topics.get(id_bytes(fields.topic_id))
    partition = None if topic is None else topic.partitions.get(fields.partition_id)
    if topic is None or partition is None:
        return
    changed: dict[str, Any] = {"partition_epoch": partition.partition_epoch + 1}
    for name, own_name in _CHANGES:
        value = getattr(fields, name, None)
        if value is not None:
            changed[own_name] = value
    directories = getattr(fields, "directories", None)
    if directories is not None:
        changed["directories"] = ids_bytes(directories)
    if fields.leader != _LEADER_AS_BEFORE:
        changed |= {"leader": fields.leader, "leader_epoch": partition.leader_epoch + 1}
    if fields.leader_recovery_state != _RECOVERY_AS_BEFORE:
        changed["is_recovering"] = fields.leader_recovery_state == _RECOVERING
    topic.partitions[fields.partition_id] = partition._replace(**changed)


def _clear_elr(image: ClusterImage, fields: Any) -> None:
    """Forget the eligible leader replicas of a topic, or of all: min.insync.replicas was changed
    (KIP-966)."""
    if fields.topic_name == EVERY_TOPIC:
        topics = list(image.topics.values())
    else:
        topic = image.topic(fields.topic_name)
        topics = [] if topic is None else [topic]
    for topic in topics:
        for number, partition in topic.partitions.items():
            if partition.eligible_leader_replicas or partition.last_known_leaders:
                topic.partitions[number] = partition._replace(
                    eligible_leader_replicas=(), last_known_leaders=()
                )


def _config(image: ClusterImage, fields: Any) -> None:
    resource = (fields.resource_type, fields.resource_name)
    configs = image.configs.setdefault(resource, {})
    if fields.value is not None:
        configs[fields.name] = fields.value
    else:
        configs.pop(fields.name, None)
    if not configs:
        del image.configs[resource]


APPLY: Final[dict[str, Callable[[ClusterImage, Any], None]]] = {
    "topic": _topic,
    "remove_topic": _remove_topic,
    "partition": _partition,
    "partition_change": _partition_change,
    "clear_elr": _clear_elr,
    "config": _config,
}
