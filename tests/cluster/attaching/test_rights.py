"""Which rights of the tier's user are named as missing, from what servers tell it."""

from __future__ import annotations

from actors.ground.acl import SUPPORTED, Operation, ResourceType
from cluster.attaching.rights import (
    ALL_BUT_ALTER,
    BROKERS,
    CONTROLLERS,
    TOPICS_RIGHT,
    TRANSACTIONS_RIGHT,
    Allowed,
    missing,
)

EVERYTHING = sum(1 << each for each in SUPPORTED[ResourceType.CLUSTER])


def named(allowed: Allowed, *, is_new: bool = False) -> list[tuple[str, str]]:
    return [(right.operation, right.at) for right in missing(allowed, is_new=is_new)]


def test_who_may_do_everything_lacks_nothing() -> None:
    assert named(Allowed(EVERYTHING, EVERYTHING), is_new=True) == []
    assert named(Allowed(), is_new=True) == [], "nothing is told without an authorizer"


def test_a_right_is_named_with_where_it_is_needed() -> None:
    lacking = EVERYTHING & ~(1 << Operation.CLUSTER_ACTION)
    assert named(Allowed(lacking, EVERYTHING)) == [("CLUSTER_ACTION", BROKERS)]
    assert named(Allowed(EVERYTHING, lacking)) == [("CLUSTER_ACTION", CONTROLLERS)]


def test_only_who_may_look_is_told_of_the_others() -> None:
    assert named(Allowed(0, EVERYTHING)) == [("DESCRIBE", BROKERS)]
    assert named(Allowed(EVERYTHING, ALL_BUT_ALTER)) == [("ALTER", CONTROLLERS)]


def test_the_topic_of_offsets_is_created_if_there_is_none() -> None:
    lacking = EVERYTHING & ~(1 << Operation.CREATE)
    assert named(Allowed(EVERYTHING, lacking)) == []
    assert named(Allowed(EVERYTHING, lacking), is_new=True) == [("CREATE", CONTROLLERS)]


def test_what_is_needed_beside_the_cluster() -> None:
    allowed = Allowed(EVERYTHING, EVERYTHING, sees_topics=False, sees_transactions=False)
    assert missing(allowed, is_new=False) == (TOPICS_RIGHT, TRANSACTIONS_RIGHT)
    assert TOPICS_RIGHT.command == (
        "kafka-acls.sh --add --topic '*' --operation DESCRIBE --allow-principal User:..."
    )
