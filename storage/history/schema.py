"""The columns of history, and the kinds of its rows: one wide table "events".

Whoever writes or reads history means these names. An event is a value with a `kind` and fields named as
columns (`actors.coordinator.told.events` and `consumer_events` have those of groups); the leader that saw
it adds who it is (`Recorded`). pyarrow is imported only for `arrow_schema`: a follower goes without.

`python -m storage.history.schema` prints the table in SCHEMA.md; a test fails when that is stale.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple, Protocol

SCHEMA_VERSION: Final = 2
"""Raised when a column is added or means something else. Readers name and skip what is newer, and
`storage.history.segments.older` reads what is older: version 1 had no `session_timeout_ms`, and in `api` it
had names such as "join_group"."""

MOVES_MAX: Final = 1_000
WAITED_FOR_MAX: Final = 100

MOVES: Final = "moves"
"""The type of a list of struct<topic, partition, from_member, to_member>; a `Move` each."""
TEXTS: Final = "texts"


class Move(NamedTuple):
    """One partition has another owner."""

    topic: str
    partition: int
    from_member: str | None
    """It is None when nobody had it."""
    to_member: str | None
    """It is None when nobody has it."""


class Column(NamedTuple):
    """One column: null where a kind does not have it."""

    name: str
    type: str
    """string, int16, int32, int64, MOVES or TEXTS."""
    says: str


ALWAYS: Final = (
    Column("at_ms", "int64", "Unix time of the leader."),
    Column("offsets_partition", "int32", "Partition of `__consumer_offsets` whose leader saw it."),
    Column("node_id", "int32", "Node on which that leader ran."),
    Column("term", "int64", "Raft's term in which it led."),
    Column(
        "sequence",
        "int64",
        "Rises by one with each event; (offsets_partition, term, sequence) names an event for ever.",
    ),
    Column("kind", "string", "What happened: one of the kinds below."),
    Column("version", "int32", "Version of this schema."),
)
"""Never null."""

SOMETIMES: Final = (
    Column("group_id", "string", "The group that the event is about."),
    Column("group_type", "string", '"classic", "consumer" (KIP-848) or "push".'),
    Column("group_epoch", "int32", "Generation of a classic group."),
    Column("assignment_epoch", "int32", "Epoch of a consumer group's target assignment."),
    Column("member_id", "string", "Member that did it, or to whom it happened."),
    Column("group_instance_id", "string", "Instance id of a static member (KIP-345)."),
    Column("client_id", "string", "Name that the member's client gives itself."),
    Column("client_host", "string", 'The client\'s address as Kafka shows it: "/127.0.0.1".'),
    Column("client_software", "string", "Name and version of the client's library (KIP-511)."),
    Column("member_epoch", "int32", "Epoch of a consumer group's member."),
    Column(
        "session_timeout_ms",
        "int32",
        "Session timeout of the member that joined; of a KIP-848 member its group's. Null in version 1.",
    ),
    Column("cause", "string", "Why it happened, in our words."),
    Column("rule", "string", "Id of the rule that decided, as actors/coordinator/RULES.md has it."),
    Column("reason", "string", "Why it happened, in the member's own words (KIP-800)."),
    Column("duration_ms", "int64", "Time from the beginning to this end."),
    Column(
        "joining_ms", "int64", "Part of it spent waiting for members to join again; consumer: for the target."
    ),
    Column(
        "syncing_ms",
        "int64",
        "Part of it spent waiting for the leader's assignment; consumer: for members to take it.",
    ),
    Column("revoking_ms", "int64", "Part of it until the last partition that had to be given up was free."),
    Column("members", "int32", "Members that the group has."),
    Column("partitions", "int32", "Partitions that are assigned."),
    Column("moved", "int32", "Partitions that changed owner; from nobody and to nobody count too."),
    Column("moves", MOVES, f"These partitions, from whom to whom: at most {MOVES_MAX:,}."),
    Column("waited_for", TEXTS, f"Members that came last or not at all: at most {WAITED_FOR_MAX}."),
    Column(
        "assignor", "string", "Assignor that ran; of a classic group the protocol that its members chose."
    ),
    Column("duration_us", "int64", "Time that the assignor ran."),
    Column("topic", "string", "Name of a topic."),
    Column("partition", "int32", "Partition of that topic."),
    Column("first_ms", "int64", "Time of the first of what is summed up."),
    Column("last_ms", "int64", "Time of the last of what is summed up."),
    Column("commits", "int64", "OffsetCommit requests answered without an error."),
    Column("offsets", "int64", "Partitions committed in them."),
    Column("regressed", "int64", "Offsets that went back."),
    Column("committed_offset", "int64", "The committed offset; where it went back, the lower one."),
    Column(
        "end_offset", "int64", "End of the log, where known; where a commit went back, the offset before."
    ),
    Column("replica_id", "int32", "One of the offsets partition's replicas."),
    Column("lag", "int64", "Offsets between the committed and the end; of a replica, log entries."),
    Column("api", "string", "Kafka's name of a request, as JoinGroup; the number of one that has none."),
    Column("error_code", "int16", "Kafka's error code."),
    Column("count", "int64", "How many, where a row stands for several."),
    Column("state", "string", "State of the group, in Kafka's words."),
    Column("previous_state", "string", "State of the group before."),
)
"""Null where the kind does not have them or they are unknown."""

COLUMNS: Final = ALWAYS + SOMETIMES
NAMES: Final = tuple(column.name for column in COLUMNS)


class Kind(NamedTuple):
    """One kind of event: what it says and which columns it may fill."""

    name: str
    says: str
    columns: tuple[str, ...]


_GROUP = ("group_id", "group_type", "group_epoch")
_CLIENT = ("member_id", "group_instance_id", "client_id", "client_host", "client_software", "member_epoch")
_WHY = ("cause", "rule", "reason")


KINDS: Final = (
    Kind(
        "member_joined",
        "A member was taken in.",
        (*_GROUP, *_CLIENT, "session_timeout_ms", "reason", "members"),
    ),
    Kind("member_left", "A member left of its own will.", (*_GROUP, *_CLIENT, *_WHY, "members")),
    Kind(
        "member_expired",
        "A member was removed: a timeout passed.",
        (*_GROUP, *_CLIENT, *_WHY, "duration_ms", "members"),
    ),
    Kind(
        "member_fenced",
        "A member was removed: another took its place, or an administrator asked for it.",
        (*_GROUP, *_CLIENT, *_WHY, "members"),
    ),
    Kind(
        "state_changed",
        "A classic group went from state to state.",
        (*_GROUP, "state", "previous_state", "cause", "members"),
    ),
    Kind(
        "rebalance_delayed",
        "A classic group is to rebalance, and waits for more joins and leaves: at most `duration_ms`.",
        (*_GROUP, *_CLIENT, *_WHY, "duration_ms", "members"),
    ),
    Kind(
        "rebalance_began",
        "A group of either type is stable no longer. It comes again if the rebalance begins anew.",
        (*_GROUP, *_CLIENT, *_WHY, "members", "state"),
    ),
    Kind(
        "rebalance_ended",
        "A group is stable, or empty; or its epoch rose again, and this rebalance is part of the next.",
        (
            *_GROUP,
            *("member_id", "cause", "rule", "reason"),
            *("duration_ms", "joining_ms", "syncing_ms", "revoking_ms"),
            *("members", "partitions", "moved", "moves", "waited_for", "assignor", "state"),
        ),
    ),
    Kind(
        "rebalance_failed",
        "A rebalance of a push group was tried as often as it may be.",
        (*_GROUP, "cause", "rule", "members", "state"),
    ),
    Kind(
        "group_epoch_bumped",
        "The epoch of a consumer group rose: a new target assignment is due.",
        (*_GROUP, *_CLIENT, *_WHY, "members"),
    ),
    Kind(
        "assigned",
        "An assignor ran: a new target stands.",
        (
            *_GROUP,
            *("assignment_epoch", "assignor", "duration_us", "member_id"),
            *("members", "partitions", "moved", "moves"),
        ),
    ),
    Kind(
        "assignment_refused",
        "A member that was asked to assign brought no assignment, or a wrong one; without a member: the"
        " server's assignor runs in the members' place.",
        (*_GROUP, "member_id", "cause", "rule", "assignor", "duration_ms"),
    ),
    Kind("member_reconciled", "A member of a consumer group reached its target.", (*_GROUP, *_CLIENT)),
    Kind(
        "commits",
        "A group's commits since the last such row.",
        ("group_id", "first_ms", "last_ms", "commits", "offsets", "regressed"),
    ),
    Kind(
        "commit_regressed",
        "A committed offset went back.",
        ("group_id", "member_id", "topic", "partition", "committed_offset", "end_offset"),
    ),
    Kind("offsets_expired", "Committed offsets were past their retention.", ("group_id", "rule", "count")),
    Kind(
        "offsets_expiring",
        "Committed offsets expire in about a day, unless committed again or, of an empty group, somebody"
        " comes; the first and the last of them.",
        ("group_id", "rule", "count", "first_ms", "last_ms"),
    ),
    Kind("offsets_deleted", "Committed offsets were deleted on request.", ("group_id", "cause", "count")),
    Kind("group_deleted", "A group is gone.", ("group_id", "group_type", "cause", "rule")),
    Kind("coordinator_elected", "This leader began to serve its groups.", ("replica_id", "count")),
    Kind("coordinator_lost", "This leader serves no longer.", ("replica_id", "cause")),
    Kind("coordinator_moved", "This leader handed its groups on.", ("replica_id", "cause")),
    Kind("replica_lagging", "A follower is far behind.", ("replica_id", "lag", "duration_ms")),
    Kind(
        "requests_refused",
        "Requests answered with an error code since the last such row.",
        ("api", "error_code", "count"),
    ),
    Kind(
        "lag",
        "How far a group is behind a log, sampled.",
        ("group_id", "topic", "partition", "committed_offset", "end_offset", "lag"),
    ),
    Kind("events_dropped", "Events that could not be written.", ("cause", "count")),
)
KIND_NAMES: Final = frozenset(kind.name for kind in KINDS)
BULK: Final = ("commits", "lag")
"""Kinds of which a busy group makes rows all the time. They have row groups of their own in a segment: who
looks for others passes them over."""
GONE: Final = ("member_left", "member_expired", "member_fenced")
LIVES: Final = ("member_joined", *GONE)
"""Kinds of which a member's life is made."""


class Event(Protocol):
    """What happened: a NamedTuple whose fields are `at_ms` and columns of `SOMETIMES`, no others."""

    @property
    def kind(self) -> str:
        """One of KINDS."""

    @property
    def at_ms(self) -> int:
        """Unix time."""

    @property
    def _fields(self) -> tuple[str, ...]: ...


class Stretch(NamedTuple):
    """Events of one leader, one after the other: as they are handed on, since one that is on its way has no
    need of a `Recorded` for each."""

    term: int
    first_sequence: int
    events: Sequence[Any]
    """`Event`s."""


class Recorded(NamedTuple):
    """An event, and who saw it: together one row."""

    offsets_partition: int
    node_id: int
    term: int
    sequence: int
    event: Any
    """An `Event`."""


def row(recorded: Recorded) -> dict[str, Any]:
    """The row by column, without those that are null."""
    partition, node_id, term, sequence, event = recorded
    found = {
        "at_ms": event.at_ms,
        "offsets_partition": partition,
        "node_id": node_id,
        "term": term,
        "sequence": sequence,
        "kind": event.kind,
        "version": SCHEMA_VERSION,
    }
    found |= {name: value for name, value in zip(event._fields, event, strict=True) if value is not None}
    return found


@cache
def arrow_schema() -> Any:
    """The pyarrow schema of the table."""
    import pyarrow as pa

    move = pa.struct(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("from_member", pa.string()),
            ("to_member", pa.string()),
        ]
    )
    types = {
        "string": pa.string(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        MOVES: pa.list_(move),
        TEXTS: pa.list_(pa.string()),
    }
    never_null = set(ALWAYS)
    return pa.schema(
        [pa.field(each.name, types[each.type], nullable=each not in never_null) for each in COLUMNS]
    )


def markdown() -> str:
    """The tables of SCHEMA.md."""
    lines = [
        f"# History, version {SCHEMA_VERSION}",
        "Made by `python -m storage.history.schema > storage/history/SCHEMA.md`; a test compares them.",
        "",
        "| column | type | null | |",
        "|--|--|--|--|",
    ]
    lines += [
        f"| `{each.name}` | {_type_name(each.type)} | {'no' if each in ALWAYS else 'yes'} | {each.says} |"
        for each in COLUMNS
    ]
    lines += ["", "| kind | | columns beside those that are never null |", "|--|--|--|"]
    lines += [f"| `{kind.name}` | {kind.says} | {', '.join(kind.columns)} |" for kind in KINDS]
    return "\n".join(lines) + "\n"


def _type_name(name: str) -> str:
    move = "list of (topic string, partition int32, from_member string, to_member string)"
    return {MOVES: move, TEXTS: "list of string"}.get(name, name)


if __name__ == "__main__":
    print(markdown(), end="")
