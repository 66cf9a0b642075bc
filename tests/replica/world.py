"""A world of random requests, commits, falls and elections around three replicas, by seed."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

from actors.coordinator.ground.timers import SLOT_MS
from actors.ground.contract import Token
from actors.protocol import api_keys
from actors.protocol.messages import ConsumerGroupHeartbeatRequest
from tests.replica.cluster import Cluster, snapshot_of

GROUPS = ("a", "b", "c")
TURNS = 4
"""How many turns of timers and slices leave nothing to be done: a group that forms answers its joins in
two."""


class World:
    """A world in which offsets only grow: what is fetched must be at least what was acknowledged before."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = Cluster()
        self.cluster.elect(0)
        self.offset = 0
        self.commits: dict[Token, tuple[str, tuple[int, ...], int]] = {}
        self.fetches: dict[Token, tuple[str, list[int]]] = {}
        self.acknowledged: defaultdict[str, list[int]] = defaultdict(lambda: [-1] * 4)
        self.sent: list[Token] = []

    def steps(self) -> dict[Callable[[], None], int]:
        """The steps that may come next, with their weights."""
        return {
            self.commit_offset: 10,
            self.fetch: 8,
            self.join: 2,
            self.beat: 4,
            self.pass_time: 2,
            self.flush: 6,
            self.commit_some: 6,
            self.elect: 1,
            self.snapshot: 1,
            self.lose_lease: 1,
        }

    def step(self) -> None:
        steps = self.steps()
        self.chance.choices(list(steps), list(steps.values()))[0]()
        self.learn()

    def commit_offset(self) -> None:
        self.offset += 1
        group_id, last = self.chance.choice(GROUPS), self.chance.randrange(4)
        partitions = (last,) if self.offset % 3 else tuple(range(last + 1))
        token = self.cluster.send_commits(group_id, self.offset, partitions)
        self.commits[token] = (group_id, partitions, self.offset)
        self.sent.append(token)

    def fetch(self) -> None:
        group_id = self.chance.choice(GROUPS)
        known = list(self.acknowledged[group_id])
        token = self.cluster.send_fetch(group_id)
        self.fetches[token] = (group_id, known)
        self.sent.append(token)

    def join(self) -> None:
        self.sent.append(self.cluster.send_join(f"classic-{self.chance.randrange(2)}"))

    def beat(self) -> None:
        """Let members of consumer groups come, go and stay, so that there is more to undo than offsets."""
        group_id, member_id = f"consumer-{self.chance.randrange(2)}", f"m{self.chance.randrange(3)}"
        epoch = self.chance.choice([0, 0, 1, 2, 3, -1])
        joining = epoch == 0
        body = ConsumerGroupHeartbeatRequest(
            group_id,
            member_id,
            epoch,
            rebalance_timeout_ms=5_000 if joining else -1,
            subscribed_topic_names=("t",) if joining else None,
            topic_partitions=() if joining else None,
        )
        self.sent.append(self.cluster.send(api_keys.CONSUMER_GROUP_HEARTBEAT, body, 1))

    def pass_time(self) -> None:
        self.cluster.now_ms += self.chance.choice([10, 3_000, 20_000])
        self.cluster.leader.run_timers(self.cluster.now_ms)

    def flush(self) -> None:
        self.cluster.leader.flush()

    def commit_some(self) -> None:
        cluster = self.cluster
        cluster.commit(self.chance.randint(cluster.committed, len(cluster.entries)))

    def elect(self) -> None:
        cluster = self.cluster
        cluster.log.lease = True
        uncommitted = len(cluster.entries) - cluster.committed
        cluster.elect(self.chance.randrange(3), surviving=self.chance.randint(0, uncommitted))
        self.check()

    def check(self) -> None:
        self.cluster.check_equal()

    def snapshot(self) -> None:
        """Take a snapshot of some replica, which another one may load and go on from."""
        cluster = self.cluster
        state = snapshot_of(cluster.leader)
        follower = (cluster.leader_node + 1) % 3
        if cluster.applied[follower] == cluster.applied[cluster.leader_node]:
            cluster.replicas[follower].restore(state)

    def lose_lease(self) -> None:
        self.cluster.log.lease = not self.cluster.log.lease

    def learn(self) -> None:
        answers = self.cluster.answers
        for token in [token for token in self.commits if token in answers]:
            group_id, partitions, offset = self.commits.pop(token)
            error = self.cluster.commit_error(token)
            assert error in {0, 16}
            if error == 0:
                known = self.acknowledged[group_id]
                for partition in partitions:
                    known[partition] = max(known[partition], offset)
        for token in [token for token in self.fetches if token in answers]:
            group_id, known = self.fetches.pop(token)
            if answers[token].groups[0].error_code == 16:
                continue
            found = self.cluster.fetched(token)
            assert all(f >= k for f, k in zip(found, known, strict=True)), (group_id, found, known)

    def settle(self) -> None:
        cluster = self.cluster
        cluster.log.lease = True
        cluster.now_ms += 400_000
        for _ in range(TURNS):
            cluster.now_ms += SLOT_MS
            cluster.leader.run_timers(cluster.now_ms)
            cluster.flush_and_commit()
        self.learn()
        assert not self.commits
        assert not self.fetches
        assert all(token in cluster.answers for token in self.sent)
        assert cluster.leader.owed == 0
        cluster.check_equal()
        for group_id, known in self.acknowledged.items():
            found = cluster.fetched(cluster.send_fetch(group_id))
            assert all(f >= k for f, k in zip(found, known, strict=True)), (group_id, found, known)
