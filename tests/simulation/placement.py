"""Which replicas the group should have, as a controller tells its leader: again and again.

A replica that refuses to start is replaced by another with a new number; one whose directory vanished comes
back as another member; groups grow and shrink. Nobody is stopped before it has left the group.
"""

from __future__ import annotations

from storage.raft.members import Member, Members
from tests.simulation.parts import World

LAG_ENTRIES_MAX = 30


class Placement:
    def __init__(self, world: World) -> None:
        self._world = world
        self.wanted = list(world.founders)
        """The numbers of the hosts that are to have the replicas."""

    def target(self) -> dict[str, int] | None:
        """Member ids of the wanted, as far as all are known."""
        hosts = [self._world.hosts[number] for number in self.wanted]
        if any(host.member_id is None or host.refused is not None for host in hosts):
            return None
        return {host.member_id: host.number for host in hosts if host.member_id is not None}

    def members(self) -> Members:
        """Return the target as members of a group."""
        return tuple(sorted(Member(name, number, True) for name, number in (self.target() or {}).items()))

    def is_whole(self) -> bool:
        """The group is as it should be and nobody lags: a minority may lose what it has."""
        world = self._world
        processes = [world.hosts[number].process for number in self.wanted]
        return self.members() == world.checks.members and all(
            process is not None
            and process.member_id == process.host.member_id
            and process.host.directory == process.directory
            and process.members == world.checks.members
            and process.journal.failed is None
            and process.raft.applied_index >= world.checks.committed_index - LAG_ENTRIES_MAX
            for process in processes
        )

    def resize(self, size: int) -> None:
        """Grow by new replicas, or shrink to some of the present ones."""
        world = self._world
        while len(self.wanted) > size:
            self.wanted.remove(world.chance.choice(self.wanted))
        while len(self.wanted) < size:
            self.wanted.append(world.add_host().number)
        world.note("placement", f"wants {self.wanted}")

    def step(self) -> None:
        world = self._world
        for place, number in enumerate(self.wanted):
            if world.hosts[number].refused is not None:
                self.wanted[place] = world.add_host().number
                world.note("placement", f"r{self.wanted[place]} is to replace r{number}")
        leader, target = world.leader(), self.target()
        if leader is None or target is None:
            return
        leader.raft.set_target(target)
        leader.wake()
        if world.checks.members == self.members():
            for host in world.hosts.values():
                if host.number not in self.wanted and not host.retired:
                    host.retired = True
                    host.stop()
