"""Recorded history in a few words: the tests' way to write down what a tier told of its groups."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from bench.swarm.replay.told import Committed, Recording, Told
from storage.history.period import Period

BEGAN_MS = 1_772_496_000_000
"""The time at which the recordings begin: noon of some day."""


class Events:
    """Makes the events of any number of groups; times are seconds from BEGAN_MS."""

    def __init__(self, group_type: str = "classic") -> None:
        self.group_type = group_type
        self._by_group: dict[str, list[Told]] = defaultdict(list)
        self._there: dict[str, set[str]] = defaultdict(set)
        self._commits: dict[str, Committed] = {}

    def joined(self, at_s: float, group: str, member: str, **fields: Any) -> None:
        self._there[group].add(member)
        self._life(at_s, "member_joined", group, member, fields)

    def left(self, at_s: float, group: str, member: str, **fields: Any) -> None:
        self._there[group].discard(member)
        self._life(at_s, "member_left", group, member, fields)

    def expired(self, at_s: float, group: str, member: str, **fields: Any) -> None:
        self._there[group].discard(member)
        self._life(at_s, "member_expired", group, member, fields)

    def fenced(self, at_s: float, group: str, member: str, **fields: Any) -> None:
        self._there[group].discard(member)
        self._life(at_s, "member_fenced", group, member, fields)

    def rebalanced(self, at_s: float, group: str, took_s: float, **fields: Any) -> None:
        """Tell of a rebalance that ended at `at_s`."""
        fields = {"cause": "new member", "members": len(self._there[group]), **fields}
        self._tell(at_s - took_s, "rebalance_began", group, {"cause": fields["cause"]})
        fields = {"duration_ms": round(took_s * 1_000), "assignor": "range", "state": "Stable", **fields}
        self._tell(at_s, "rebalance_ended", group, fields)

    def committed(self, group: str, commits: float, offsets: float) -> None:
        self._commits[group] = Committed(commits, offsets)

    def recording(self, since_s: float = 0.0, until_s: float = 600.0) -> Recording:
        span = Period(self._at_ms(since_s), self._at_ms(until_s))
        groups = {
            name: sorted((each for each in events if each.at_ms < span.until_ms), key=_place)
            for name, events in self._by_group.items()
        }
        return Recording(span, BEGAN_MS, groups, self._commits, {})

    def _life(self, at_s: float, kind: str, group: str, member: str, fields: dict[str, Any]) -> None:
        named = {
            "member_id": member,
            "client_id": member.partition("#")[0],
            "client_host": "/127.0.0.1",
            "members": len(self._there[group]),
        }
        self._tell(at_s, kind, group, named | fields)

    def _tell(self, at_s: float, kind: str, group: str, fields: dict[str, Any]) -> None:
        events = self._by_group[group]
        fields = {"group_type": self.group_type, **fields}
        events.append(Told(self._at_ms(at_s), kind, group, sequence=len(events), **fields))

    @staticmethod
    def _at_ms(at_s: float) -> int:
        return BEGAN_MS + round(at_s * 1_000)


def _place(event: Told) -> tuple[int, int]:
    return event.at_ms, event.sequence
