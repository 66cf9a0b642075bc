"""Static members of consumer groups (M20 to M22, A16)."""

from __future__ import annotations

from tests.oracle.kits import beat, beat_in, consumer_describe
from tests.oracle.play import Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.consumer import owns


@transcript(rows=("M20", "M21", "A16"))
def a_static_member_comes_back_to_what_it_had(play: Play) -> None:
    """It leaves for a while, its partitions stay its own, and nobody rebalances when it returns."""
    a, topic = play.connect(), play.topic("t", 4)
    beat_in(a, play.group(), "a", [topic], instance_id="i", server_assignor="range")
    beat_in(a, play.group(), "b", [topic])
    beat(a, play.group(), "a", 2, topic_partitions=owns(play, topic, 0, 1))
    beat(a, play.group(), "b", 3)
    beat(a, play.group(), "a", -2, instance_id="i")
    consumer_describe(a, play.group())
    beat(a, play.group(), "b", 3)
    beat_in(a, play.group(), "a2", [topic], instance_id="i")
    consumer_describe(a, play.group())
    beat(a, play.group(), "a", 3, instance_id="i")


@transcript(rows=("M20", "M21"))
def the_same_member_id_comes_back(play: Play) -> None:
    """It must have left before."""
    a, topic = play.connect(), play.topic("t", 2)
    beat_in(a, play.group(), "a", [topic], instance_id="i")
    beat_in(a, play.group(), "a", [topic], instance_id="i")
    beat(a, play.group(), "a", -2, instance_id="i")
    beat(a, play.group(), "a", 2, instance_id="i")
    beat_in(a, play.group(), "a", [topic], instance_id="i")
    consumer_describe(a, play.group())


@transcript(rows=("M21",))
def a_returning_member_may_bring_another_subscription(play: Play) -> None:
    a, t, u = play.connect(), play.topic("t"), play.topic("u")
    beat_in(a, play.group(), "a", [t], instance_id="i")
    beat(a, play.group(), "a", -2, instance_id="i")
    beat_in(a, play.group(), "b", [u], instance_id="i")
    beat(a, play.group(), "b", 2, topic_partitions=[])
    beat(a, play.group(), "b", 3, topic_partitions=owns(play, u, 0))
    consumer_describe(a, play.group())


@transcript(rows=("M21", "A8", "A16"))
def an_instance_that_is_not_released(play: Play) -> None:
    a = play.connect()
    beat_in(a, play.group(), "a", [], instance_id="i")
    beat_in(a, play.group(), "b", [], instance_id="i")
    beat_in(a, play.group(), "a", [], instance_id="j")
    consumer_describe(a, play.group())


@transcript(rows=("M22", "A8"))
def instances_and_member_ids_that_do_not_belong_together(play: Play) -> None:
    a = play.connect()
    beat_in(a, play.group(), "a", [], instance_id="i")
    beat(a, play.group(), "a", 1, instance_id="j")
    beat(a, play.group(), "b", 1, instance_id="i")
    beat(a, play.group(), "a", 1)
    beat(a, play.group(), "a", -2)
    beat(a, play.group(), "b", -2, instance_id="i")
    beat(a, play.group(), "b", -1, instance_id="i")
    beat(a, play.group(), "a", -1, instance_id="j")
    beat(a, play.group(), "a", -1)
    consumer_describe(a, play.group())


@transcript(rows=("M20",))
def leaving_for_a_while_twice_and_then_for_good(play: Play) -> None:
    a, topic = play.connect(), play.topic("t", 2)
    beat_in(a, play.group(), "a", [topic], instance_id="i")
    beat(a, play.group(), "a", -2, instance_id="i")
    beat(a, play.group(), "a", -2, instance_id="i")
    consumer_describe(a, play.group())
    beat(a, play.group(), "a", -1, instance_id="i")
    consumer_describe(a, play.group())
