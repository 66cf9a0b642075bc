"""A run's record as tables: every column with its type, unit and meaning, and how a row becomes values.

PURE. RECORD.md is made of this; a test holds it, and the fields of the record's rows, to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from bench.swarm.counted.life import member_of
from bench.swarm.counted.second_rows import COLUMNS as SECOND_COLUMNS
from bench.swarm.counted.second_rows import Column
from bench.swarm.wire.errors import error_name
from storage.history.calls import Call, Fault, Gone, Partitions, Topic

TEXT, NUMBER, YES_NO, TIME, TEXTS = "VARCHAR", "BIGINT", "BOOLEAN", "TIMESTAMP", "VARCHAR[]"
PARTITIONS: Final = "STRUCT(topic VARCHAR, partitions INTEGER[])[]"
_CLOCK: Final = "us"
_WALL: Final = "UTC"


class Table(NamedTuple):
    """One file of an export."""

    name: str
    about: str
    columns: tuple[Column, ...]


CALLS: Final = Table(
    "calls",
    "One row for each request as sent once, for each attempt to connect, and for each request that found no "
    "connection.",
    (
        Column("call", NUMBER, "", "Number of the row; `offsets` refers to it."),
        Column(
            "client", TEXT, "", "One life of one member, as `orders-3/12#2`; also the conductor and readers."
        ),
        Column("member", TEXT, "", "The member whose life it is: `orders-3/12`."),
        Column("connection", TEXT, "", "Empty: there was none, and nothing was sent."),
        Column("api", TEXT, "", "Kafka's name, or `Connect`."),
        Column("sent_at", TIME, _WALL, "Null if the run did not say what time it was, as all times."),
        Column("ended_at", TIME, _WALL, "Null: still waited for when the record ended."),
        Column("sent_us", NUMBER, _CLOCK, "The record's own clock, which never jumps."),
        Column("ended_us", NUMBER, _CLOCK, "When it was answered or given up; -1: neither."),
        Column("took_us", NUMBER, _CLOCK, "Null: it did not end."),
        Column("outcome", TEXT, "", "`answered`, `closed`: the connection ended first, `timed_out`, `open`."),
        Column(
            "error_code", NUMBER, "", "Kafka's; of an API without one of its own the first of its parts'."
        ),
        Column("error", TEXT, "", "The same by name; empty: none."),
        Column("version", NUMBER, "", "Version of the API."),
        Column("correlation_id", NUMBER, "", "-1: not known."),
        Column("answer_correlation_id", NUMBER, "", "-1: not answered."),
        Column("timeout_ms", NUMBER, "ms", "How long the client waits."),
        Column("group_id", TEXT, "", "Empty: of no group."),
        Column("protocol", TEXT, "", "`classic` or `consumer` (KIP-848)."),
        Column("member_id", TEXT, "", "As sent: empty in the first join of a classic member."),
        Column("group_instance_id", TEXT, "", "Null: the member is not static."),
        Column("epoch", NUMBER, "", "Generation or member epoch, as sent; -1: none."),
        Column("told_epoch", NUMBER, "", "The same, as answered; -1: none."),
        Column("session_timeout_ms", NUMBER, "ms", "The member's session timeout."),
        Column("rebalance_timeout_ms", NUMBER, "ms", "The member's rebalance timeout."),
        Column("subscribed", TEXTS, "", "Topics; in CSV as JSON, as the next two."),
        Column("owned", PARTITIONS, "", "As a heartbeat of KIP-848 says it; null: it says nothing."),
        Column("assigned", PARTITIONS, "", "As the answer says it; null: it says nothing."),
        Column("detail", TEXT, "", "Why a connection failed, or why there was none."),
    ),
)
OFFSETS: Final = Table(
    "offsets",
    "One row for each partition of an OffsetCommit, or found by an OffsetFetch.",
    (
        Column("call", NUMBER, "", "The request's row in `calls`."),
        Column("api", TEXT, "", "`OffsetCommit` or `OffsetFetch`."),
        Column("group_id", TEXT, "", "The request's group."),
        Column("client", TEXT, "", "The request's client."),
        Column("ended_at", TIME, _WALL, "When the request ended."),
        Column("topic", TEXT, "", "Its name."),
        Column("partition", NUMBER, "", "Its number."),
        Column("offset", NUMBER, "", "-1: nothing is committed."),
        Column("error_code", NUMBER, "", "Error of this partition."),
    ),
)
GONE: Final = Table(
    "gone",
    "One row for each client that ended without leaving its group: it crashed.",
    (
        Column("client", TEXT, "", "As in `calls`."),
        Column("member", TEXT, "", "As in `calls`."),
        Column("at", TIME, _WALL, "When."),
        Column("at_us", NUMBER, _CLOCK, "When."),
    ),
)
FAULTS: Final = Table(
    "faults",
    "One row for each thing that was done to the server, to the way there, or by the plan to a member.",
    (
        Column("kind", TEXT, "", "As `kill-leader`; `sleep`: a member processed for too long."),
        Column("target", TEXT, "", "Whom or what it was done to."),
        Column("began_at", TIME, _WALL, "When it was done."),
        Column("ended_at", TIME, _WALL, "When it was undone."),
        Column("began_us", NUMBER, _CLOCK, "When it was done."),
        Column("ended_us", NUMBER, _CLOCK, "When it was undone; the beginning if there is nothing to undo."),
        Column("silences", YES_NO, "", "Connections may stay open meanwhile without an answer."),
        Column("detail", TEXT, "", "What exactly."),
    ),
)
TOPICS: Final = Table(
    "topics",
    "One row for each time that a topic had so many partitions from then on.",
    (
        Column("topic", TEXT, "", "Its name."),
        Column("partitions", NUMBER, "", "How many."),
        Column("at", TIME, _WALL, "When the topic came to have so many."),
        Column("at_us", NUMBER, _CLOCK, "When the topic came to have so many."),
    ),
)
SECONDS: Final = Table(
    "seconds", "One row for each second, of the last report of the run; none before it.", SECOND_COLUMNS
)
TABLES: Final = (CALLS, OFFSETS, GONE, FAULTS, TOPICS, SECONDS)

At = Callable[[int], int | None]
"""A function from a moment on the record's clock to Unix microseconds; None: the wall clock is not known."""


def call_row(number: int, call: Call, at: At) -> tuple[Any, ...]:
    """A call's fields in the order of CALLS."""
    has_ended = call.ended_us >= 0
    given = call._asdict()
    given |= {
        "call": number,
        "member": member_of(call.client),
        "sent_at": at(call.sent_us),
        "ended_at": at(call.ended_us) if has_ended else None,
        "took_us": call.ended_us - call.sent_us if has_ended else None,
        "error": error_name(call.error_code) if call.error_code else "",
        "subscribed": list(call.subscribed),
        "owned": _partitions(call.owned),
        "assigned": _partitions(call.assigned),
    }
    return tuple(given[column.name] for column in CALLS.columns)


def offset_rows(number: int, call: Call, at: At) -> Iterator[tuple[Any, ...]]:
    """The offsets of a call, each with its fields in the order of OFFSETS."""
    ended_at = at(call.ended_us) if call.ended_us >= 0 else None
    for each in call.offsets:
        yield (number, call.api, call.group_id, call.client, ended_at, *each)


def gone_row(gone: Gone, at: At) -> tuple[Any, ...]:
    """The fields of a client's end in the order of GONE."""
    return gone.client, member_of(gone.client), at(gone.at_us), gone.at_us


def fault_row(fault: Fault, at: At) -> tuple[Any, ...]:
    """The fields of a fault in the order of FAULTS."""
    times = at(fault.began_us), at(fault.ended_us), fault.began_us, fault.ended_us
    return fault.kind, fault.target, *times, fault.silences, fault.detail


def topic_row(topic: Topic, at: At) -> tuple[Any, ...]:
    """The fields of a topic in the order of TOPICS."""
    return topic.topic, topic.partitions, at(topic.at_us), topic.at_us


def _partitions(found: Partitions | None) -> list[dict[str, Any]] | None:
    if found is None:
        return None
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in found]


def flat(value: Any) -> Any:
    """The value as a CSV cell holds it."""
    return json.dumps(value) if isinstance(value, list) else value


def markdown(tables: Sequence[Table] = TABLES) -> str:
    """Write all tables with their columns as Markdown."""
    return "\n\n".join("\n".join(_section(table)) for table in tables) + "\n"


def _section(table: Table) -> Iterator[str]:
    yield from (f"### {table.name}", "", table.about, "", "| column | type | unit | |", "|---|---|---|---|")
    for each in table.columns:
        yield f"| `{each.name}` | `{each.type}` | {each.unit} | {each.meaning} |"
