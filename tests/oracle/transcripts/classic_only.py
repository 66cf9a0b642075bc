"""A coordinator that serves classic groups only: `group.coordinator.rebalance.protocols=classic` (A26)."""

from __future__ import annotations

from tests.oracle.kits import beat, beat_in, commit, consumer_describe, describe, fetch, settle_alone
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("A26",), profile="classic_only", cases={"v0": 0, "v1": 1})
def heartbeat_of_the_consumer_protocol_is_refused(play: Play, version: int) -> None:
    """Whatever it says: the first of a member, a later one, and one that Kafka would refuse otherwise."""
    a = play.connect("a")
    topic = play.topic()
    beat_in(a, play.group(), "m", [topic], version=version)
    beat(a, play.group(), "m", 3, version)
    beat(a, "", "", -5, version)


@transcript(rows=("A26",), profile="classic_only", cases={"v0": 0, "v1": 1})
def consumer_groups_are_not_described(play: Play, version: int) -> None:
    """Each group that was asked for gets the refusal, those that are not there too."""
    a = play.connect("a")
    settle_alone(a, play.group())
    a.ask("consumer_group_describe", version, group_ids=[play.group(), play.group("other")])
    consumer_describe(a, "", version)


@transcript(rows=("A26", "A25"), profile="classic_only", cases={"v3": 3, "v4": 4})
def apis_are_told_as_ever(play: Play, version: int) -> None:
    """Which of the two heartbeats a client may send is not said by the list of APIs."""
    a = play.connect("a")
    told = a.quietly("api_versions", version, client_software_name="oracle", client_software_version="1")
    play.note(
        "told",
        {
            "apis": sorted(
                [row.api_key, row.min_version, row.max_version]
                for row in told.api_keys
                if row.api_key in (11, 68, 69)
            ),
            "features": sorted(
                [each.name, each.min_version, each.max_version]
                for each in told.supported_features
                if each.name == "group.version"
            ),
            "finalized": sorted(
                [each.name, each.min_version_level, each.max_version_level]
                for each in told.finalized_features
                if each.name == "group.version"
            ),
        },
    )


@transcript(rows=("A26",), profile="classic_only")
def classic_groups_go_on(play: Play) -> None:
    """Join, commit, fetch and description are as ever."""
    a = play.connect("a")
    topic = play.topic()
    joined = settle_alone(a, play.group())
    commit(
        a,
        8,
        play.group(),
        {topic: {0: 5}},
        generation_id_or_member_epoch=joined.generation_id,
        member_id=joined.member_id,
    )
    fetch(a, 8, play.group(), {topic: [0]})
    describe(a, play.group())
