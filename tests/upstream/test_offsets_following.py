"""Kafka's log of an offsets partition is followed: taken, committed, and only then asked on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from actors.upstream import controllers, offsets_following
from actors.upstream.connecting import connector
from actors.upstream.offsets_following import OffsetsFollower
from actors.upstream.orders import Order
from tests.polling import reached
from tests.upstream.offsets_log.asked import Asked
from tests.upstream.offsets_log.logs import commit
from tests.upstream.scripted_leader import TIER, ScriptedLeader, offsets_of

SEEDS = range(12)
NEW_TOPIC_ID = b"the next topic.."


class Followed:
    """A leader at Kafka, and a follower of its log with a shard."""

    def __init__(self, leader: ScriptedLeader, seed: int = 0) -> None:
        self.leader = leader
        self.asked = Asked(random.Random(seed))
        self.does_go_on = True
        self.follower = self._new_follower()
        leader.on_fetch = self._check

    @property
    def next_offset(self) -> int:
        return self.asked.taker.next_offset

    def aim(self, order: Order | None = None) -> None:
        self.follower.aim(order or self.leader.order())

    def begin_again(self) -> None:
        """Follow by another leader of the tier, which has what is committed."""
        self.asked.taker.fail_over()
        self.follower = self._new_follower()

    async def taken(self, offset: int) -> None:
        """Wait until the log is taken up to an offset, for good."""
        await reached(lambda: self.asked.committed_offset >= offset, f"offset {offset} is taken")

    async def whole(self) -> None:
        """Wait until the leader knows that all replicas have its whole log."""
        leader = self.leader
        await reached(lambda: leader.in_sync == dict.fromkeys(TIER, leader.log.end), "all are at the end")

    def offsets(self) -> dict[tuple[str, int], int]:
        """What is committed for the group, once it is served."""
        assert self.asked.taker.serve(topic_id=self.leader.topic_id).error_code == 0
        return self.asked.taker.offsets("g")

    def _new_follower(self) -> OffsetsFollower:
        return OffsetsFollower(
            0,
            connector("story"),
            self.asked,
            lambda: self.asked.taker.state.from_kafka.log,
            lambda: self.does_go_on,
        )

    def _check(self, broker_id: int, offset: int) -> None:
        assert offset <= self.asked.committed_offset, "the leader is told of nothing that may be lost"


@asynccontextmanager
async def following(seed: int = 0) -> AsyncIterator[Followed]:
    """A log that is followed."""
    async with ScriptedLeader().listening() as leader:
        followed = Followed(leader, seed)
        followed.aim()
        async with running(followed):
            yield followed


@asynccontextmanager
async def running(followed: Followed) -> AsyncIterator[None]:
    """Run the follower, and end it."""
    task = asyncio.create_task(followed.follower.run())
    try:
        yield
    finally:
        followed.does_go_on = False
        async with asyncio.timeout(10):
            await task
        followed.does_go_on = True


def run(story: Callable[[Followed], Awaitable[None]], seed: int = 0) -> None:
    async def whole() -> None:
        async with following(seed) as followed:
            await story(followed)

    asyncio.run(whole())


def test_all_replicas_reach_the_end_and_commits_are_acknowledged_behind_ours() -> None:
    async def story(followed: Followed) -> None:
        for number in range(20):
            end = followed.leader.append(commit("g", number % 4, number))
            if number == 5:
                await followed.whole()
            if number > 5:
                await followed.leader.acknowledged(end)
        await followed.whole()
        assert followed.follower.at_end
        assert followed.follower.records == 20
        assert followed.follower.problem is None
        assert followed.offsets() == {("t", 0): 16, ("t", 1): 17, ("t", 2): 18, ("t", 3): 19}

    run(story)


def test_one_replica_fetches_until_the_end_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_following, "FETCH_BYTES_MAX", 200)

    async def story(followed: Followed) -> None:
        leader = followed.leader
        leader.replicas = {}
        for number in range(50):
            leader.append(commit("g", 0, number))
        leader.high_watermark = 50
        leader.replicas = {each: 10 + each for each in TIER}
        await followed.whole()
        assert len(offsets_of(leader.fetches, TIER[0])) > 20
        assert set(offsets_of(leader.fetches, TIER[1])) == {50}

    run(story)


def test_a_leader_that_does_not_know_the_replicas_yet_is_asked_again() -> None:
    async def story(followed: Followed) -> None:
        leader, followed.leader.replicas = followed.leader, {}
        leader.append(commit("g", 0, 7))
        await reached(lambda: followed.follower.problem is not None)
        assert "UNKNOWN_LEADER_EPOCH" in (followed.follower.problem or "")
        leader.replicas = {each: 10 + each for each in TIER}
        await followed.whole()
        assert followed.follower.problem is None

    run(story)


def test_a_replica_that_is_unknown_keeps_no_other_from_being_in_sync() -> None:
    async def story(followed: Followed) -> None:
        del followed.leader.replicas[TIER[0]]
        followed.leader.append(commit("g", 0, 7))
        await reached(lambda: set(followed.leader.in_sync) == set(TIER[1:]), "the others are in sync")
        await reached(lambda: f"broker {TIER[0]}" in (followed.follower.problem or ""))

    run(story)


def test_another_epoch_of_the_leader_is_followed_when_it_is_known() -> None:
    async def story(followed: Followed) -> None:
        leader = followed.leader
        leader.append(commit("g", 0, 1))
        await followed.whole()
        leader.lead_anew(leader.log.end)
        leader.append(commit("g", 0, 2))
        await reached(lambda: "FENCED_LEADER_EPOCH" in (followed.follower.problem or ""))
        followed.aim()
        await followed.whole()
        assert followed.offsets() == {("t", 0): 2}

    run(story)


def test_what_the_next_leader_never_had_is_taken_back() -> None:
    async def story(followed: Followed) -> None:
        leader = followed.leader
        leader.append(commit("g", 0, 1), commit("g", 1, 1))
        leader.lags_at = 2
        leader.append(commit("g", 0, 5))
        await followed.taken(3)
        leader.lead_anew(2)
        leader.append(commit("g", 1, 2))
        followed.aim()
        await reached(lambda: followed.asked.taker.state.from_kafka.log is not None)
        await reached(
            lambda: (log := followed.asked.taker.state.from_kafka.log) and log.leader_epoch == leader.epoch
        )
        await followed.whole()
        assert followed.offsets() == {("t", 0): 1, ("t", 1): 2}

    run(story)


@pytest.mark.parametrize("end", [0, 1])
def test_what_kafka_had_acknowledged_stays_if_the_next_leader_never_had_it(end: int) -> None:
    """A broker was elected that was not in sync (an unclean election)."""

    async def story(followed: Followed) -> None:
        leader = followed.leader
        leader.append(commit("g", 0, 1))
        leader.append(commit("g", 0, 5), commit("g", 1, 1))
        await followed.whole()
        leader.lead_anew(end)
        leader.append(commit("g", 1, 2))
        followed.aim()
        await followed.whole()
        assert (followed.next_offset, followed.follower.problem) == (end + 1, None)
        leader.lead_anew(end)
        leader.append(commit("g", 2, 3))
        followed.aim()
        await followed.whole()
        assert followed.offsets() == {("t", 0): 5, ("t", 1): 2, ("t", 2): 3}

    run(story)


def test_a_topic_that_was_made_anew_is_taken_once_its_leader_has_it() -> None:
    async def story(followed: Followed) -> None:
        leader = followed.leader
        leader.append(commit("g", 0, 1), commit("g", 1, 1))
        await followed.whole()
        followed.aim(leader.order()._replace(topic_id=NEW_TOPIC_ID))
        await reached(lambda: "UNKNOWN_TOPIC_ID" in (followed.follower.problem or ""))
        assert followed.next_offset == 2
        leader.lead_anew(0)
        leader.topic_id = NEW_TOPIC_ID
        leader.append(commit("g", 0, 9))
        followed.aim()
        await reached(
            lambda: (log := followed.asked.taker.state.from_kafka.log) and log.topic_id == NEW_TOPIC_ID
        )
        await followed.whole()
        assert followed.offsets() == {("t", 0): 9}

    run(story)


def test_an_empty_copy_of_a_log_whose_beginning_was_deleted_begins_there() -> None:
    async def story(followed: Followed) -> None:
        leader, followed.leader.replicas = followed.leader, {}
        for number in range(4):
            leader.append(commit("g", number, number))
        leader.start = 2
        leader.replicas = {each: 10 + each for each in TIER}
        await followed.whole()
        assert followed.offsets() == {("t", 2): 2, ("t", 3): 3}

    run(story)


def test_a_log_that_begins_behind_what_was_taken_is_begun_anew() -> None:
    async def story(followed: Followed) -> None:
        leader = followed.leader
        leader.append(commit("g", 0, 1))
        await followed.whole()
        leader.replicas = {}
        for number in range(1, 4):
            leader.append(commit("g", number, number))
        leader.start = 3
        leader.replicas = {each: 10 + each for each in TIER}
        await followed.whole()
        assert followed.offsets() == {("t", 3): 3}

    run(story)


def test_connections_that_break_are_made_anew() -> None:
    async def story(followed: Followed) -> None:
        for number in range(10):
            end = followed.leader.append(commit("g", 0, number))
            await followed.whole()
            await followed.leader.acknowledged(end)
            await followed.leader.hang_up()
        assert followed.offsets() == {("t", 0): 9}

    run(story)


def test_a_leader_that_stalls_is_waited_for_a_while_and_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "REQUEST_TIMEOUT_S", 0.1)

    async def story(followed: Followed) -> None:
        followed.leader.append(commit("g", 0, 1))
        await followed.whole()
        followed.leader.is_frozen = True
        await reached(lambda: "does not answer" in (followed.follower.problem or ""))
        followed.leader.append(commit("g", 0, 2))
        followed.leader.is_frozen = False
        await followed.whole()
        assert followed.follower.problem is None
        assert followed.offsets() == {("t", 0): 2}

    run(story)


def test_while_nobody_leads_upstream_nobody_is_asked() -> None:
    async def story(followed: Followed) -> None:
        followed.leader.append(commit("g", 0, 1))
        await followed.whole()
        followed.aim(followed.leader.order()._replace(source=None))
        await reached(lambda: followed.follower.problem is not None)
        asked = len(followed.leader.fetches)
        followed.leader.append(commit("g", 0, 2))
        await reached(lambda: "nobody" in (followed.follower.problem or ""))
        assert len(followed.leader.fetches) == asked
        followed.aim()
        await followed.whole()

    run(story)


def test_the_next_leader_of_the_tier_goes_on_where_the_last_one_was() -> None:
    async def story() -> None:
        async with ScriptedLeader().listening() as leader:
            followed = Followed(leader)
            leader.append(*(commit("g", number, 1) for number in range(4)))
            followed.aim()
            async with running(followed):
                await followed.whole()
            followed.begin_again()
            begun = len(leader.fetches)
            leader.append(commit("g", 0, 2))
            followed.aim()
            async with running(followed):
                await followed.whole()
            assert min(offset for _, offset in leader.fetches[begun:]) == 4
            assert followed.follower.records == 1
            assert followed.offsets() == {("t", 0): 2, ("t", 1): 1, ("t", 2): 1, ("t", 3): 1}

    asyncio.run(story())


def test_a_removal_that_did_not_end_is_ended_before_anything_is_taken() -> None:
    async def story() -> None:
        async with ScriptedLeader().listening() as leader:
            followed = Followed(leader)
            leader.append(commit("g", 0, 1), commit("g", 1, 1))
            followed.aim()
            async with running(followed):
                await followed.whole()
            followed.asked.taker.begin_to_drop()
            leader.lead_anew(0)
            leader.append(commit("g", 1, 3))
            followed.begin_again()
            followed.aim()
            async with running(followed):
                await followed.whole()
            assert followed.offsets() == {("t", 1): 3}

    asyncio.run(story())


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_the_shard_has_what_the_log_has(seed: int) -> None:
    chance = random.Random(seed)

    async def story(followed: Followed) -> None:
        leader = followed.leader
        for number in range(150):
            end = leader.append(
                *(commit("g", chance.randrange(6), number) for _ in range(chance.randint(1, 3)))
            )
            match chance.randrange(12):
                case 0:
                    await leader.hang_up()
                case 1:
                    leader.replicas.pop(chance.choice(TIER), None)
                case 2:
                    leader.replicas = {each: 10 + each for each in TIER}
                case 3:
                    # The next leader has what was acknowledged, and perhaps more.
                    leader.lead_anew(chance.randint(leader.high_watermark, end))
                    followed.aim()
                case 4:
                    leader.most_bytes = chance.choice((1, 300, 1 << 30))
                case _:
                    for _ in range(chance.randrange(20)):
                        await asyncio.sleep(0)
        leader.replicas = {each: 10 + each for each in TIER}
        leader.in_sync.clear()
        followed.aim()
        await followed.whole()
        last = {key: value for batch in leader.log.batches for _, key, value in batch.records}
        assert len(followed.offsets()) == len(last)
        for (_, partition), offset in followed.asked.taker.offsets("g").items():
            key, _ = commit("g", partition, 0)
            assert commit("g", partition, offset) == (key, last[key])

    run(story, seed)
