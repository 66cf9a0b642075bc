"""The lives of all groups of a history: one pass over what clients did, and over what was done to them.

PURE.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from bench.swarm.counted.life import GroupLife, Loss, Move
from bench.swarm.counted.one_group import HANDLERS, OneGroup
from storage.history.calls import Call, Fault, Gone, History, Topic


class Lives(NamedTuple):
    """The lives of all groups."""

    groups: list[GroupLife]
    losses: list[Loss]
    moves: list[Move]


def lives_of(history: History) -> Lives:
    """Follow the lives of all groups of a history. The memory needed grows with members and rebalances, not
    with calls."""
    found = _Lives()
    done: list[_Row] = sorted((*history.gone, *history.topics, *history.faults), key=_time_us)
    rows: Iterable[_Row] = heapq.merge(history.calls, done, key=_time_us)
    for row in rows:
        match row:
            case Call():
                found.called(row)
            case Gone():
                found.ended(row)
            case Topic():
                found.grew(row)
            case Fault():
                found.disturbed(row.began_us)
    return Lives([group.life() for group in found.groups.values()], found.losses, found.moves)


class _Lives:
    def __init__(self) -> None:
        self.groups: dict[str, OneGroup] = {}
        self.losses: list[Loss] = []
        self.moves: list[Move] = []
        self._sizes: dict[str, int] = {}
        self._by_client: dict[str, OneGroup] = {}

    def called(self, call: Call) -> None:
        if call.api not in HANDLERS or not call.group_id:
            return
        group = self.groups.get(call.group_id)
        if group is None:
            group = self.groups[call.group_id] = OneGroup(call, self._sizes, self.losses, self.moves)
        self._by_client[call.client] = group
        group.take(call)

    def ended(self, gone: Gone) -> None:
        group = self._by_client.get(gone.client)
        if group is not None:
            group.ends(gone.client, gone.at_us)

    def grew(self, topic: Topic) -> None:
        if topic.topic in self._sizes:
            self.disturbed(topic.at_us)
        self._sizes[topic.topic] = topic.partitions

    def disturbed(self, at_us: int) -> None:
        for group in self.groups.values():
            group.is_disturbed(at_us)


_Row = Call | Gone | Topic | Fault


def _time_us(row: _Row) -> int:
    match row:
        case Call():
            return row.sent_us
        case Fault():
            return row.began_us
    return row.at_us
