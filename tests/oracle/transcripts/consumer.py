"""Consumer groups: heartbeats, members and epochs (M1 to M8, M17 to M19, M23, M27)."""

from __future__ import annotations

from typing import Any

from tests.oracle.kits import beat, beat_in, consumer_describe, describe, join, protocols, settle_alone
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript


def owns(play: Play, topic: str, *numbers: int) -> list[dict[str, Any]]:
    """What a member says it has of a topic."""
    return [{"topic_id": play.topic_id(topic), "partitions": list(numbers)}] if numbers else []


def configure(client: Client, group_id: str, **values: int) -> None:
    """Set configs of the group ("session.timeout.ms" is `session_timeout_ms`), and wait until they show."""
    given = {f"consumer.{name.replace('_', '.')}": str(value) for name, value in values.items()}
    changes = [{"name": name, "config_operation": 0, "value": value} for name, value in given.items()]
    resource = {"resource_type": 32, "resource_name": group_id}
    answer = client.quietly(
        "incremental_alter_configs", 1, resources=[{**resource, "configs": changes}], validate_only=False
    )
    assert answer.responses[0].error_code.value == 0, answer

    def shown() -> bool:
        told = client.quietly("describe_configs", 4, resources=[{**resource, "configuration_keys": None}])
        in_force = {config.name: config.value for config in told.results[0].configs}
        return given.items() <= in_force.items()

    client.play.until(shown, "the group's configs")


FULL: dict[str, Any] = {
    "rebalance_timeout": 30_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}
BAD_JOINS: dict[str, dict[str, Any]] = {
    "no member id": {"member_id": ""},
    "blank member id": {"member_id": " \t"},
    "no instance": {"instance_id": ""},
    "blank instance": {"instance_id": " "},
    "no rack": {"rack_id": ""},
    "blank rack": {"rack_id": "\n"},
    "no timeout": {"rebalance_timeout": -1},
    "owned null": {"topic_partitions": None},
    "nothing subscribed": {"subscribed_topic_names": None},
    "no assignor": {"server_assignor": ""},
    "other letters": {"server_assignor": "Uniform"},
    "unknown assignor": {"server_assignor": "sticky"},
    "regex": {"subscribed_topic_regex": "("},
}


@transcript(rows=("M1", "A8"), cases=BAD_JOINS)
def first_heartbeats_that_are_refused(play: Play, changes: dict[str, Any]) -> None:
    """The group is not made by them."""
    a = play.connect()
    fields = {"member_id": "m", "member_epoch": 0, **FULL, **changes}
    a.ask("consumer_group_heartbeat", 1, group_id=play.group(), **fields)
    consumer_describe(a, play.group())


@transcript(rows=("M1",), cases={"zero": 0, "below": -2, "one": 1})
def any_other_rebalance_timeout_will_do(play: Play, timeout_ms: int) -> None:
    beat_in(play.connect(), play.group(), "m", [], rebalance_timeout=timeout_ms)


@transcript(rows=("M1", "W2"))
def group_ids_that_are_refused(play: Play) -> None:
    a = play.connect()
    for group_id in ("", " ", "\t\n"):
        a.ask("consumer_group_heartbeat", 1, group_id=group_id, member_id="m", member_epoch=0, **FULL)


@transcript(rows=("M1", "A2"))
def version_0_lets_the_server_make_the_id(play: Play) -> None:
    a = play.connect()
    a.ask("consumer_group_heartbeat", 0, group_id=play.group(), member_id="", member_epoch=0, **FULL)
    for epoch in (1, -1, -2):
        beat(a, play.group(), "", epoch, 0)
    for epoch in (1, -1, -2, -3):
        beat(a, play.group(), "", epoch)


@transcript(rows=("M1", "A8"))
def what_is_wrong_is_looked_for_in_an_order(play: Play) -> None:
    """Fields, assignor, group and member, regex."""
    a = play.connect()
    wrong: dict[str, Any] = {"server_assignor": "none", "subscribed_topic_regex": "("}
    beat(a, play.group(), "m", 5, rack_id="", **wrong)
    beat(a, play.group(), "m", 5, **wrong)
    beat(a, play.group(), "m", 5, subscribed_topic_regex="(")
    beat_in(a, play.group(), "m", [])
    beat(a, play.group(), "n", 5, subscribed_topic_regex="(")
    beat(a, play.group(), "m", 5, subscribed_topic_regex="(")
    beat(a, play.group(), "m", 1, subscribed_topic_regex="(")
    beat(a, play.group(), "m", 1)
    beat(a, play.group(), "m", -3)


@transcript(rows=("M2", "A1", "A5", "A6"))
def the_first_heartbeat_makes_group_and_member(play: Play) -> None:
    """The group begins with topics at epoch 2, without at 1; nothing else makes either."""
    a, topic = play.connect(), play.topic("t", 2)
    beat(a, play.group(), "m", 1)
    beat(a, play.group(), "m", -1)
    beat(a, play.group(), "m", -2, instance_id="i")
    consumer_describe(a, play.group())
    beat_in(a, play.group(), "m", [topic])
    beat(a, play.group(), "n", 1)
    beat(a, play.group(), "n", -1)
    consumer_describe(a, play.group())


@transcript(rows=("M2", "M5"), cases={"names": {}, "regex": {"subscribed_topic_regex": ""}})
def members_without_a_subscription_raise_no_epoch(play: Play, fields: dict[str, Any]) -> None:
    a = play.connect()
    for member_id in ("a", "b", "c"):
        beat_in(a, play.group(), member_id, [], **fields)
    consumer_describe(a, play.group())


@transcript(rows=("M2", "A18"))
def a_topic_that_is_not_there_counts_as_a_subscription(play: Play) -> None:
    a = play.connect()
    beat_in(a, play.group(), "m", [play.unique("none")])
    consumer_describe(a, play.group())


@transcript(rows=("M3",), profile="small")
def a_full_group(play: Play) -> None:
    """Only a known member id is let in, or a static instance that was away, whatever its new id."""
    a = play.connect()
    beat_in(a, play.group(), "a", [])
    beat_in(a, play.group(), "s", [], instance_id="i")
    beat_in(a, play.group(), "c", [])
    beat(a, play.group(), "c", 7)
    beat_in(a, play.group(), "a", [])
    beat(a, play.group(), "s", -2, instance_id="i")
    beat_in(a, play.group(), "s2", [], instance_id="j")
    beat_in(a, play.group(), "s2", [], instance_id="i")
    beat_in(a, play.group(), "s", [], instance_id="i")
    beat(a, play.group(), "a", -1)
    beat_in(a, play.group(), "c", [])


@transcript(rows=("M4", "A6", "A8"))
def epochs_that_fence(play: Play) -> None:
    """Greater is fenced, smaller too, unless the answer was lost: the epoch before, and nothing owned that is
    not assigned. Epoch 0 is always let in. Being fenced takes nothing from the member."""
    a, topic = play.connect(), play.topic("t", 4)
    beat_in(a, play.group(), "m", [topic])
    beat(a, play.group(), "m", 3)
    beat(a, play.group(), "m", 1)
    beat_in(a, play.group(), "n", [])
    beat(a, play.group(), "m", 2, subscribed_topic_names=[])
    beat(a, play.group(), "m", 2, topic_partitions=[])
    beat(a, play.group(), "m", 2)
    beat(a, play.group(), "m", 1, topic_partitions=[])
    beat(a, play.group(), "m", 2, topic_partitions=owns(play, topic, 0))
    beat_in(a, play.group(), "m", [topic])
    consumer_describe(a, play.group())


@transcript(rows=("M4",))
def a_lost_answer_is_given_again(play: Play) -> None:
    a, topic = play.connect(), play.topic("t", 4)
    beat_in(a, play.group(), "m", [topic])
    beat(a, play.group(), "m", 2, subscribed_topic_names=[topic, play.unique("u")])
    beat(a, play.group(), "m", 2, topic_partitions=owns(play, topic, 0, 3))
    beat(a, play.group(), "m", 2, topic_partitions=owns(play, topic, 0, 9))
    beat(a, play.group(), "m", 2, topic_partitions=None)
    beat(a, play.group(), "m", 3)


CHANGES: dict[str, dict[str, Any]] = {
    "rack": {"rack_id": "r"},
    "timeout": {"rebalance_timeout": 9_000},
    "vote for the assignor that it has": {"server_assignor": "uniform"},
    "regex that is empty": {"subscribed_topic_regex": ""},
    "nothing": {},
}


@transcript(rows=("M5", "A3"), cases=CHANGES)
def what_a_member_may_change_without_a_new_epoch(play: Play, changes: dict[str, Any]) -> None:
    """The change shows at once."""
    a, topic = play.connect(), play.topic("t", 2)
    beat_in(a, play.group(), "m", [topic])
    beat(a, play.group(), "m", 2, **changes)
    consumer_describe(a, play.group())


@transcript(rows=("M5", "M7"))
def another_assignor_is_a_new_epoch(play: Play) -> None:
    """So it is when a member's vote changes what the group takes, and only then; a newcomer's vote counts.
    What equal votes lead to, the order of two hash maps says."""
    a, topic = play.connect(), play.topic("t", 2)
    beat_in(a, play.group(), "m", [topic])
    beat_in(a, play.group(), "n", [], server_assignor="range")
    consumer_describe(a, play.group(), ignore=("members",))
    beat_in(a, play.group(), "o", [], server_assignor="range")
    beat(a, play.group(), "m", 2, server_assignor="uniform")
    consumer_describe(a, play.group(), ignore=("members",))
    beat(a, play.group(), "o", 3, server_assignor="uniform")
    beat(a, play.group(), "o", 4, server_assignor="uniform")
    consumer_describe(a, play.group(), ignore=("members",))


@transcript(rows=("M5",))
def names_count_as_a_set(play: Play) -> None:
    """Order and repetition are no change; one more name is, and so is one less."""
    a, t, u = play.connect(), play.topic("t"), play.topic("u")
    beat_in(a, play.group(), "m", [t, u])
    beat(a, play.group(), "m", 2, subscribed_topic_names=[u, t, u])
    beat(a, play.group(), "m", 2, subscribed_topic_names=[u])
    beat(a, play.group(), "m", 2, topic_partitions=owns(play, u, 0))
    consumer_describe(a, play.group())


@transcript(rows=("M5",))
def another_client_speaks_for_the_member(play: Play) -> None:
    a, b = play.connect("a"), play.connect("b")
    beat_in(a, play.group(), "m", [])
    beat(b, play.group(), "m", 1)
    consumer_describe(a, play.group())


@transcript(rows=("M6", "A18"))
def topics_come_and_go(play: Play) -> None:
    """A subscribed topic that is created or deleted raises the epoch at the next heartbeat."""
    a, name = play.connect(), play.unique("t")
    beat_in(a, play.group(), "m", [name])
    play.topic("other")
    beat(a, play.group(), "m", 2)
    play.create_topic(name, 2)
    fields = {"group_id": play.group(), "member_id": "m", "rebalance_timeout": -1, "topic_partitions": None}
    heartbeat = ("consumer_group_heartbeat", 1)
    a.ask_until(lambda told: told.member_epoch == 3, *heartbeat, member_epoch=2, **fields)
    play.delete_topic(name)
    a.ask_until(lambda told: told.assignment is not None, *heartbeat, member_epoch=3, **fields)
    beat(a, play.group(), "m", 3, topic_partitions=[])
    consumer_describe(a, play.group())


@transcript(rows=("M6", "A18"))
def a_topic_grows(play: Play) -> None:
    a, topic = play.connect(), play.topic("t", 1)
    beat_in(a, play.group(), "m", [topic])
    more = {"name": topic, "count": 3, "assignments": None}
    play.admin.quietly("create_partitions", 3, topics=[more], timeout=10_000, validate_only=False)
    fields = {"group_id": play.group(), "member_id": "m", "rebalance_timeout": -1, "topic_partitions": None}
    a.ask_until(lambda told: told.member_epoch == 3, "consumer_group_heartbeat", 1, member_epoch=2, **fields)
    consumer_describe(a, play.group())


@transcript(rows=("M7", "A3"))
def the_assignor_that_most_members_ask_for(play: Play) -> None:
    """None asked: the first configured. A vote counts with the heartbeat that brings it."""
    a = play.connect()
    beat_in(a, play.group(), "m", [])
    consumer_describe(a, play.group(), ignore=("members",))
    beat(a, play.group(), "m", 1, server_assignor="range")
    consumer_describe(a, play.group(), ignore=("members",))
    beat_in(a, play.group(), "n", [], server_assignor="uniform")
    consumer_describe(a, play.group(), ignore=("members",))
    beat_in(a, play.group(), "o", [], server_assignor="uniform")
    consumer_describe(a, play.group(), ignore=("members",))
    beat(a, play.group(), "n", -1)
    beat(a, play.group(), "o", -1)
    consumer_describe(a, play.group(), ignore=("members",))


@transcript(rows=("M8", "A19"))
def a_target_waits_for_the_assignment_interval(play: Play) -> None:
    """Who joins within it has nothing yet; but who joins a group that had become empty has."""
    a, topic = play.connect(), play.topic("t", 2)
    configure(a, play.group(), assignment_interval_ms=700)
    beat_in(a, play.group(), "a", [topic])
    beat_in(a, play.group(), "b", [topic])
    consumer_describe(a, play.group())
    beat(a, play.group(), "a", 2)
    play.wait(0.8)
    beat(a, play.group(), "b", 2)
    beat(a, play.group(), "a", -1)
    beat(a, play.group(), "b", -1)
    consumer_describe(a, play.group())
    beat_in(a, play.group(), "c", [topic])
    consumer_describe(a, play.group())


@transcript(rows=("M17", "A15", "A19"))
def a_silent_member_is_out_after_the_session_timeout(play: Play) -> None:
    """The group's own; the member that goes on stays, and is told the group's interval."""
    a = play.connect()
    configure(a, play.group(), heartbeat_interval_ms=300, session_timeout_ms=1_000)
    beat_in(a, play.group(), "a", [])
    beat_in(a, play.group(), "b", [])
    play.wait(0.6)
    beat(a, play.group(), "b", 1)
    play.wait(0.6)
    beat(a, play.group(), "a", 1)
    beat(a, play.group(), "b", 1)
    consumer_describe(a, play.group())


FULL_REQUESTS: dict[str, dict[str, Any]] = {
    "names": {"rebalance_timeout": 30_000, "subscribed_topic_names": True},
    "regex": {"rebalance_timeout": 30_000, "subscribed_topic_regex": ""},
    "no timeout": {"subscribed_topic_names": True},
    "no subscription": {"rebalance_timeout": 30_000},
}


@transcript(rows=("M18", "A5"), cases=FULL_REQUESTS)
def when_the_assignment_is_told_again(play: Play, fields: dict[str, Any]) -> None:
    """A full request is told it again: timeout, names or regex, and what is owned. Null is: as before."""
    a, topic = play.connect(), play.topic("t", 2)
    beat_in(a, play.group(), "m", [topic])
    beat(a, play.group(), "m", 2)
    asked = {**fields, "topic_partitions": owns(play, topic, 0, 1)}
    if "subscribed_topic_names" in asked:
        asked["subscribed_topic_names"] = [topic]
    beat(a, play.group(), "m", 2, **asked)


@transcript(rows=("M18",))
def an_empty_assignment_is_told_as_such(play: Play) -> None:
    a = play.connect()
    beat_in(a, play.group(), "m", [])
    beat(a, play.group(), "m", 1, rebalance_timeout=30_000, subscribed_topic_names=[], topic_partitions=[])
    beat(a, play.group(), "m", 1)


@transcript(rows=("M19", "M23", "A5"))
def members_leave(play: Play) -> None:
    """Each leave raises the group epoch; the assignment epoch stays behind when nobody is left."""
    a, topic = play.connect(), play.topic("t", 2)
    beat_in(a, play.group(), "a", [topic])
    beat_in(a, play.group(), "b", [topic])
    beat(a, play.group(), "b", -1)
    beat(a, play.group(), "b", -1)
    consumer_describe(a, play.group())
    beat(a, play.group(), "a", -1)
    consumer_describe(a, play.group())
    beat(a, play.group(), "a", -1)
    beat_in(a, play.group(), "a", [topic])
    consumer_describe(a, play.group())


@transcript(rows=("M27",))
def a_classic_group_of_another_kind_gives_way_only_when_empty(play: Play) -> None:
    a = play.connect()
    joined = settle_alone(a, play.group(), protocol_type="connect", protocols=protocols("x", metadata=b"x"))
    beat_in(a, play.group(), "m", [])
    describe(a, play.group())
    members = [{"member_id": joined.member_id, "group_instance_id": None, "reason": None}]
    a.ask("leave_group", 5, group_id=play.group(), members=members)
    beat_in(a, play.group(), "m", [])
    consumer_describe(a, play.group())
    join(a, play.group("other"), 3)


@transcript(rows=("A12", "B5"))
def describe_shows_targets_and_epochs(play: Play) -> None:
    """Version 0 has no member type; a group that is not there, or of the other kind, has its own error."""
    a, topic = play.connect(), play.topic("t", 2)
    beat_in(a, play.group(), "a", [topic], rack_id="r", instance_id="i", server_assignor="range")
    beat_in(a, play.group(), "b", [topic])
    settle_alone(a, play.group("classic"))
    groups = [play.group(), play.group("classic"), play.group("none"), ""]
    for version in (0, 1):
        a.ask("consumer_group_describe", version, group_ids=groups, include_authorized_operations=False)
    describe(a, play.group(), 5)
    describe(a, play.group(), 6)
