"""The controller hears who leads the offsets partitions, whatever it missed when they were elected."""

from __future__ import annotations

import asyncio
from typing import Any

from actors.ground.spec import TierSpec, copies, partition_name
from actors.metadata.commands import ReportLeader
from cluster.leader_news import LeaderNews
from cluster.sight import Look, Sight


def sight(*leaders: tuple[int, int] | None) -> Sight:
    """What is seen of a tier: the node and the term of each partition's leader, None for one without."""
    spec = TierSpec(
        tier_id="t",
        secret="",
        data_dir="/d",
        run_dir="/r",
        nodes=(),
        placement=(copies((1, 2, 3)),) * len(leaders),
        controllers=copies((1,)),
    )
    looks = {}
    for partition, leader in enumerate(leaders):
        if leader is not None:
            node_id, term = leader
            status = {"serving": True, "node_id": node_id, "term": term}
            looks[partition_name(partition, node_id - 1)] = Look(None, status)
    return Sight(spec, looks)


def told(*sights: Sight) -> list[Any]:
    """What the controller is told by these looks, one after the other."""
    submitted: list[Any] = []

    async def submit(command: Any) -> None:
        submitted.append(command)

    async def look() -> None:
        news = LeaderNews(submit)
        for each in sights:
            await news.tell(each)

    asyncio.run(look())
    return submitted


def test_every_leader_that_is_in_sight_is_told_once() -> None:
    seen = sight((2, 5), None, (1, 7))
    assert told(seen, seen) == [ReportLeader(0, 2, 5), ReportLeader(2, 1, 7)]


def test_a_leader_of_a_new_term_is_told() -> None:
    assert told(sight((2, 5)), sight(None), sight((3, 6))) == [ReportLeader(0, 2, 5), ReportLeader(0, 3, 6)]
