"""The peers and the kinds of work that there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from bench.peers.groupd import GroupdOne, GroupdThree, UnsyncedOne, UnsyncedThree
from bench.peers.kafka import KafkaOne, KafkaThree
from bench.peers.options import Options
from bench.peers.peer import Peer
from bench.peers.plan import Scenario
from bench.peers.process import Floor, Kfake, Mock
from bench.peers.works import big_group, day, failover, heartbeats, idle, joins, memory, offsets, start

PEERS: Final[Mapping[str, type[Peer]]] = MappingProxyType(
    {
        peer.name: peer
        for peer in (
            *(GroupdOne, GroupdThree, UnsyncedOne, UnsyncedThree),
            *(KafkaOne, KafkaThree, Mock, Kfake, Floor),
        )
    }
)
BY_DEFAULT: Final = tuple(peer for peer in PEERS if not peer.startswith("unsynced"))
"""The peers that take part unless others are named."""
WORKS: Final[Mapping[int, Callable[[Options], list[Scenario]]]] = MappingProxyType(
    {
        8: idle.scenarios,  # before anything else has happened to the peers
        1: heartbeats.scenarios,
        2: offsets.scenarios,
        3: joins.scenarios,
        4: big_group.scenarios,
        5: failover.scenarios,
        7: start.scenarios,
        9: day.scenarios,
        6: memory.scenarios,  # which takes longest: the others' figures are there by then
    }
)


class UnknownName(Exception):
    """A flag names a peer or a work that does not exist."""


def peers_named(text: str) -> list[type[Peer]]:
    """The peers that "a,b" names; those of BY_DEFAULT if the text is empty. Raises UnknownName."""
    names = [name.strip() for name in text.split(",") if name.strip()] or list(BY_DEFAULT)
    for name in names:
        if name not in PEERS:
            raise UnknownName(f"--peers {name}: {', '.join(PEERS)} are allowed")
    return [PEERS[name] for name in dict.fromkeys(names)]


def works_numbered(text: str, works: Collection[int] = WORKS.keys()) -> list[int]:
    """The works that "1,2" names, in the order they are done in; all if the text is empty. Raises
    UnknownName."""
    names = {name.strip() for name in text.split(",") if name.strip()} or set(map(str, works))
    for name in sorted(names):
        if name not in map(str, works):
            raise UnknownName(f"--work {name}: {', '.join(map(str, sorted(works)))} are allowed")
    return [work for work in works if str(work) in names]
