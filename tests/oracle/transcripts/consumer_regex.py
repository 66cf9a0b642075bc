"""Regular expressions of subscriptions (M24, M25, A17)."""

from __future__ import annotations

from typing import Any

from tests.oracle.kits import beat, beat_in, consumer_describe
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.consumer import owns

UNKNOWN = {
    "open": "(",
    "class": "[",
    "star": "*",
    "range": "a{2,1}",
    "look ahead": "(?=x)",
    "reference": r"\1",
    "possessive": "a++",
    "property": r"\p{Nope}",
    "too many": "a{1001}",
    "end": "\\",
    "Z": r"\Z",
    "posix": "[[:nope:]]",
    "double": "a**",
}
KNOWN = {
    "named": "(?P<n>a)",
    "angle": "(?<n>a)",
    "case": "(?i)A",
    "literal": r"\Qa.b\E",
    "property": r"\p{Greek}",
    "lazy": "a+?",
    "posix": "[[:alpha:]]",
    "z": r"\z",
}


@transcript(rows=("M24", "A17", "A8"), cases=UNKNOWN)
def expressions_that_are_refused(play: Play, regex: str) -> None:
    """It is refused at the first heartbeat and at any other; the member goes on as it was."""
    a = play.connect()
    beat_in(a, play.group(), "m", None, subscribed_topic_regex=regex)
    beat_in(a, play.group(), "m", [])
    beat(a, play.group(), "m", 1, subscribed_topic_regex=regex)
    beat(a, play.group(), "m", 1)


@transcript(rows=("M24", "A17"), cases=KNOWN)
def expressions_that_are_taken(play: Play, regex: str) -> None:
    a = play.connect()
    beat_in(a, play.group(), "m", None, subscribed_topic_regex=regex)
    consumer_describe(a, play.group(), ignore=("group_epoch", "group_state"))


def _until_epoch(
    client: Client, group_id: str, member_id: str, epoch: int, reached: int, **fields: Any
) -> Any:
    fields = {"rebalance_timeout": -1, "topic_partitions": None, **fields}
    return client.ask_until(
        lambda told: told.member_epoch == reached,
        "consumer_group_heartbeat",
        1,
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        **fields,
    )


@transcript(rows=("M24", "A17"))
def an_expression_is_resolved_after_the_heartbeat(play: Play) -> None:
    """Whole names must match. The first answer has epoch 1 and nothing."""
    a = play.connect()
    topic = play.topic("orders", 2)
    play.topic("reorders")
    beat_in(a, play.group(), "m", None, subscribed_topic_regex=f"o.*{play.names.token}")
    _until_epoch(a, play.group(), "m", 1, 2)
    beat(a, play.group(), "m", 2, topic_partitions=owns(play, topic, 0, 1))
    consumer_describe(a, play.group())


@transcript(rows=("M25", "M24"))
def names_and_an_expression_add_up(play: Play) -> None:
    a, topic = play.connect(), play.topic("orders")
    named = play.topic("named")
    beat_in(a, play.group(), "m", [named], subscribed_topic_regex=f"o.*{play.names.token}")
    _until_epoch(a, play.group(), "m", 2, 3)
    beat(a, play.group(), "m", 3, topic_partitions=owns(play, named, 0) + owns(play, topic, 0))
    consumer_describe(a, play.group())


@transcript(rows=("M24", "M5"))
def who_joins_a_resolved_expression(play: Play) -> None:
    """Such a member raises the epoch with its first heartbeat. The assignor that the first asks for raised
    it already."""
    a = play.connect()
    play.topic("orders", 2)
    regex = f"o.*{play.names.token}"
    beat_in(a, play.group(), "a", None, subscribed_topic_regex=regex, server_assignor="range")
    _until_epoch(a, play.group(), "a", 2, 3)
    beat_in(a, play.group(), "b", None, subscribed_topic_regex=regex)
    beat(a, play.group(), "a", 3)
    consumer_describe(a, play.group())


@transcript(rows=("M24", "M14"))
def an_expression_is_given_up(play: Play) -> None:
    """The member has to revoke at once what the expression matched."""
    a, topic = play.connect(), play.topic("orders")
    beat_in(a, play.group(), "m", None, subscribed_topic_regex=f"o.*{play.names.token}")
    _until_epoch(a, play.group(), "m", 1, 2)
    beat(a, play.group(), "m", 2, topic_partitions=owns(play, topic, 0))
    beat(a, play.group(), "m", 2, subscribed_topic_regex="")
    beat(a, play.group(), "m", 2, topic_partitions=[])
    consumer_describe(a, play.group())


@transcript(rows=("M24", "M5"))
def an_expression_in_place_of_another(play: Play) -> None:
    """What the old one matched is to be revoked at once; the epoch rises when the new one is resolved."""
    a, topic = play.connect(), play.topic("orders")
    play.topic("returns", 2)
    beat_in(a, play.group(), "m", None, subscribed_topic_regex=f"o.*{play.names.token}")
    _until_epoch(a, play.group(), "m", 1, 2)
    beat(a, play.group(), "m", 2, topic_partitions=owns(play, topic, 0))
    beat(a, play.group(), "m", 2, subscribed_topic_regex=f"r.*{play.names.token}")
    _until_epoch(a, play.group(), "m", 2, 3, topic_partitions=[])
    consumer_describe(a, play.group())


@transcript(rows=("M24",))
def an_empty_expression_and_no_names(play: Play) -> None:
    a = play.connect()
    beat_in(a, play.group(), "m", None, subscribed_topic_regex="")
    beat(a, play.group(), "m", 1, subscribed_topic_regex="")
    consumer_describe(a, play.group())
