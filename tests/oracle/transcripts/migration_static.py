"""A static member of a consumer group speaks the classic protocol under its own id: G3, G7."""

from __future__ import annotations

from tests.oracle.kits import beat_in, consumer_describe, heartbeat, protocols, subscription
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("G3", "G7"), cases={"own": "m", "none": ""})
def lone_static_member_speaks_classic(play: Play, member_id: str) -> None:
    """It was the last member of the consumer protocol: the group is a classic one from then on, without a
    rebalance, because it has what it wants. Its JoinGroup is still answered as in a consumer group."""
    a = play.connect()
    topic = play.topic("t", 2)
    beat_in(a, play.group(), "m", [topic], instance_id="i")
    wanted = protocols("range", metadata=subscription([topic]))
    static = {"group_instance_id": "i", "protocols": wanted}
    joined = a.ask("join_group", 9, group_id=play.group(), member_id=member_id, **static)
    heartbeat(a, play.group(), joined, group_instance_id="i")
    consumer_describe(a, play.group())
    a.ask("list_groups", 5, states_filter=[], types_filter=[])
