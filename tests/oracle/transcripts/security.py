"""Who may do what to groups, topics and the cluster, and what a refusal says (W10, W11, W12).

Played as "alice", who has what each transcript gives her; everything else is forbidden.
"""

from __future__ import annotations

from typing import Any

from actors.ground.acl import Operation, PatternType
from tests.oracle.access import (
    ALTER,
    CLUSTER,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    acl,
    alice,
    allow,
    committed,
)
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("W10", "A8"), profile="security")
def strangers_to_a_group(play: Play) -> None:
    """Each API of members and of administrators says GROUP_AUTHORIZATION_FAILED in its own way."""
    client = alice(play)
    group = play.group()
    for version in (0, 4, 5, 9):
        client.ask("join_group", version, group_id=group, member_id="m")
    for version in (0, 3, 5):
        client.ask("sync_group", version, group_id=group, generation_id=1, member_id="m")
    for version in (0, 4):
        client.ask("heartbeat", version, group_id=group, generation_id=1, member_id="m")
    client.ask("leave_group", 1, group_id=group, member_id="m")
    client.ask("leave_group", 5, group_id=group, members=[{"member_id": "m"}])
    client.ask("consumer_group_heartbeat", 1, group_id=group, member_id="m", subscribed_topic_names=[])
    for version in (2, 9):
        client.ask("offset_commit", version, group_id=group, topics=committed("t", "u"))
    client.ask("offset_delete", 0, group_id=group, topics=[{"name": "t", "partitions": [{}]}])


@transcript(rows=("W10",), profile="security")
def reading_a_group_is_not_describing_others(play: Play) -> None:
    """READ implies DESCRIBE; neither implies DELETE."""
    client = alice(play, acl(GROUP, play.group("mine"), READ), acl(GROUP, play.group("seen"), DESCRIBE))
    mine, seen, other = play.group("mine"), play.group("seen"), play.group("other")
    for version in (3, 5, 6):
        fields = {"groups": [other, mine, seen], "include_authorized_operations": True}
        client.ask("describe_groups", version, **fields)
    client.ask("delete_groups", 2, groups_names=[other, mine, seen])
    client.ask("heartbeat", 4, group_id=seen, generation_id=1, member_id="m")
    client.ask("heartbeat", 4, group_id=mine, generation_id=1, member_id="m")


@transcript(rows=("W10", "W9"), profile="security")
def groups_are_listed_for_who_may_see_them(play: Play) -> None:
    topic = play.topic()
    for name in ("a", "b", "c"):
        play.admin.quietly("offset_commit", 7, group_id=play.group(name), topics=committed(topic))
    client = alice(play, acl(GROUP, play.group("a"), DESCRIBE), acl(GROUP, play.group("b"), DELETE))
    client.ask("list_groups", 5)
    allow(play, acl(CLUSTER, "kafka-cluster", DESCRIBE))
    client.ask_until(lambda answer: len(answer.groups) >= 3, "list_groups", 5)
    play.admin.quietly(
        "delete_acls",
        3,
        filters=[
            {
                "resource_type_filter": int(CLUSTER),
                "pattern_type_filter": 1,
                "operation": 1,
                "permission_type": 1,
            }
        ],
    )


@transcript(
    rows=("W10", "O11"), profile="security", cases={"v1": 1, "v2": 2, "v5": 5, "v7": 7, "v9": 9, "v10": 10}
)
def offsets_are_fetched_of_topics_that_may_be_seen(play: Play, version: int) -> None:
    """A topic that is named is refused, one that is not is left out; an unseen group is refused."""
    seen, hidden, group = play.topic("seen"), play.topic("hidden"), play.group()
    admin = play.connect("admin")
    admin.quietly("offset_commit", 7, group_id=group, topics=committed(seen, hidden))
    client = alice(play, acl(GROUP, group, DESCRIBE), acl(TOPIC, seen, DESCRIBE))
    for asked in (group, play.group("other")):
        for names in ((hidden, seen), None):
            topics = None if names is None else [_named(play, name, version) for name in names]
            if topics is None and version < 2:
                continue
            fields = {"group_id": asked, "topics": topics}
            client.ask("offset_fetch", version, **(fields if version < 8 else {"groups": [fields]}))


def _named(play: Play, name: str, version: int) -> dict[str, Any]:
    who = {"topic_id": play.topic_id(name)} if version >= 10 else {"name": name}
    return who | {"partition_indexes": [0]}


@transcript(rows=("W10", "W12"), profile="security", cases={"v2": 2, "v9": 9})
def offsets_are_committed_for_topics_that_may_be_read(play: Play, version: int) -> None:
    seen, read, gone = play.topic("seen"), play.topic("read"), play.unique("gone")
    group = play.group()
    client = alice(play, acl(GROUP, group, READ), acl(TOPIC, seen, DESCRIBE), acl(TOPIC, read, READ))
    client.ask(
        "offset_commit", version, group_id=group, topics=committed(seen, read, gone), unordered=("topics",)
    )
    client.ask("offset_commit", version, group_id=group, topics=committed(seen, gone), unordered=("topics",))
    allow(play, acl(TOPIC, gone, READ))
    client.ask("offset_commit", version, group_id=group, topics=committed(gone, read), unordered=("topics",))


@transcript(rows=("W10", "O12"), profile="security")
def offsets_are_deleted_of_topics_that_may_be_read(play: Play) -> None:
    seen, read, group = play.topic("seen"), play.topic("read"), play.group()
    play.admin.quietly("offset_commit", 7, group_id=group, topics=committed(seen, read))
    client = alice(play, acl(GROUP, group, DELETE), acl(TOPIC, seen, DESCRIBE), acl(TOPIC, read, READ))
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in (seen, read)]
    client.ask("offset_delete", 0, group_id=group, topics=topics, unordered=("topics",))
    client.ask("offset_delete", 0, group_id=group, topics=topics[:1], unordered=("topics",))


@transcript(rows=("W11",), profile="security")
def subscription_to_a_topic_that_may_not_be_seen(play: Play) -> None:
    """The whole heartbeat is refused, and the member is not in the group."""
    seen, hidden, group = play.topic("seen"), play.topic("hidden"), play.group()
    client = alice(play, acl(GROUP, group, READ), acl(TOPIC, seen, DESCRIBE))
    beat = {"group_id": group, "member_id": "m", "rebalance_timeout": 30_000, "topic_partitions": []}
    for names in ([seen, hidden], [hidden], [play.unique("gone")], [seen]):
        client.ask(
            "consumer_group_heartbeat", 1, **beat, subscribed_topic_names=names, ignore=("assignment",)
        )
    client.ask("consumer_group_heartbeat", 1, group_id=group, member_id="m", member_epoch=-1)


@transcript(rows=("W11",), profile="security")
def description_of_a_group_with_a_topic_that_may_not_be_seen(play: Play) -> None:
    """Who may not see one of the topics that are assigned sees nothing of the group."""
    seen, hidden = play.topic("seen"), play.topic("hidden")
    admin = play.connect("admin")
    for name, topics in (("open", [seen]), ("shut", [seen, hidden])):
        beat = {"group_id": play.group(name), "member_id": "m", "rebalance_timeout": 30_000}
        admin.quietly(
            "consumer_group_heartbeat", 1, **beat, subscribed_topic_names=topics, topic_partitions=[]
        )
    client = alice(
        play,
        acl(GROUP, play.group("open"), DESCRIBE),
        acl(GROUP, play.group("shut"), DESCRIBE),
        acl(TOPIC, seen, DESCRIBE),
    )
    groups = [play.group("open"), play.group("shut"), play.group("other"), play.group("none")]
    for version in (0, 1):
        for include in (False, True):
            client.ask(
                "consumer_group_describe",
                version,
                group_ids=groups,
                include_authorized_operations=include,
                ignore=("client_host",),
            )


@transcript(rows=("W10", "M24"), profile="security")
def regular_expression_matches_what_may_be_seen(play: Play) -> None:
    """Topics that the member may not see are not in its subscription, silently."""
    seen, hidden, group = play.topic("rx-seen"), play.topic("rx-hidden"), play.group()
    client = alice(play, acl(GROUP, group, READ), acl(TOPIC, seen, DESCRIBE))
    regex = {"group_id": group, "member_id": "m", "subscribed_topic_regex": f"rx-.*{play.names.token}"}
    client.quietly("consumer_group_heartbeat", 1, **regex, rebalance_timeout=30_000, topic_partitions=[])
    epochs = [1]

    def beat() -> Any:
        told = client.quietly(
            "consumer_group_heartbeat", 1, group_id=group, member_id="m", member_epoch=epochs[-1]
        )
        epochs.append(told.member_epoch)
        return told.assignment and told.assignment.topic_partitions

    assigned = play.until(beat, "an assignment")
    play.note("topics", [str(topic.topic_id) == str(play.topic_id(seen)) for topic in assigned])
    assert play.topic_id(hidden) is not None


@transcript(rows=("W10",), profile="security")
def coordinators_for_who_may_see_them(play: Play) -> None:
    group = play.group()
    client = alice(play, acl(GROUP, group, DESCRIBE))
    for version in (0, 3):
        client.ask("find_coordinator", version, key=group, key_type=0)
        client.ask("find_coordinator", version, key=play.group("other"), key_type=0)
    client.ask("find_coordinator", 3, key=play.unique("tx"), key_type=1)
    client.ask(
        "find_coordinator",
        4,
        coordinator_keys=[play.group("other"), group],
        key_type=0,
        unordered=("coordinators",),
    )
    client.ask("find_coordinator", 6, coordinator_keys=[play.unique("tx")], key_type=1)


@transcript(rows=("W10", "W12"), profile="security", cases={"v0": 0, "v4": 4, "v8": 8, "v9": 9, "v12": 12})
def metadata_of_topics_that_may_be_seen(play: Play, version: int) -> None:
    seen, read, hidden = play.topic("seen"), play.topic("read"), play.topic("hidden")
    client = alice(play, acl(TOPIC, seen, DESCRIBE), acl(TOPIC, read, READ))
    names = (seen, read, hidden, play.unique("gone"))
    operations = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    client.ask("metadata", version, topics=[{"name": name} for name in names], **operations)
    if version >= 12:
        ids = [{"topic_id": play.topic_id(name), "name": None} for name in (seen, hidden)]
        client.ask("metadata", version, topics=ids, **operations)


@transcript(rows=("W10",), profile="security")
def operations_on_the_cluster(play: Play) -> None:
    client = alice(play)
    fields = {"include_cluster_authorized_operations": True, "endpoint_type": 1}
    client.ask("describe_cluster", 2, **fields)
    play.connect("root").ask("describe_cluster", 2, **fields)
    play.connect("root").ask("metadata", 8, topics=[], include_cluster_authorized_operations=True)


@transcript(rows=("W10",), profile="security")
def topics_are_made_changed_and_deleted_by_who_may(play: Play) -> None:
    seen, mine, hidden = play.topic("seen"), play.topic("mine"), play.topic("hidden")
    client = alice(
        play,
        acl(TOPIC, seen, DESCRIBE),
        acl(TOPIC, mine, DELETE),
        acl(TOPIC, mine, ALTER),
        acl(TOPIC, play.unique("new"), CREATE),
    )
    topics = [
        {"name": play.unique(name), "num_partitions": 1, "replication_factor": 1} for name in ("new", "other")
    ]
    client.ask("create_topics", 7, topics=topics, ignore=("topic_id",), unordered=("topics",))
    counted = [{"name": name, "count": 3, "assignments": None} for name in (seen, mine, hidden)]
    client.ask("create_partitions", 3, topics=counted, timeout=5_000, unordered=("results",))
    client.ask("delete_topics", 5, topic_names=[seen, hidden, play.unique("gone")], unordered=("responses",))
    by_id = [{"name": None, "topic_id": play.topic_id(name)} for name in (seen, mine, hidden)]
    client.ask("delete_topics", 6, topics=by_id, unordered=("responses",))


@transcript(rows=("W10", "A19"), profile="security")
def configs_of_who_may_see_them(play: Play) -> None:
    topic, group = play.topic(), play.group()
    client = alice(play, acl(TOPIC, topic, DESCRIBE), acl(GROUP, group, READ))
    asked = [(2, topic), (4, "1"), (32, group)]
    resources = [{"resource_type": kind, "resource_name": name} for kind, name in asked]
    keys = [each | {"configuration_keys": ["retention.ms"]} for each in resources]
    client.ask("describe_configs", 4, resources=keys)
    client.ask("incremental_alter_configs", 1, resources=[each | {"configs": []} for each in resources])
    client.ask("list_config_resources", 1, resource_types=[32])


@transcript(rows=("W10",), profile="security")
def records_of_topics_that_may_not_be_used(play: Play) -> None:
    topic = play.topic()
    client = alice(play, acl(TOPIC, topic, DESCRIBE))
    listed = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    for name in (topic, play.unique("gone")):
        client.ask("list_offsets", 7, replica_id=-1, topics=[{"name": name, "partitions": listed}])
    deleted = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}]
    client.ask("delete_records", 2, topics=deleted, timeout=1_000)
    produced = [{"name": topic, "partition_data": [{"index": 0, "records": None}]}]
    client.ask("produce", 9, transactional_id=None, acks=1, topic_data=produced)
    for transactional_id in (None, play.unique("tx")):
        client.ask("init_producer_id", 4, transactional_id=transactional_id)


@transcript(rows=("W10", "O7"), profile="security")
def transactions_of_who_may_not_write_them(play: Play) -> None:
    topic, other, group, mine = play.topic(), play.topic("other"), play.group(), play.unique("tx")
    client = alice(play, acl(TRANSACTIONAL_ID, mine, WRITE), acl(TOPIC, topic, WRITE))
    for transactional_id in (play.unique("not-mine"), mine):
        old = {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": 1,
            "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in (topic, other)],
        }
        client.ask("add_partitions_to_txn", 3, **old, unordered=("results_by_topic_v3_and_below",))
        now = {"transactional_id": transactional_id, "producer_id": 1}
        client.ask("add_offsets_to_txn", 3, **now, group_id=group)
        client.ask("txn_offset_commit", 3, **now, group_id=group, topics=committed(topic))
    client.ask("end_txn", 3, transactional_id=play.unique("not-mine"), producer_id=1, committed=True)


@transcript(rows=("W10",), profile="security")
def a_denial_wins_and_goes_no_further(play: Play) -> None:
    """A DENY of READ leaves DESCRIBE; prefixes and the wildcard count; a denial beats them."""
    own, prefixed = play.group("team-a"), play.group("team-b")
    client = alice(
        play,
        acl(GROUP, play.names.token[1:], READ),
        acl(GROUP, "team-", READ, resource_pattern_type=PatternType.PREFIXED),
        acl(GROUP, own, READ, permission_type=DENY),
        acl(GROUP, prefixed, Operation.ALL, permission_type=DENY, host="192.0.2.1"),
    )
    for group in (own, prefixed, play.group("other")):
        client.ask("heartbeat", 4, group_id=group, generation_id=1, member_id="m")
    client.ask("describe_groups", 5, groups=[own, prefixed], include_authorized_operations=True)
    play.admin.quietly(
        "delete_acls",
        3,
        filters=[
            {
                "resource_type_filter": int(GROUP),
                "resource_name_filter": "team-",
                "pattern_type_filter": 4,
                "operation": 1,
                "permission_type": 1,
            }
        ],
    )
