"""What one replica of an offsets partition counts, and the rows that it gives to the tier's metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from actors.coordinator.shard import CoordinatorShard
from actors.leader.client_service import ClientService
from actors.leader.held_heartbeats import HeldHeartbeats
from actors.leader.history_writer import HistoryWriter
from actors.leader.serving import serving_shard
from actors.metrics.counts import RequestCounts, count_events
from actors.metrics.groups import group_rows
from actors.metrics.loop_lag import LoopLag
from actors.metrics.numbers import Row, process_rows, request_rows
from actors.replica.host import ReplicaHost

PARTITION_STATES = ("active", "standby", "loading", "failed")


class ReplicaMetrics:
    """The metrics of the replica of `partition`, which is told of events; everything else is looked up when
    metrics are asked for."""

    def __init__(
        self,
        partition: int,
        host: ReplicaHost,
        requests: RequestCounts,
        clients: ClientService,
        kept: HistoryWriter,
    ) -> None:
        self._partition = partition
        self._host = host
        self._requests = requests
        self._clients = clients
        self._kept = kept
        self._events: Counter[str] = Counter()
        self._lag = LoopLag()
        self._load_s = 0.0

    def loaded(self, load_s: float) -> None:
        """Note that the replica is up, and that its journal was read in `load_s` seconds."""
        self._load_s = load_s
        self._lag.start()

    def count_events(self, events: Iterable[Any]) -> None:
        count_events(self._events, events)

    def close(self) -> None:
        self._lag.close()

    async def rows(self, problem: str | None) -> list[Row]:
        """Return all rows as of now. Groups are counted in steps, with requests served in between."""
        host = self._host
        rows: list[Row] = [
            ("num_partitions", (state,), int(state == self._state(problem))) for state in PARTITION_STATES
        ]
        rows += process_rows("partition")
        rows += request_rows(self._requests)
        rows += [(name, (), count) for name, count in self._events.items()]
        rows.append(("partition_load_time_seconds", (), self._load_s))
        rows.append(("event_queue_size", (), host.replica.owed))
        rows.append(("event_queue_time_seconds", (), self._lag.late.packed()))
        rows.append(("event_processing_time_seconds", (), host.turn_times.packed()))
        rows += held_rows(self._clients.held)
        rows.append(("heartbeats_repeated", (), self._clients.repeated()))
        rows.append(("history_events_dropped", (), self._kept.dropped))
        shard = serving_shard(host)
        if shard is not None:
            rows += self._lag_rows()
            rows += [(f"offset_{what}", (), count) for what, count in shard.state.offset_counts.items()]
            rows += await _in_steps(shard)
        return rows

    def _state(self, problem: str | None) -> str:
        if problem is not None:
            return "failed"
        if self._host.raft is None:
            return "loading"
        return "active" if self._host.replica.serving else "standby"

    def _lag_rows(self) -> list[Row]:
        raft = self._host.raft
        if raft is None:
            return []
        lags = [peer["lag"] or 0 for peer in raft.status().get("peers", {}).values()]
        return [("replica_lag_entries", (str(self._partition),), max(lags, default=0))]


def held_rows(held: HeldHeartbeats) -> list[Row]:
    counts = held.counts
    return [
        ("heartbeats_held", (), len(held)),
        ("heartbeat_holds", (), counts.began),
        *(("heartbeat_hold_ends", (cause.value,), number) for cause, number in counts.ended.items()),
        ("rebalance_seconds_saved", (), counts.saved_ms / 1000),
    ]


async def _in_steps(shard: CoordinatorShard) -> list[Row]:
    counting = group_rows(shard)
    while True:
        try:
            next(counting)
        except StopIteration as done:
            rows: list[Row] = done.value
            return rows
        await asyncio.sleep(0)
