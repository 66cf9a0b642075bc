"""The clients of a split: each has a group that stays or one that moves, and looks for it in both halves."""

from __future__ import annotations

from typing import Any

from actors.protocol.java_hash import partition_for
from tests.simulation.asked import Ask, Asked, Asker
from tests.simulation.clients import Committer, Reader
from tests.simulation.members_client import ClassicMember, ConsumerMember
from tests.simulation.parts import Process
from tests.simulation.split.halves import CHILD, PARENT, PARTITIONS, Half

MISLED = 0.15
"""How often a client asks the wrong half, because a broker's image is older or newer than others'."""


def group_of(kind: str, partition: int) -> str:
    """Return the first group id of a kind that belongs to a partition after the split."""
    names = (f"{kind}-{number}" for number in range(1_000))
    return next(name for name in names if partition_for(name, PARTITIONS) == partition)


class Route:
    """The world as the clients of one group see it: time and chance are the parent's, the replicas those of
    the half that was last looked for."""

    def __init__(self, halves: list[Half], group_id: str) -> None:
        self._halves = halves
        self._noted = halves[PARENT].noted
        self._moves = partition_for(group_id, PARTITIONS) == CHILD
        self._asked = halves[PARENT]
        self.answers = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._halves[PARENT], name)

    @property
    def hosts(self) -> Any:
        return self._asked.hosts

    def processes(self) -> list[Any]:
        """Return the replicas of the half that a broker names."""
        is_child = self._moves and self._noted.is_cut
        if self._halves[PARENT].chance.random() < MISLED:
            is_child = not is_child
        self._asked = self._halves[CHILD if is_child else PARENT]
        return list(self._asked.processes())

    def send(self, client: Asker, process: Process, ask: Ask) -> Asked:
        asked: Asked = process.world.answers.send(client, process, ask)
        return asked

    @property
    def missed(self) -> set[str]:
        """Return the clients that were given something in answer to a request which they had given up."""
        return set().union(*(half.answers.missed for half in self._halves))

    @property
    def histories(self) -> Any:
        return self

    def keeps(self, group_id: str, member_id: str, owned: set[int]) -> None:
        """Let both halves know what the member owns."""
        for half in self._halves:
            half.answers.histories.keeps(group_id, member_id, owned)


def clients_of(halves: list[Half]) -> list[Any]:
    """Make the clients of a run: of each kind of group there is one that stays and one that moves."""
    clients: list[Any] = []
    for partition in (PARENT, CHILD):
        simple, classic, consumer = (group_of(kind, partition) for kind in ("simple", "classic", "consumer"))
        to_simple, to_classic, to_consumer = (
            Route(halves, group_id) for group_id in (simple, classic, consumer)
        )
        clients += [
            Reader(to_simple, f"reader-{partition}", simple),
            *(Committer(to_simple, f"committer-{partition}{n}", simple, 0.015) for n in range(2)),
            *(ClassicMember(to_classic, f"classic-{partition}{n}", classic) for n in range(2)),
            *(ConsumerMember(to_consumer, f"consumer-{partition}{n}", consumer, None) for n in range(2)),
        ]
    return clients
