"""How members come to their targets (M10 to M16, A13, A14), and what they may commit on the way (O6)."""

from __future__ import annotations

from typing import Any

from tests.oracle.kits import beat, beat_in, commit, consumer_describe
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.consumer import owns


def two_of_range(play: Play, a: Client, b: Client, topic: str) -> None:
    """Members "a" and "b" of four partitions; "a" has all of them and has just been told of "b"."""
    beat_in(a, play.group(), "a", [topic], server_assignor="range")
    beat_in(b, play.group(), "b", [topic], server_assignor="range")
    beat(a, play.group(), "a", 2)


@transcript(rows=("M11", "M12", "M23", "A13"))
def partitions_are_revoked_before_they_are_given(play: Play) -> None:
    """The first keeps its epoch until it has acknowledged; the second has its epoch at once, and gets the
    partitions when they are free."""
    a, b, topic = play.connect("a"), play.connect("b"), play.topic("t", 4)
    two_of_range(play, a, b, topic)
    consumer_describe(a, play.group())
    beat(b, play.group(), "b", 3)
    beat(a, play.group(), "a", 2, topic_partitions=owns(play, topic, 0, 1, 2, 3))
    beat(a, play.group(), "a", 2, topic_partitions=owns(play, topic, 0, 1, 2))
    beat(a, play.group(), "a", 2)
    beat(b, play.group(), "b", 3)
    beat(a, play.group(), "a", 2, topic_partitions=owns(play, topic, 0, 1))
    consumer_describe(a, play.group())
    beat(b, play.group(), "b", 3)
    consumer_describe(a, play.group())


@transcript(rows=("M11",))
def who_says_what_it_owns_before_it_is_asked(play: Play) -> None:
    """A member that has nothing of what it is to give up moves on in one step."""
    a, b, topic = play.connect("a"), play.connect("b"), play.topic("t", 4)
    beat_in(a, play.group(), "a", [topic], server_assignor="range")
    beat_in(b, play.group(), "b", [topic])
    beat(a, play.group(), "a", 2, topic_partitions=[])
    beat(b, play.group(), "b", 3)
    consumer_describe(a, play.group())


@transcript(rows=("M13", "A13"))
def what_is_to_be_revoked_is_wanted_again(play: Play) -> None:
    """The newcomer goes before the first has let go: what it was to give up is its own again."""
    a, b, topic = play.connect("a"), play.connect("b"), play.topic("t", 4)
    two_of_range(play, a, b, topic)
    beat(b, play.group(), "b", -1)
    beat(a, play.group(), "a", 2)
    beat(a, play.group(), "a", 2, topic_partitions=owns(play, topic, 0, 1))
    consumer_describe(a, play.group())


@transcript(rows=("M12",))
def three_members_and_a_chain_of_revocations(play: Play) -> None:
    a, b, c = play.connect("a"), play.connect("b"), play.connect("c")
    topic = play.topic("t", 6)
    two_of_range(play, a, b, topic)
    beat(a, play.group(), "a", 2, topic_partitions=owns(play, topic, 0, 1, 2))
    beat(b, play.group(), "b", 3)
    beat_in(c, play.group(), "c", [topic])
    beat(a, play.group(), "a", 3)
    beat(b, play.group(), "b", 3)
    beat(c, play.group(), "c", 4)
    beat(b, play.group(), "b", 3, topic_partitions=owns(play, topic, 3))
    beat(c, play.group(), "c", 4)
    beat(a, play.group(), "a", 3, topic_partitions=owns(play, topic, 0, 1))
    beat(b, play.group(), "b", 4)
    consumer_describe(a, play.group())


@transcript(rows=("M14",))
def topics_no_longer_wanted_are_taken_at_once(play: Play) -> None:
    a, t, u = play.connect(), play.topic("t", 2), play.topic("u", 2)
    beat_in(a, play.group(), "m", [t, u])
    beat(a, play.group(), "m", 2, subscribed_topic_names=[u])
    consumer_describe(a, play.group())
    both = owns(play, t, 0, 1) + owns(play, u, 0, 1)
    beat(a, play.group(), "m", 2, topic_partitions=both)
    beat(a, play.group(), "m", 2, subscribed_topic_names=[], topic_partitions=both)
    beat(a, play.group(), "m", 2, topic_partitions=owns(play, u, 0))
    beat(a, play.group(), "m", 2, topic_partitions=[])
    consumer_describe(a, play.group())


@transcript(rows=("M16", "A14"))
def who_does_not_revoke_in_time_is_removed(play: Play) -> None:
    """The member is removed after its own rebalance timeout, though it heartbeats."""
    a, b, topic = play.connect("a"), play.connect("b"), play.topic("t", 2)
    beat_in(a, play.group(), "a", [topic], rebalance_timeout=500, server_assignor="range")
    beat_in(b, play.group(), "b", [topic])
    beat(a, play.group(), "a", 2)
    play.wait(0.3)
    beat(a, play.group(), "a", 2)
    play.wait(0.4)
    beat(a, play.group(), "a", 2)
    consumer_describe(a, play.group())
    beat(b, play.group(), "b", 3)


@transcript(rows=("M16",))
def who_revokes_in_time_stays(play: Play) -> None:
    a, b, topic = play.connect("a"), play.connect("b"), play.topic("t", 2)
    beat_in(a, play.group(), "a", [topic], rebalance_timeout=500, server_assignor="range")
    beat_in(b, play.group(), "b", [topic])
    beat(a, play.group(), "a", 2)
    beat(a, play.group(), "a", 2, topic_partitions=owns(play, topic, 0))
    play.wait(0.7)
    beat(a, play.group(), "a", 3)


SIZES: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "uniform": ("uniform", 3, (5, 4)),
    "range": ("range", 3, (5, 4)),
    "more members than partitions": ("uniform", 3, (1,)),
    "range, more members": ("range", 3, (2, 1)),
}


@transcript(rows=("M10", "A3"), cases=SIZES)
def everybody_gets_a_fair_share(play: Play, case: tuple[str, int, tuple[int, ...]]) -> None:
    """How many partitions of each topic each member is to have; of uniform which ones is left open."""
    assignor, members, counts = case
    a = play.connect()
    topics = [play.topic(f"t{number}", count) for number, count in enumerate(counts)]
    for number in range(members):
        beat_in(a, play.group(), f"m{number}", topics, server_assignor=assignor)
    targets = _targets(a, play.group())
    if assignor == "range":
        for member_id, target in sorted(targets.items()):
            play.note(f"target of {member_id}", sorted(target))
    else:
        play.note("sizes", sorted(len(target) for target in targets.values()))
    play.note("partitions in all", sum(len(target) for target in targets.values()))


@transcript(rows=("M10",))
def different_subscriptions(play: Play) -> None:
    """Each topic goes to those who want it alone, the whole as evenly as can be."""
    a = play.connect()
    t, u, v = play.topic("t", 2), play.topic("u", 4), play.topic("v", 1)
    beat_in(a, play.group(), "a", [t])
    beat_in(a, play.group(), "b", [t, u])
    beat_in(a, play.group(), "c", [u, v])
    targets = _targets(a, play.group())
    play.note("sizes", {member_id: len(target) for member_id, target in sorted(targets.items())})
    play.note("topics of a", sorted({topic for topic, _ in targets["a"]}))


def _targets(client: Client, group_id: str) -> dict[str, set[tuple[str, int]]]:
    (group,) = client.quietly("consumer_group_describe", 1, group_ids=[group_id]).groups
    return {
        member.member_id: {
            (topic.topic_name, number)
            for topic in member.target_assignment.topic_partitions
            for number in topic.partitions
        }
        for member in group.members
    }


def _commit(client: Client, group_id: str, topic: str, epoch: int, *numbers: int, **fields: Any) -> None:
    given = {"member_id": "a", "generation_id_or_member_epoch": epoch, **fields}
    commit(client, 9, group_id, {topic: dict.fromkeys(numbers, 7)}, **given)


@transcript(rows=("O6",))
def commits_of_older_epochs(play: Play) -> None:
    """KIP-1251: what was assigned at that epoch or before may be committed with it, also while it is to be
    revoked; one partition that may not refuses all."""
    a, b, topic = play.connect("a"), play.connect("b"), play.topic("t", 4)
    two_of_range(play, a, b, topic)
    _commit(a, play.group(), topic, 2, 0, 3)
    _commit(a, play.group(), topic, 1, 0)
    _commit(a, play.group(), topic, 3, 0)
    beat(a, play.group(), "a", 2, topic_partitions=owns(play, topic, 0, 1))
    _commit(a, play.group(), topic, 3, 0, 3)
    _commit(a, play.group(), topic, 2, 0, 1)
    _commit(a, play.group(), topic, 2, 0, 3)
    _commit(a, play.group(), topic, 2, 3)
    _commit(a, play.group(), topic, -1, 0)
    beat(b, play.group(), "b", -1)
    beat(a, play.group(), "a", 3)
    _commit(a, play.group(), topic, 3, 0, 1)
    _commit(a, play.group(), topic, 3, 2)
    _commit(a, play.group(), topic, 2, 0)
    _commit(a, play.group(), topic, 4, 2)


@transcript(rows=("O6", "M20"))
def commits_of_a_static_member_that_was_away(play: Play) -> None:
    a, topic = play.connect(), play.topic("t", 2)
    beat_in(a, play.group(), "a", [topic], instance_id="i")
    beat(a, play.group(), "a", -2, instance_id="i")
    _commit(a, play.group(), topic, 2, 0)
    _commit(a, play.group(), topic, -2, 0)
    beat_in(a, play.group(), "b", [topic], instance_id="i")
    _commit(a, play.group(), topic, 1, 0, member_id="b")
    _commit(a, play.group(), topic, 0, 0, member_id="b")
    _commit(a, play.group(), topic, 1, 0)


@transcript(rows=("O6",), cases={f"v{version}": version for version in (2, 5, 7, 8)})
def a_new_member_commits_with_an_old_version(play: Play, version: int) -> None:
    a, topic = play.connect(), play.topic("t", 2)
    beat_in(a, play.group(), "a", [topic])
    given = {"member_id": "a", "generation_id_or_member_epoch": 2}
    commit(a, version, play.group(), {topic: {0: 7}}, **given)
