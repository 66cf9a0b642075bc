"""What goes wrong in a run, by seed, and the run itself: faults first, then a healed world must converge."""

from __future__ import annotations

from functools import partial

from storage.raft import Raft
from tests.simulation.world import Replica, Violation, World

FAULTS_S = 6.0
HEAL_S = 12.0


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance

    def schedule(self) -> None:
        """Fill the run with client work, checks, dialling and faults."""
        world, chance = self._world, self._chance
        for replica in world.replicas.values():
            world.at(chance.uniform(0, 0.05), replica.start)
        self._every(0.06, world.links.connect_all, FAULTS_S + HEAL_S)
        self._every(0.03, world.propose, FAULTS_S)
        self._every(0.006, world.check_leases, FAULTS_S)
        at = 0.5
        while at < FAULTS_S:
            world.at(at, self._one)
            at += chance.expovariate(4.0)

    def _every(self, period: float, work: object, until: float) -> None:
        assert callable(work)

        def again() -> None:
            work()
            if self._world.now < until:
                self._world.at(self._world.now + self._chance.uniform(0.5, 1.5) * period, again)

        self._world.at(0.0, again)

    def _one(self) -> None:
        kinds = [
            self._kill,
            self._kill,
            self._kill_all,
            self._pause,
            self._partition,
            self._partition,
            self._cut,
            self._hang_up,
            self._hang_up,
            self._transfer,
            self._transfer,
            self._full_disk,
            self._slow_links,
            self._hang_up_while_cut_off,
            self._leave_a_tail,
        ]
        if self._world.sync:
            kinds += [self._lose_power, self._lose_power_everywhere, self._restart_a_witness]
        self._chance.choice(kinds)()

    def _someone(self) -> Replica | None:
        """A living replica, mostly the leader."""
        alive = self._world.alive()
        leads = [replica for replica in alive if replica.raft is not None and replica.raft.is_leader]
        if leads and self._chance.random() < 0.6:
            return self._chance.choice(leads)
        return self._chance.choice(alive) if alive else None

    def _stop(self, replica: Replica, *, power_lost: bool) -> None:
        if replica.raft is None:
            return
        replica.stop()
        if power_lost:
            replica.disk.lose_power()
        self._world.links.stopped(replica.id, power_lost=power_lost)
        self._world.at(self._world.now + self._chance.choice((0.01, 0.1, 0.6)), lambda: self._start(replica))

    def _start(self, replica: Replica) -> None:
        if replica.raft is None:
            replica.disk.full = False
            replica.start()

    def _kill(self) -> None:
        if replica := self._someone():
            self._stop(replica, power_lost=False)

    def _kill_all(self) -> None:
        for replica in self._world.alive():
            self._stop(replica, power_lost=False)

    def _lose_power(self) -> None:
        if replica := self._someone():
            self._stop(replica, power_lost=True)

    def _lose_power_everywhere(self) -> None:
        for replica in self._world.alive():
            self._stop(replica, power_lost=True)

    def _pause(self) -> None:
        if replica := self._someone():
            replica.paused_until = self._world.now + self._chance.choice((0.05, 0.3, 1.0))

    def _partition(self) -> None:
        """Cut one off, in one direction or both; connections may outlive it."""
        replica = self._someone()
        if replica is None:
            return
        links = self._world.links
        ways = self._chance.choice(("both", "to", "from"))
        for other in self._world.ids:
            if other != replica.id and self._chance.random() < 0.8:
                if ways != "from":
                    links.blocked.add((other, replica.id))
                if ways != "to":
                    links.blocked.add((replica.id, other))
                if self._chance.random() < 0.3:
                    links.cut(replica.id, other)
        self._world.at(self._world.now + self._chance.choice((0.1, 0.5, 1.5)), links.unblock)

    def _cut(self) -> None:
        one, other = self._chance.sample(self._world.ids, 2)
        self._world.links.cut(one, other)

    def _hang_up(self) -> None:
        if replica := self._someone():
            others = [other for other in self._world.ids if other != replica.id]
            self._world.links.hang_up(replica.id, self._chance.choice(others))

    def _transfer(self) -> None:
        for replica in self._world.alive():
            if replica.raft is not None and replica.raft.is_leader:
                replica.raft.transfer()
                replica.wake()

    def _full_disk(self) -> None:
        replica = self._someone()
        if replica is None:
            return
        replica.disk.full = True
        self._world.at(self._world.now + 0.5, lambda: self._stop(replica, power_lost=False))

    def _slow_links(self) -> None:
        self._world.links.slow = self._chance.choice((1.0, 5.0, 40.0))

    # -- what seldom comes together by itself -------------------------------------------------------

    def _roles(self) -> tuple[Replica, list[Replica]] | None:
        alive = self._world.alive()
        leads = [replica for replica in alive if replica.raft is not None and replica.raft.serving]
        if not leads or len(alive) < len(self._world.ids):
            return None
        others = [replica for replica in alive if replica is not leads[0]]
        self._chance.shuffle(others)
        return leads[0], others

    def _separate(self, some: list[Replica], others: list[Replica], seconds: float) -> None:
        for one in some:
            for other in others:
                self._world.links.blocked |= {(one.id, other.id), (other.id, one.id)}
        self._world.at(self._world.now + seconds, self._world.links.unblock)

    def _hang_up_while_cut_off(self) -> None:
        """The leader reaches half of its peers, and then closes its connections to those."""
        if (roles := self._roles()) is not None:
            leader, others = roles
            near, far = others[: len(others) // 2], others[len(others) // 2 :]
            self._separate([leader], far, 1.0)
            for peer in near:
                at = self._world.now + self._chance.uniform(0.25, 0.7)
                self._world.at(at, partial(self._world.links.hang_up, leader.id, peer.id))

    def _restart_a_witness(self) -> None:
        """A peer on whose promise the lease rests comes back at once, and hears those who do not hear the
        leader."""
        if (roles := self._roles()) is not None:
            leader, others = roles
            near, far = others[: len(others) // 2], others[len(others) // 2 :]
            self._separate([leader], far, 1.5)
            self._world.quiet_until = self._world.now + 1.5
            for peer in near:
                at = self._world.now + self._chance.uniform(0.25, 0.8)
                self._world.at(at, partial(self._blink, leader, peer))

    def _blink(self, leader: Replica, replica: Replica) -> None:
        if replica.raft is not None:
            self._separate([leader], [replica], 1.0)
            self._stop(replica, power_lost=True)
            self._start(replica)

    def _leave_a_tail(self) -> None:
        """The leader and a minority go on alone for a while: entries that the others never see."""
        if (roles := self._roles()) is not None:
            leader, others = roles
            few = (len(self._world.ids) - 1) // 2 - 1
            self._separate([leader, *others[:few]], others[few:], self._chance.uniform(0.3, 1.2))

    def heal(self) -> None:
        world = self._world
        world.links.slow = 1.0
        world.links.unblock()
        for replica in world.replicas.values():
            replica.disk.full = False
            replica.paused_until = min(replica.paused_until, world.now)
            if replica.raft is not None and replica.raft.status()["failure"] is not None:
                self._stop(replica, power_lost=False)
            self._start(replica)
            replica.wake()


def run(seed: int, *, replicas: int = 3, raft_class: type[Raft] = Raft) -> World:
    """One seed: faults, then health. Raises Violation (or RaftFatal) when a property does not hold."""
    world = World(seed, replicas, raft_class)
    faults = Faults(world)
    faults.schedule()
    world.run_until(FAULTS_S)
    faults.heal()
    while not world.converged() and world.now < FAULTS_S + HEAL_S:
        world.run_until(world.now + 0.25)
    if not world.converged():
        states = [replica.raft.status() for replica in world.alive() if replica.raft is not None]
        raise Violation(f"seed {seed} does not converge: {states}")
    world.check_leases()
    return world
