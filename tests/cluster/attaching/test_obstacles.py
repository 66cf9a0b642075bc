"""What stands in a tier's way, one situation each: its severity, its name, and what its words have to say."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ground.acl import CLUSTER_NAME, Acl, Operation, Permission, ResourceType
from cluster.attaching.facts import (
    OWN_AUTHORIZER,
    AskedBroker,
    Facts,
    GroupRow,
    OffsetsPartition,
    Quorum,
    Wishes,
)
from cluster.attaching.obstacles import BLOCKS, CHECKS, WARNS, Obstacle, obstacles, protocol_of
from cluster.attaching.rights import Right
from tests.cluster.attaching.clusters import (
    FEATURES,
    PARTITIONS,
    facts,
    image,
    listening,
    of_a_tier,
    with_configs,
    with_groups,
    with_mechanisms,
)
from tests.upstream.log import framed, record, registered, topic_id


def only(seen: Facts, **wishes: Any) -> Obstacle:
    (found,) = obstacles(seen, Wishes(**wishes))
    return found


def test_nothing_stands_in_the_way_of_a_good_cluster() -> None:
    assert obstacles(facts(), Wishes()) == ()


def test_a_cluster_with_zookeeper_is_not_looked_at_any_further() -> None:
    found = only(Facts("id", is_kraft=False))
    assert (found.severity, found.name) == (BLOCKS, "not-kraft")


def test_controllers_of_another_cluster() -> None:
    found = only(facts(quorum=Quorum("another", 4, "four:9093", (4,)), features={}))
    assert (found.severity, found.name) == (BLOCKS, "other-cluster")
    assert "another" in found.what


def test_controllers_that_do_not_tell_their_cluster() -> None:
    assert obstacles(facts(quorum=Quorum(None, 4, "four:9093", (4,))), Wishes()) == ()


@pytest.mark.parametrize(("level", "word"), [(29, "4.2-IV1"), (21, "3.9-IV0"), (0, "not told")])
def test_a_metadata_version_without_cordons(level: int, word: str) -> None:
    found = only(facts(features={**FEATURES, "metadata.version": level}))
    assert (found.severity, found.name) == (BLOCKS, "metadata-version")
    assert word in found.what
    assert "upgrade --release-version 4.3" in found.do


def test_cordons_came_with_4_3() -> None:
    assert obstacles(facts(features={**FEATURES, "metadata.version": 30}), Wishes()) == ()


@pytest.mark.parametrize(
    ("feature", "level", "words"),
    [
        ("metadata.version", 40, "is at level 40; this groupd understands it up to 4.4-IV2"),
        ("group.version", 2, "is at level 2; this groupd understands it up to level 1"),
        ("teleport.version", 1, "is at level 1; this groupd does not know it"),
    ],
)
def test_a_feature_that_is_not_understood(feature: str, level: int, words: str) -> None:
    found = only(facts(features={**FEATURES, feature: level}))
    assert (found.severity, found.name) == (BLOCKS, "feature")
    assert words in found.what


def test_features_of_others_may_be_at_any_level() -> None:
    seen = facts(features={**FEATURES, "share.version": 9, "kraft.version": 3})
    assert obstacles(seen, Wishes()) == ()


def test_a_feature_that_the_controllers_could_raise_further_than_is_understood() -> None:
    supported = {"metadata.version": 35, "share.version": 9, "group.version": 1}
    found = only(facts(supported=supported))
    assert (found.severity, found.name) == (WARNS, "upgrade-held-up")
    assert "raise metadata.version to level 35" in found.what
    assert "refuse more than 4.4-IV2" in found.what


def test_a_feature_that_is_no_higher_at_the_controllers_is_no_obstacle() -> None:
    assert obstacles(facts(supported={"metadata.version": 33, "group.version": 0}), Wishes()) == ()


def test_records_that_are_not_understood() -> None:
    newer = record("feature_level", name="metadata.version", feature_level=33)
    found = only(facts(newer, framed(30, 0), framed(3, 9), framed(3, 9)))
    assert (found.severity, found.name) == (BLOCKS, "unknown-records")
    assert (
        "2 x PartitionRecord version 9; versions 0 to 2 are read here (metadata.version 4.4-IV2)"
        in found.what
    )


@pytest.mark.parametrize("kind", ["Share", "Streams"])
def test_groups_that_the_tier_does_not_serve(kind: str) -> None:
    rows = [GroupRow(f"group-{number}", kind, "Stable") for number in range(7)]
    found = only(facts(brokers=with_groups(*rows, GroupRow("fine", "Classic", "Empty"))))
    assert (found.severity, found.name) == (BLOCKS, f"{kind.lower()}-groups")
    assert "7 " in found.what
    assert "group-4 and 2 more" in found.what


def test_brokers_whose_config_is_not_the_number_of_partitions() -> None:
    found = only(facts(brokers=with_configs(offsets_topic_num_partitions="50")))
    assert (found.severity, found.name) == (BLOCKS, "offsets-partitions")
    assert "4 on brokers 1, 2, 50 on broker 3, and __consumer_offsets has 4" in found.what


def test_brokers_that_differ_before_the_topic_exists() -> None:
    seen = facts(brokers=with_configs(offsets_topic_num_partitions="50"), partitions=None)
    assert "does not exist yet" in only(seen).what


def test_brokers_that_do_not_tell_their_config() -> None:
    silent = tuple(broker._replace(configs={}) for broker in facts().brokers)
    found = only(facts(brokers=silent))
    assert (found.severity, found.name) == (WARNS, "offsets-partitions")


@pytest.mark.parametrize(
    ("first_id", "ids", "who"),
    [
        (3, [3, 4, 5], "the broker at two:9092"),
        (6, [6], "a controller"),
        (98, [99], "that is registered but away"),
    ],
)
def test_ids_that_are_taken(first_id: int, ids: list[int], who: str) -> None:
    found = obstacles(facts(registered(99, 9)), Wishes(first_id=first_id))
    assert {(each.severity, each.name) for each in found} == {(BLOCKS, "id-taken")}
    assert [each.what.split()[1] for each in found] == [str(number) for number in ids]
    assert who in found[0].what
    assert ("unregister" in found[0].do) == ("away" in who)


def test_ids_that_no_broker_can_have() -> None:
    assert only(facts(), first_id=-1).name == "id-range"
    assert only(facts(), first_id=2**31 - 2).name == "id-range"


def test_a_tier_that_stands_in_front_of_the_cluster_already() -> None:
    nodes = [of_a_tier(number, says_so=True) for number in (2001, 2002)]
    found = only(facts(*nodes))
    assert (found.severity, found.name) == (BLOCKS, "second-tier")
    assert found.what.startswith("Brokers 2001, 2002 are of a tier")


@pytest.mark.parametrize(("first_id", "severity"), [(2001, BLOCKS), (1001, WARNS)])
def test_a_broker_with_nothing_but_cordoned_directories(first_id: int, severity: str) -> None:
    found = obstacles(facts(of_a_tier(2001, says_so=False)), Wishes(first_id=first_id))
    assert [each.severity for each in found if each.name == "second-tier"] == [severity]


def test_a_listener_that_the_tier_would_not_have() -> None:
    found = only(facts(listening(1, ("PLAINTEXT", 0), ("EXTERNAL", 0))))
    assert (found.severity, found.name) == (BLOCKS, "listener-missing")
    assert "EXTERNAL" in found.what
    assert "clients" in found.what
    assert "upstream.other.listener.names=EXTERNAL" in found.do
    both = ("PLAINTEXT", "EXTERNAL")
    assert obstacles(facts(listening(1, ("PLAINTEXT", 0), ("EXTERNAL", 0))), Wishes(listeners=both)) == ()


def test_the_listener_of_the_brokers_themselves() -> None:
    seen = facts(
        listening(1, ("PLAINTEXT", 0), ("INTERNAL", 0)),
        brokers=with_configs(inter_broker_listener_name="INTERNAL"),
    )
    assert "brokers could not reach the tier" in only(seen).what


def test_a_listener_that_no_broker_has() -> None:
    found = only(facts(), listeners=("PLAINTEXT", "ELSEWHERE"))
    assert (found.severity, found.name) == (BLOCKS, "listener-unknown")
    assert "name one of theirs: PLAINTEXT" in found.do


def test_a_listener_that_speaks_another_protocol_than_the_tier() -> None:
    seen = facts(listening(1, ("PLAINTEXT", 0), ("SECURE", 1)))
    names = ("PLAINTEXT", "SECURE")
    found = only(seen, listeners=names, protocol="PLAINTEXT")
    assert (found.severity, found.name) == (BLOCKS, "listener-protocol")
    assert "Listener SECURE speaks SSL, and the tier's port PLAINTEXT" in found.what
    assert "upstream.other.port" in found.do
    assert only(seen, listeners=names) == found, "the first one is that of clients, who has said so or not"


def test_a_listener_that_has_a_second_port_speaks_there_what_brokers_do() -> None:
    seen = facts(listening(1, ("PLAINTEXT", 0), ("INTERNAL", 1), ("OTHER", 0)))
    wishes = Wishes(listeners=("PLAINTEXT", "INTERNAL", "OTHER"), protocol="PLAINTEXT")
    (found,) = obstacles(seen, wishes)
    assert "Listener INTERNAL speaks SSL, and the tier's port PLAINTEXT" in found.what
    assert obstacles(seen, wishes._replace(apart=frozenset({"INTERNAL"}))) == ()
    (found,) = obstacles(seen, wishes._replace(apart=frozenset({"INTERNAL", "OTHER"})))
    assert "Listener OTHER speaks PLAINTEXT, and the tier's port SSL" in found.what


def test_what_brokers_speak_at_a_listener() -> None:
    """The port of a tier that is made will speak the same."""
    seen = facts(listening(1, ("PLAINTEXT", 0), ("SECURE", 1)))
    assert [protocol_of(seen, name) for name in ("PLAINTEXT", "SECURE", "NONE")] == ["PLAINTEXT", "SSL", None]
    assert protocol_of(facts(listening(1, ("PLAINTEXT", 1))), "PLAINTEXT") is None, "others speak another one"


def test_rights_that_the_user_lacks() -> None:
    found = only(facts(missing_rights=(Right("ALTER", "reassign offsets partitions"),)))
    assert (found.severity, found.name) == (BLOCKS, "right-missing")
    assert "ALTER" in found.what
    assert "--operation ALTER" in found.do


def test_a_topic_that_may_not_be_seen() -> None:
    found = only(facts(image=None, partitions=None, is_topic_seen=False))
    assert (found.severity, found.name) == (WARNS, "not-seen")


def test_a_metadata_log_that_may_not_be_read() -> None:
    found = only(facts(image=None, log_problem="Fetch is refused"))
    assert (found.severity, found.name) == (BLOCKS, "metadata-log")
    assert "Fetch is refused" in found.what


def test_an_authorizer_of_somebody_elses() -> None:
    found = only(facts(brokers=with_configs(authorizer_class_name="com.example.Ranger")))
    assert (found.severity, found.name) == (WARNS, "authorizer")


def test_brokers_that_ask_for_rights_since_the_tier_was_made() -> None:
    """It would serve everybody's groups to everybody."""
    authorized = facts(brokers=with_configs(authorizer_class_name=OWN_AUTHORIZER))
    found = only(authorized, asks_for_rights=False)
    assert (found.severity, found.name) == (BLOCKS, "authorizer-new")
    assert obstacles(authorized, Wishes(asks_for_rights=True)) == ()
    assert obstacles(facts(), Wishes(asks_for_rights=False)) == ()


def test_mechanisms_that_the_tier_does_not_offer() -> None:
    seen = facts(
        *(listening(number, ("PLAINTEXT", 2)) for number in (1, 2, 3)),
        brokers=with_mechanisms("GSSAPI,PLAIN,OAUTHBEARER", "SCRAM-SHA-256"),
    )
    found = only(seen)
    assert (found.severity, found.name) == (WARNS, "sasl-mechanism")
    assert "GSSAPI, OAUTHBEARER, PLAIN" in found.what


def test_brokers_that_could_not_log_in_at_the_tier() -> None:
    seen = facts(
        *(listening(number, ("PLAINTEXT", 2)) for number in (1, 2, 3)),
        brokers=with_mechanisms("SCRAM-SHA-512", "PLAIN"),
    )
    found = only(seen)
    assert (found.severity, found.name) == (BLOCKS, "broker-mechanism")
    assert "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512" in found.do


def _rule(number: int, user: str, operation: Operation) -> bytes:
    rule = Acl(ResourceType.CLUSTER, CLUSTER_NAME, 3, f"User:{user}", "*", operation, Permission.ALLOW)
    fields = {**rule._asdict(), "permission_type": rule.permission}
    del fields["permission"]
    return record("access_control_entry", id_=topic_id(number), **fields)


def test_brokers_whose_rights_nobody_sees() -> None:
    """The user may be among super.users, which the tier has to be told."""
    authorized = with_configs(authorizer_class_name=OWN_AUTHORIZER)
    of_the_tier = _rule(3, "tier", Operation.CLUSTER_ACTION)
    told = {"super_users": frozenset[str](), "users": frozenset({"User:tier"})}
    found = only(facts(of_the_tier, brokers=authorized), **told)
    assert (found.severity, found.name) == (BLOCKS, "super-users")
    of_brokers = _rule(4, "broker", Operation.ALL)
    assert obstacles(facts(of_the_tier, of_brokers, brokers=authorized), Wishes(**told)) == ()
    named = {**told, "super_users": frozenset({"User:broker"})}
    assert obstacles(facts(of_the_tier, brokers=authorized), Wishes(**named)) == ()
    assert obstacles(facts(of_the_tier), Wishes(**told)) == (), "nobody asks for rights"


def test_a_partition_without_a_leader_and_one_that_lacks_a_replica() -> None:
    rows = [OffsetsPartition(number, 1, (1, 2, 3), (1, 2, 3)) for number in range(PARTITIONS)]
    rows[0], rows[1] = rows[0]._replace(leader=-1), rows[1]._replace(isr=(1, 2))
    found = obstacles(facts(partitions=tuple(rows)), Wishes())
    assert [(each.severity, each.name) for each in found] == [
        (BLOCKS, "partition-without-leader"),
        (WARNS, "under-replicated"),
    ]


def test_partitions_that_are_being_reassigned() -> None:
    change = {"partition_id": 2, "topic_id": topic_id(1), "adding_replicas": [3], "removing_replicas": [1]}
    found = only(facts(record("partition_change", **change)))
    assert (found.severity, found.name) == (BLOCKS, "partition-moving")
    assert found.what == "1 offsets partition being reassigned: 2."


def test_a_broker_that_does_not_answer() -> None:
    *asked, third = facts().brokers
    silent = AskedBroker(third.broker_id, third.host, third.port, problems=("no Kafka answers",))
    found = only(facts(brokers=(*asked, silent)))
    assert (found.severity, found.name) == (WARNS, "not-seen")
    assert "Broker 3 (two:9092): no Kafka answers" in found.what


def test_without_the_log_ids_are_known_from_brokers_and_controllers() -> None:
    found = obstacles(facts(image=None), Wishes(first_id=2, nodes=3))
    assert [each.what.split()[1] for each in found] == ["2", "3", "4"]


def test_what_blocks_comes_first() -> None:
    seen = facts(features={**FEATURES, "metadata.version": 20}, image=image(of_a_tier(2001, says_so=False)))
    assert [each.severity for each in obstacles(seen, Wishes())] == [BLOCKS, WARNS]


def test_every_check_says_what_to_do() -> None:
    """What obstacles say are sentences, and none is without advice."""
    seen = [
        facts(features={}, missing_rights=(Right("ALTER", "x"),), log_problem="x", partitions=()),
        facts(of_a_tier(1002, says_so=False), of_a_tier(1001, says_so=True), framed(99, 1)),
        facts(brokers=with_configs(authorizer_class_name="x", offsets_topic_num_partitions="1")),
    ]
    found = [each for one in seen for each in obstacles(one, Wishes(listeners=("A",)))]
    assert len({each.name for each in found}) >= 9
    assert len(CHECKS) >= 12
    for each in found:
        assert (each.what[-1], each.do != "") == (".", True), each
