"""What must hold of the requests that the reconcile of upstream leaders sends, whatever happens."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from actors.upstream.image import NO_LEADER
from actors.upstream.leadership import MOVES_MAX, Request
from actors.upstream.partitions import Facts, PartitionState
from actors.upstream.reports import PutRight
from actors.upstream.requests import (
    UNCLEAN,
    AlterPartition,
    AlterPartitionReassignments,
    BrokerHeartbeat,
    ElectLeaders,
)
from actors.upstream.sent import SHOWN_MS
from actors.upstream.together import Key

PUT_RIGHT_MAX = 5
"""How often a partition may be moved back within WINDOW_MS."""
WINDOW_MS = 5_000


class _Asked(NamedTuple):
    what: object
    partition_epoch: int
    ended: str
    """"" while there is no answer, then "granted", "refused" or "lost"."""
    ended_ms: int
    offset: int
    """The offset of the metadata that was known when it ended."""


class Checks:
    """An observer of every request and its end."""

    def __init__(self, *, refuses_cordoned: bool) -> None:
        self.moves = 0
        self.put_right = 0
        self._refuses_cordoned = refuses_cordoned
        self._asked: dict[Key, _Asked] = {}
        self._under_way: set[Key] = set()
        self._reports: dict[tuple[Key, int], list[int]] = defaultdict(list)

    def sent(self, request: Request, facts: Facts, truly_dead: set[int], now_ms: int) -> None:
        """Check a request against the facts that it was decided on."""
        match request:
            case BrokerHeartbeat():
                assert request.broker_id in facts.tier, f"a heartbeat for a broker of others: {request}"
                if request.want_fence:
                    assert request.broker_id in truly_dead, f"a node that lives is fenced: {request}"
                assert request.cordoned_log_dirs != () or self._refuses_cordoned, "uncordoned for nothing"
            case AlterPartition():
                assert request.broker_id in facts.tier, f"sent in a broker's name: {request}"
                for row in request.partitions:
                    self._moved(
                        (row.topic, row.partition_index), ("isr", row.new_isr_with_epochs), facts, now_ms
                    )
            case AlterPartitionReassignments():
                for each in request.partitions:
                    self._moved(
                        (each.topic, each.partition_index), ("replicas", each.replicas), facts, now_ms
                    )
            case ElectLeaders():
                for key in request.partitions:
                    state = state_of(facts, key)
                    assert state is not None
                    if request.election_type == UNCLEAN:
                        assert state.leader == NO_LEADER, f"an unclean election of {key}, which has a leader"
                    self._moved(key, ("elect", request.election_type), facts, now_ms)
        assert len(self._under_way) <= MOVES_MAX

    def ended(self, keys: list[tuple[Key, str]], offset: int, now_ms: int) -> None:
        """Take note of what came of a request's partitions."""
        for key, how in keys:
            self._under_way.discard(key)
            self._asked[key] = self._asked[key]._replace(ended=how, ended_ms=now_ms, offset=offset)

    def reported(self, report: object, now_ms: int) -> None:
        """Check how often somebody who insists is answered."""
        if not isinstance(report, PutRight):
            return
        self.put_right += 1
        times = self._reports[(report.topic, report.partition_index), report.term]
        times.append(now_ms)
        recent = [each for each in times if each > now_ms - WINDOW_MS]
        assert len(recent) <= PUT_RIGHT_MAX, f"moved back {len(recent)} times in {WINDOW_MS} ms: {report}"

    def _moved(self, key: Key, what: object, facts: Facts, now_ms: int) -> None:
        self.moves += 1
        assert key not in self._under_way, f"{key} is moved while the answer to another move is out"
        state = state_of(facts, key)
        if key[0] == facts.topic:
            assert state is not None
            assert state.leader == NO_LEADER or state.leader in facts.tier, (
                f"{key} is taken from {state.leader}"
            )
        epoch = -1 if state is None else state.partition_epoch
        last = self._asked.get(key)
        if last is not None and state is not None and (last.what, last.partition_epoch) == (what, epoch):
            if last.ended == "granted":
                assert now_ms - last.ended_ms >= SHOWN_MS, f"{key}: {what} is asked twice for one fact"
            elif last.ended == "lost":
                assert facts.metadata_offset > last.offset, (
                    f"{key}: {what} is asked again, and nothing is newer"
                )
        self._asked[key] = _Asked(what, epoch, "", 0, 0)
        self._under_way.add(key)


def state_of(facts: Facts, key: Key) -> PartitionState | None:
    """Return a partition as facts have it."""
    if key[0] == facts.topic:
        return facts.partitions.get(key[1])
    found = (each.state for each in facts.strays if (each.topic, each.partition_index) == key)
    return next(found, None)
