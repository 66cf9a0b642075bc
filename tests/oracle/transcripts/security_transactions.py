"""Which topics a client may add to its transaction (W10, W51).

Played as "alice", who has what each transcript gives her, or as the administrator, who may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.ground.acl import Operation
from actors.ground.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.oracle.access import CLUSTER, TOPIC, TRANSACTIONAL_ID, WRITE, acl, alice, allow
from tests.oracle.logs import log_topic
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.internal_topic import looked_at
from tests.oracle.transcripts.transactions import init, passed

UNORDERED = ("results_by_topic_v3_and_below", "results_by_partition", "topic_results")
INTERNAL = {"groups": OFFSETS_TOPIC, "transactions": TRANSACTIONS_TOPIC}


def _added(
    client: Client, version: int, producer: Mapping[str, Any], *names: str, verify_only: bool = False
) -> None:
    topics = [{"name": name, "partitions": [0, 99]} for name in names]
    fields: dict[str, Any] = {f"v3_and_below_{name}": value for name, value in producer.items()}
    fields["v3_and_below_topics"] = topics
    if version >= 4:
        fields = {"transactions": [{**producer, "verify_only": verify_only, "topics": topics}]}
    client.ask("add_partitions_to_txn", version, unordered=UNORDERED, **fields)


def _ready(play: Play, name: str, *topics: str) -> tuple[dict[str, Any], list[str]]:
    """A transactional producer, whose id may be written by alice, and topics that are there."""
    for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        looked_at(play, topic)
    key = play.unique(name)
    allow(play, acl(TRANSACTIONAL_ID, key, WRITE))
    return init(play.connect("root"), key), [log_topic(play, topic) for topic in topics]


@transcript(rows=("W10", "W51"), profile="security", cases=INTERNAL)
def internal_topic_that_a_client_may_write(play: Play, internal: str) -> None:
    """Rights to it do not help; the topics beside it are not attempted, save those that are not there."""
    producer, (mine, hidden) = _ready(play, "tx", "mine", "hidden")
    client = alice(play, acl(TOPIC, mine, WRITE), acl(TOPIC, internal, WRITE))
    gone = play.unique("gone")
    for names in ((internal, mine), (internal, hidden), (internal, mine, hidden, gone), (internal,)):
        _added(client, 3, producer, *names)
    _added(play.connect("admin"), 3, producer, internal, mine, hidden, gone)
    play.connect("admin").ask_until(passed, "end_txn", 4, committed=True, **producer)


@transcript(rows=("W10", "W51"), profile="security", cases=INTERNAL)
def internal_topic_that_a_client_may_not_write(play: Play, internal: str) -> None:
    producer, (mine, hidden) = _ready(play, "tx", "mine", "hidden")
    client = alice(play, acl(TOPIC, mine, WRITE))
    gone = play.unique("gone")
    for names in ((internal, mine), (internal, hidden), (mine, hidden, gone), (mine, gone), (internal,)):
        _added(client, 3, producer, *names)


@transcript(rows=("W10", "W51"), profile="security", cases={"v4": 4, "v5": 5})
def topics_that_a_broker_adds(play: Play, version: int) -> None:
    """Rights to the cluster decide alone, and not those to a topic or to the transactional id."""
    producer, (mine, hidden) = _ready(play, "tx", "mine", "hidden")
    client = alice(play, acl(TOPIC, mine, WRITE), acl(TOPIC, OFFSETS_TOPIC, WRITE))
    for names in ((mine,), (mine, OFFSETS_TOPIC), (hidden,)):
        _added(client, version, producer, *names)
    allow(play, acl(CLUSTER, "kafka-cluster", Operation.CLUSTER_ACTION))
    unseen = {**producer, "transactional_id": play.unique("unseen")}
    for verify_only in (True, False, True):
        for who in (producer, unseen):
            _added(client, version, who, mine, hidden, OFFSETS_TOPIC, verify_only=verify_only)
    play.admin.quietly("delete_acls", 3, filters=[_OF_THE_CLUSTER])


_OF_THE_CLUSTER = {
    "resource_type_filter": int(CLUSTER),
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
