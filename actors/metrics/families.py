"""Every metric of the tier: its name, kind, meaning, and the metric of Kafka's broker that it answers to.

`python -m actors.metrics.families` prints the page METRICS.md; a test fails when that is stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

Kind = Literal["gauge", "counter", "summary", "max"]
"""The kind of a metric. max is a gauge of which the largest of several actors' values stands for all; any
other is summed."""
PREFIX: Final = "groupd_"


class Family(NamedTuple):
    """One row of the table. `name` is without the prefix and, for a counter, without `_total`."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    kafka: str = ""
    """The metric of Kafka's broker, of kafka.server:type=group-coordinator-metrics unless another type is
    named."""


_ROWS = (
    Family("group_count", "gauge", "Groups by protocol.", ("protocol",), "group-count{protocol}"),
    Family("classic_group_count", "gauge", "Classic groups by state; those that have nothing but offsets are"
           " Empty.", ("state",), "classic-group-count{state} (4.4)"),
    Family("consumer_group_count", "gauge", "Consumer groups by state.", ("state",),
           "consumer-group-count{state}"),
    Family("push_group_count", "gauge", "Groups whose coordinator pushes, by state.", ("state",)),
    Family("group_member_count", "gauge", "Members by protocol.", ("protocol",)),
    Family("offset_count", "gauge", "Committed offsets kept.", (), "offset-count (4.4)"),
    Family("offset_commits", "counter", "Offsets committed.", (), "offset-commit-count"),
    Family("offset_expirations", "counter", "Offsets expired.", (), "offset-expiration-count"),
    Family("offset_deletions", "counter", "Offsets deleted by request.", (), "offset-deletion-count"),
    Family("group_completed_rebalances", "counter", "Rebalances of classic groups that ended.", (),
           "group-completed-rebalance-count"),
    Family("consumer_group_rebalances", "counter", "Rises of a consumer group's epoch.", (),
           "consumer-group-rebalance-count"),
    Family("num_partitions", "gauge", "Replicas of offsets partitions: active (leads and serves), standby"
           " (follows, as up to date as its lag), loading, failed.", ("state",), "num-partitions{state}"),
    Family("partition_load_time_seconds", "max", "Longest start of a replica: its journal read and applied.",
           (), "partition-load-time-max"),
    Family("event_queue_time_seconds", "summary", "How late an actor's loop comes to what is due,"
           " sampled.", (), "event-queue-time-ms-{p50,p95,p99,p999,max}"),
    Family("event_processing_time_seconds", "summary", "A turn of a replica's loop: timers, batch, log.",
           (), "event-processing-time-ms-{p50,p95,p99,p999,max}"),
    Family("event_queue_size", "gauge", "Group requests whose answer is still owed: parked, or waiting for"
           " their commit.", (), "event-queue-size"),
    Family("heartbeats_held", "gauge", "Heartbeats whose answer is held until there is news."),
    Family("heartbeat_holds", "counter", "Heartbeats whose answer was held. The time is in no summary."),
    Family("heartbeat_hold_ends", "counter", "Holds that ended: by news, a further request, their time-out,"
           " a move of leadership, a closed connection.", ("cause",)),
    Family("heartbeats_repeated", "counter", "Heartbeats that compiled code answered"
           " (`group.heartbeat.lane.after`)."),
    Family("rebalance_seconds_saved", "counter", "Time from held news to the heartbeats that would have"
           " fetched it, over all members."),
    Family("requests", "counter", "Requests answered, by API.", ("api",),
           "kafka.network:type=RequestMetrics,name=RequestsPerSec"),
    Family("errors", "counter", "Answers with an error of their own (not of single entries).",
           ("api", "error"), "kafka.network:type=RequestMetrics,name=ErrorsPerSec"),
    Family("connections", "gauge", "Client connections of the node.", (),
           "kafka.server:type=socket-server-metrics,connection-count"),
    Family("connections_refused", "counter", "Connections closed at accept, for a limit.", ()),
    Family("tls_handshakes_failed", "counter", "Clients that did not get through TLS.", (),
           "kafka.server:type=socket-server-metrics,failed-authentication-total"),
    Family("certificate_expiry_timestamp_seconds", "gauge", "When the certificate of a node's port ends, in"
           " seconds since the epoch.", ("node",)),
    Family("history_events_dropped", "counter", "Events that are in no segment of the history: its queue was"
           " full, or it could not be written."),
    Family("replica_lag_entries", "max", "Log entries that the slowest follower of a partition led here is"
           " behind.", ("partition",)),
    Family("resident_memory_bytes", "gauge", "Memory of the actors' processes.", ("actor",)),
    Family("cpu_seconds", "counter", "User and system time of the actors' processes.", ("actor",)),
)  # fmt: skip
FAMILIES: Final[Mapping[str, Family]] = MappingProxyType({row.name: row for row in _ROWS})
assert len(FAMILIES) == len(_ROWS), "a name stands twice"
QUANTILES: Final = (0.5, 0.95, 0.99, 0.999, 1.0)
_HEADING = """\
# Metrics

Made by `python -m actors.metrics.families > actors/metrics/METRICS.md`; a test compares them.

`groupd metrics` shows them for the whole tier. With `metrics.port` set, each node serves those of its own
actors to Prometheus. Values of several actors are added up; of a gauge marked *max* the largest stands for
all. A summary has the quantiles {quantiles}, `_count` and `_sum`, in seconds. Kafka's metrics are those of
`kafka.server:type=group-coordinator-metrics` unless another type is named.

| metric | kind | labels | meaning | Kafka's metric |
|---|---|---|---|---|
"""


def markdown() -> str:
    """Return the page METRICS.md: one table of all metrics."""
    rows = [
        f"| `{PREFIX}{each.name}{'_total' if each.kind == 'counter' else ''}` |"
        f" {'gauge (max)' if each.kind == 'max' else each.kind} | {', '.join(each.labels)} | {each.meaning} |"
        f" {f'`{each.kafka}`' if each.kafka else ''} |\n"
        for each in _ROWS
    ]
    return _HEADING.format(quantiles=", ".join(f"{each:g}" for each in QUANTILES)) + "".join(rows)


if __name__ == "__main__":
    print(markdown(), end="")
