"""Groups of both protocols live through joins, leaves, restarts and new leaders in random order (G1 to G7,
M12, M26).

No partition is ever owned by two clients, and when it is quiet again, each has one owner.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from actors.ground.settings import GroupSettings
from tests.coordinator.consumer.migration.clients import PARTITIONS, Client, classic, modern
from tests.coordinator.consumer.migration.driver import AT_ONCE, Both

SEEDS = 25
ROUNDS = 120
QUIET_ROUNDS = 60
ROUND_MS = 300
CLIENTS_MAX = 5


class World:
    def __init__(self, chance: random.Random, settings: GroupSettings, *, cooperative: bool) -> None:
        self.chance = chance
        self.both = Both(settings)
        self.cooperative = cooperative
        self.clients: list[Client] = []
        self.started = 0

    def start(self) -> None:
        if len(self.clients) < CLIENTS_MAX:
            self.clients.append(self.client(None))

    def start_static(self) -> None:
        if len(self.clients) < CLIENTS_MAX:
            self.clients.append(self.client(f"instance-{self.started}"))

    def client(self, instance_id: str | None) -> Client:
        """Start a new client, of either protocol."""
        self.started += 1
        if self.chance.random() < 0.6:
            return classic(self.both, cooperative=self.cooperative, instance_id=instance_id)
        return modern(self.both, f"modern-{self.started}", instance_id)

    def stop(self) -> None:
        dynamic = [client for client in self.clients if client.instance_id is None]
        if dynamic:
            client = self.chance.choice(dynamic)
            self.clients.remove(client)
            client.stop()

    def restart(self) -> None:
        """Restart a static member, perhaps with the other protocol."""
        if self.clients:
            place = self.chance.randrange(len(self.clients))
            self.clients[place].stop()
            self.clients[place] = self.client(self.clients[place].instance_id)

    def fail_over(self) -> None:
        self.both.commit()
        self.both.fail_over()

    def everybody_steps(self) -> None:
        for client in self.chance.sample(self.clients, len(self.clients)):
            client.step()
            owners = Counter(number for each in self.clients for number in each.owned)
            assert not owners or max(owners.values()) == 1, owners
        self.both.advance(ROUND_MS)

    def play(self) -> None:
        events = {self.start: 3, self.start_static: 1, self.stop: 2, self.restart: 4, self.fail_over: 1}
        for _ in range(ROUNDS):
            if self.chance.random() < 0.2:
                self.chance.choices(list(events), list(events.values()))[0]()
            self.everybody_steps()
        self.start()
        for _ in range(QUIET_ROUNDS):
            self.everybody_steps()


@pytest.mark.parametrize("policy", ["bidirectional", "upgrade"])
@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_partition_has_one_owner(seed: int, cooperative: bool, policy: str) -> None:
    """No partition ever has two owners, in the end each has one, and all replicas hold the same."""
    interval_ms = random.Random(seed).choice([0, 1_000])
    settings = AT_ONCE._replace(
        group_consumer_migration_policy=policy,
        group_consumer_assignment_interval_ms=interval_ms,
    )
    world = World(random.Random(seed), settings, cooperative=cooperative)
    world.play()
    assert sorted(n for client in world.clients for n in client.owned) == list(PARTITIONS)
    world.both.check_snapshot()
