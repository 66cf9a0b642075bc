"""What goes wrong in a run, by seed. Each draws which kinds of faults it has, and how often they come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.simulation.disk import SLOW_SYNC_S, STUCK_SYNC_S
from tests.simulation.hosts import Host, Process
from tests.simulation.parts import World

ENABLED = 0.6
"""How likely a kind of fault is to occur in a seed at all."""


class Faults:
    def __init__(self, world: World, *, share: float = 1.0) -> None:
        """`share`: how many faults come, measured by what a world alone has."""
        self._world = world
        self._chance = chance = world.chance
        self._rate = share * chance.uniform(2.0, 7.0)
        kinds: list[Callable[[], None]] = [
            self._kill,
            self._kill_all,
            self._pause,
            self._partition,
            self._clog,
            self._cut,
            self._hang_up,
            self._storm,
            self._transfer,
            self._roll,
            self._fill_disk,
            self._slow_links,
            self._cut_clients,
            self._set_wall,
            self._change_topics,
            self._vanish,
            self._damage,
            self._resize,
            self._hang_up_while_cut_off,
            self._leave_a_tail,
            self._strand_the_leader,
        ]
        if world.sync:
            kinds += [
                self._lose_power,
                self._lose_power_everywhere,
                self._lose_power_midway,
                self._fail_syncs,
                self._restart_a_witness,
                self._lose_power_after_voting,
                self._lose_power_while_syncs_are_slow,
                self._overwrite_a_tail,
            ]
        else:
            kinds.append(self._lose_power_midway)
        self._kinds = [kind for kind in kinds if chance.random() < ENABLED] or kinds

    def schedule(self, until: float) -> None:
        world = self._world
        if len(world.founders) == 1:
            world.at(0.6, partial(world.placement.resize, 3))
        at = 0.5 + self._chance.expovariate(self._rate)
        while at < until:
            kind = self._chance.choice(self._kinds)
            world.at(at, partial(self._do, kind))
            at += self._chance.expovariate(self._rate)

    def _do(self, kind: Callable[[], None]) -> None:
        if not self._world.is_healed:
            self._world.note("faults", kind.__name__.strip("_"))
            kind()

    # -- whom it hits -------------------------------------------------------------------------------

    def _someone(self) -> Process | None:
        """Choose a process: mostly the leader."""
        alive = self._world.processes()
        leads = [process for process in alive if process.raft.is_leader]
        if leads and self._chance.random() < 0.6:
            return self._chance.choice(leads)
        return self._chance.choice(alive) if alive else None

    def _pair(self) -> tuple[Process, Process] | None:
        one = self._someone()
        others = [process for process in self._world.processes() if process is not one]
        return (one, self._chance.choice(others)) if one is not None and others else None

    # -- processes ----------------------------------------------------------------------------------

    def _down_s(self) -> float:
        return self._chance.choice((0.01, 0.1, 0.6))

    def _kill(self) -> None:
        if process := self._someone():
            process.host.stop(for_s=self._down_s())

    def _kill_all(self) -> None:
        for process in self._world.processes():
            process.host.stop(for_s=self._down_s())

    def _lose_power(self) -> None:
        if process := self._someone():
            process.host.stop(power_lost=True, for_s=self._down_s())

    def _lose_power_everywhere(self) -> None:
        for process in self._world.processes():
            process.host.stop(power_lost=True, for_s=self._down_s())

    def _lose_power_midway(self) -> None:
        """Between two operations of the disk, some of these days."""
        if process := self._someone():
            process.host.disk.operations_left = self._chance.choice((0, 1, 2, 3, 5, 8, 20))

    def _pause(self) -> None:
        if process := self._someone():
            process.host.pause(self._chance.choice((0.05, 0.3, 1.0)))

    def _transfer(self) -> None:
        for process in self._world.processes():
            if process.raft.is_leader:
                process.raft.transfer()
                process.wake()

    def _roll(self) -> None:
        """A rolling restart of all, each after it has handed leadership on."""
        for place, host in enumerate(self._world.hosts.values()):
            self._world.after(0.4 * place, partial(self._restart, host))

    def _restart(self, host: Host) -> None:
        process = host.process
        if process is None or self._world.is_healed:
            return
        process.raft.transfer()
        process.wake()

        def close() -> None:
            if process.is_alive:
                host.guard(process.raft.close)
                host.stop(for_s=0.05)

        self._world.after(0.06, close)

    def _set_wall(self) -> None:
        """Somebody sets the time; processes learn it when they start."""
        if process := self._someone():
            process.host.wall_ms += self._chance.choice((-3_600_000, -5_000, 300, 5_000, 3_600_000))

    def _change_topics(self) -> None:
        self._world.change_topics()

    # -- disks --------------------------------------------------------------------------------------

    def _fill_disk(self) -> None:
        if process := self._someone():
            host = process.host
            host.disk.full = True
            self._world.after(0.5, partial(host.stop, for_s=0.01))

    def _fail_syncs(self) -> None:
        if process := self._someone():
            disk = process.host.disk
            disk.failing = True
            # A disk that fails is slow to say so: what is synced beside it must not take that for success.
            disk.sync_s = SLOW_SYNC_S
            self._world.after(0.4, disk.calm)
            if self._chance.random() < 0.5:
                self._world.after(self._chance.uniform(0.005, 0.05), partial(setattr, disk, "failing", False))

    def _losers(self) -> list[Host]:
        """Choose the hosts that lose their disks: a minority, and only of a whole group."""
        world = self._world
        most = (len(world.placement.wanted) - 1) // 2
        if most < 1 or not world.placement.is_whole():
            return []
        wanted = [world.hosts[number] for number in world.placement.wanted]
        return self._chance.sample(wanted, self._chance.randint(1, most))

    def _vanish(self) -> None:
        for host in self._losers():
            host.vanish()
            if self._chance.random() < 0.7:
                host.stop(for_s=self._down_s())
            else:
                self._world.after(0.4, partial(host.stop, for_s=0.01))

    def _damage(self) -> None:
        for host in self._losers():
            host.is_damaged = True
            host.stop()
            self._world.note(host.name, f"a bit flips in {host.disk.flip()}")
            self._world.after(self._down_s(), host.start)

    def _resize(self) -> None:
        placement = self._world.placement
        if placement.is_whole():
            placement.resize(self._chance.choice([size for size in (1, 3) if size != len(placement.wanted)]))

    # -- links --------------------------------------------------------------------------------------

    def _partition(self) -> None:
        """Cut one off, in one direction or both; connections may outlive it."""
        process = self._someone()
        if process is None:
            return
        links, chance = self._world.links, self._chance
        ways, seconds = chance.choice(("both", "to", "from")), chance.choice((0.1, 0.5, 1.2))
        for other in self._world.processes():
            if other is not process and chance.random() < 0.8:
                if ways != "from":
                    links.block(other.number, process.number, seconds)
                if ways != "to":
                    links.block(process.number, other.number, seconds)
                if chance.random() < 0.3:
                    links.cut(process.number, other.number)

    def _clog(self) -> None:
        """Block a link for a while; then everything comes through that was sent meanwhile."""
        if pair := self._pair():
            self._world.links.block(pair[0].number, pair[1].number, self._chance.uniform(0.05, 0.9))

    def _cut(self) -> None:
        if pair := self._pair():
            self._world.links.cut(pair[0].number, pair[1].number)

    def _hang_up(self) -> None:
        if pair := self._pair():
            self._world.links.hang_up(*pair)

    def _storm(self) -> None:
        """Break every link several times, one time shortly after the other."""
        for round_number in range(5):
            self._world.after(0.06 * round_number, self._cut_all)

    def _cut_all(self) -> None:
        processes = self._world.processes()
        for place, one in enumerate(processes):
            for other in processes[place + 1 :]:
                self._world.links.cut(one.number, other.number)

    def _slow_links(self) -> None:
        self._world.links.slow = self._chance.choice((1.0, 5.0, 40.0))

    def _cut_clients(self) -> None:
        if process := self._someone():
            self._world.cut_clients(process.number, self._chance.choice((0.1, 0.5)))

    # -- what seldom comes together by itself -------------------------------------------------------

    def _roles(self) -> tuple[Process, list[Process]] | None:
        leader, alive = self._world.leader(), self._world.processes()
        if leader is None or len(alive) < 3:
            return None
        others = [process for process in alive if process is not leader]
        self._chance.shuffle(others)
        return leader, others

    def _separate(self, some: list[Process], others: list[Process], seconds: float) -> None:
        for one in some:
            for other in others:
                self._world.links.block(one.number, other.number, seconds)
                self._world.links.block(other.number, one.number, seconds)

    def _hang_up_while_cut_off(self) -> None:
        """The leader reaches half of its peers, and then closes its connections to those."""
        if (roles := self._roles()) is not None:
            leader, others = roles
            near, far = others[: len(others) // 2], others[len(others) // 2 :]
            self._separate([leader], far, 1.0)
            for peer in near:
                delay = self._chance.uniform(0.25, 0.7)
                self._world.after(delay, partial(self._world.links.hang_up, leader, peer))

    def _restart_a_witness(self) -> None:
        """A peer on whose promise the lease rests comes back at once, and hears those who do not hear the
        leader."""
        if (roles := self._roles()) is not None:
            leader, others = roles
            near, far = others[: len(others) // 2], others[len(others) // 2 :]
            self._world.quiet_until = self._world.now + 1.5
            self._world.after(0.03, partial(self._separate, [leader], far, 1.5))
            for peer in near:
                self._world.after(self._chance.uniform(0.3, 0.8), partial(self._blink, leader, peer))

    def _blink(self, leader: Process, peer: Process) -> None:
        if peer.is_alive and not self._world.is_healed:
            self._separate([leader], [peer], 1.0)
            peer.host.stop(power_lost=True, for_s=0.0)

    def _leave_a_tail(self) -> None:
        """The leader and a minority go on alone for a while: entries that the others never see."""
        if (roles := self._roles()) is not None:
            leader, others = roles
            few = max((len(others) - 2) // 2, 0)
            self._separate([leader, *others[:few]], others[few:], self._chance.uniform(0.3, 1.2))

    def _strand_the_leader(self) -> None:
        """Alone with those who only read: nothing that it decides tells it that others may have gone on."""
        if (roles := self._roles()) is not None:
            self._world.cut_clients(roles[0].number, 1.0)
            self._world.after(0.03, partial(self._separate, [roles[0]], roles[1], 0.9))

    def _lose_power_after_voting(self) -> None:
        """Whoever votes next forgets all that is not on its disk, and does not hear whom it elected."""
        votes = self._world.votes

        def granted(voter: Process, candidate_id: str) -> None:
            votes.on_granted = None
            world = self._world
            world.after(self._chance.uniform(0, 0.003), partial(self._forget, voter, candidate_id))

        votes.on_granted = granted
        self._chance.choice((self._transfer, self._kill, self._pause))()

    def _forget(self, voter: Process, candidate_id: str) -> None:
        processes = self._world.processes()
        elected = [process for process in processes if process.member_id == candidate_id]
        if voter.is_alive and not self._world.is_healed:
            self._separate(elected, [each for each in processes if each not in elected], 1.0)
            self._world.quiet_until = self._world.now + 1.0
            voter.host.stop(power_lost=True, for_s=0.0)

    def _lose_power_while_syncs_are_slow(self) -> None:
        hosts = [process.host for process in self._world.processes()]
        for host in hosts:
            host.disk.sync_s = SLOW_SYNC_S
            self._world.after(1.0, host.disk.calm)
        for host in self._chance.sample(hosts, self._chance.randint(min(1, len(hosts)), len(hosts))):
            self._world.after(self._chance.uniform(0.05, 0.8), partial(self._cut_power, host))

    def _cut_power(self, host: Host) -> None:
        if not self._world.is_healed:
            host.stop(power_lost=True, for_s=self._chance.choice((0.01, 0.2)))

    def _overwrite_a_tail(self) -> None:
        """Have a leader's uncommitted entries overwritten while its disk is slow, then cut its power."""
        if (roles := self._roles()) is not None:
            leader, others = roles
            seconds = self._chance.uniform(0.3, 0.8)
            self._separate([leader], others, seconds)
            disk = leader.host.disk
            disk.sync_s = STUCK_SYNC_S
            self._world.after(seconds + 0.4, disk.calm)
            delay = seconds + self._chance.uniform(0.002, 0.3)
            self._world.after(delay, partial(self._cut_power, leader.host))
