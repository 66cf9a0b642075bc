"""Which older epochs a KIP-848 member may repeat: M4."""

from __future__ import annotations

from tests.oracle.kits import beat, beat_in
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("M4", "M12"), cases={"not heard": False, "heard": True})
def older_epoch_of_a_waiting_member(play: Play, heard: bool) -> None:
    """A lost answer may be asked for again, until the member has been heard at its new epoch."""
    a, b = play.connect("a"), play.connect("b")
    topic = play.topic("t", 2)
    beat_in(a, play.group(), "m", [topic])
    beat_in(b, play.group(), "n", [])
    beat(b, play.group(), "n", 2, subscribed_topic_names=[topic])
    if heard:
        beat(b, play.group(), "n", 3)
    beat(b, play.group(), "n", 2, topic_partitions=[])
