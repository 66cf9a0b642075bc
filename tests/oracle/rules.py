"""What may differ between two right answers, each with its reason. Everything else is compared.

A transcript adds its own with `ignore=` and `unordered=`; the golden file names them beside the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

IGNORED: Mapping[str, str] = {
    "throttle_time": "a load's matter",
    "error_message": "a text for people; the code says the same to a program",
}
"""Fields that are not compared in any answer, and the reason."""
PLACES: Mapping[str, str] = {
    "node_id": "ids of nodes are an operator's choice",
    "host": "an address",
    "port": "an address",
    "controller_id": "ids of nodes are an operator's choice",
    "leader_id": "ids of nodes are an operator's choice",
    "broker_id": "ids of nodes are an operator's choice",
    "cluster_id": "random",
}
"""Fields that only tell where: shown as "somewhere" unless they say nowhere (-1, "", null)."""
UNORDERED: Mapping[str, Mapping[str, str]] = {
    "join_group": {"members": "a Java HashMap of members"},
    "describe_groups": {"groups": "one future per offsets partition", "members": "a Java HashMap"},
    "consumer_group_describe": {
        "groups": "one future per offsets partition",
        "members": "a map of members",
        "topic_partitions": "a Java HashMap of topics",
        "partitions": "a Java HashSet",
    },
    "consumer_group_heartbeat": {
        "topic_partitions": "a Java HashMap of topics",
        "partitions": "a Java HashSet",
    },
    "list_groups": {"groups": "one future per offsets partition, each a HashMap"},
    "delete_groups": {"results": "one future per offsets partition"},
    "offset_fetch": {
        "groups": "one future per group",
        "topics": "a HashMap of topics when all are asked for",
        "partitions": "a HashMap of partitions when all are asked for",
    },
    "metadata": {"topics": "a HashMap of topics"},
    "list_offsets": {"topics": "a HashMap of topics", "partitions": "grouped by who leads and what is known"},
    "list_config_resources": {"config_resources": "a HashMap of resources"},
    "describe_configs": {"configs": "a HashMap of configs", "results": "a HashMap of resources"},
    "incremental_alter_configs": {"responses": "a HashMap of resources"},
}
"""Lists whose order Kafka takes from a hash map or from what is done first: sorted before comparing."""
