"""A kind of group: all that the rest of the coordinator may want of it.

A kind is one folder that exports a `Kind`. `actors.coordinator.kinds` has the table of those that are served.
Who needs something of a group asks `kind_of` whose it is, and that kind for the rest; nobody else asks which
kind it is. A group that has nothing but offsets is of no kind (`simple_groups`).
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.coordinator.ground.area import Area
from actors.coordinator.ground.explanation import Explanation
from actors.coordinator.ground.held import HeldApi, Stamp
from actors.coordinator.ground.state import KindState, ShardState
from actors.ground.contract import Key, Record, Request, Result, Value
from actors.protocol.errors import GroupError
from actors.protocol.messages import DescribedClassicGroup, ListedGroup


class Retention(NamedTuple):
    """How long the offsets of one group are kept."""

    began_ms: int | None
    """When the time of the group's offsets began; None if that of each began with its commit."""
    subscribed: Collection[str]
    """The topics whose offsets are kept in any case."""


class Backup(NamedTuple):
    """How groups of one kind come back from a backup: without members (`actors.coordinator.restore`)."""

    record_types: Mapping[int, tuple[type[tuple[object, ...]], type[tuple[object, ...]]]]
    """Record kinds that outlive the members -> classes of key and value."""
    emptied: Callable[[Record, int], Record]
    """(record, now_ms) -> the record once the members are gone."""
    present: Callable[[ShardState, Key], Value | None]
    """The value that such a record would replace, if the group has one."""
    is_in_use: Callable[[ShardState, str], bool]
    """Whether somebody has joined the group, or is about to."""
    revive: Callable[[ShardState, Record, int], None]
    """(state, record to be applied, now_ms): make what a leader would make of it when it is elected."""


WholeRecord = Callable[[ShardState, str, list[Record]], list[Record]]
"""A function of (state, group id, the group's records as they shall be) that returns what is to be written.
No records: the group is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One kind of group. Functions of a group id are called for groups of this kind alone."""

    name: str
    """What Kafka calls it: the type of ListGroups, the protocol of metrics. Metrics count the states of its
    groups in the family `{name}_group_count`."""
    states: tuple[str, ...]
    """Kafka's names of all states that a group may be in."""
    new_state: Callable[[], KindState]
    """What a new shard keeps for the kind."""
    areas: tuple[Area, ...]
    makes: frozenset[int]
    """API keys of the requests that make a group."""
    own: frozenset[int] = frozenset()
    """API keys of the requests that no other kind has: refused where the kind is switched off (A26,
    W44)."""
    feature: str = ""
    """The feature whose level 0 switches the kind off; "" for a kind that is always on."""

    # What administrators ask.
    listed: Callable[[ShardState, str], ListedGroup]
    summary: Callable[[ShardState, str], dict[str, Any]]
    """A function that returns what no Kafka API tells of the group, as plain values."""
    explain: Callable[[ShardState, str, int], Explanation]
    """A function of (state, group id, now_ms) that explains the group, without its offsets and cause."""
    described: Callable[[ShardState, str], DescribedClassicGroup] | None = None
    """The group as DescribeGroups shows it; None: groups of the kind are not shown there."""
    listed_as: frozenset[str] = frozenset()
    """The types of ListGroups' filter that find the group besides its own: those of tools that can show
    it."""
    knows_since: bool = False
    """Whether `explain` tells since when the group has been in its state; else its history may know."""
    delete_records: Callable[[ShardState, str], list[Record]]
    """Tombstones of the group's own records, not of its offsets; `forget` is to follow. Raises
    NON_EMPTY_GROUP."""
    forget: Callable[[ShardState, str], None]
    """Drop the group's volatile half and its timers."""

    # Offsets.
    validate_commit: Callable[[ShardState, Request, int], None]
    """(state, OffsetCommit, now_ms). Raises GroupError unless the group takes the commit."""
    validate_txn_commit: Callable[[ShardState, Request, int], None]
    """(state, TxnOffsetCommit, now_ms). Raises GroupError unless the group takes the commit."""
    validate_fetch: Callable[[ShardState, str, str | None, int], None]
    """(state, group id, member id, member epoch). Raises GroupError if the member may not fetch."""
    subscribed_topics: Callable[[ShardState, str], Collection[str] | None]
    """Topics whose offsets no request may delete; None: all. Raises GroupError if the group takes no deletion
    (O12)."""
    retention: Callable[[ShardState, str], Retention | None]
    """A function that says how long offsets are kept; it returns None if none may expire now (O14)."""
    is_unused: Callable[[ShardState, str], bool]
    """Whether nobody is in the group, or about to be: it goes with its last offset (O15)."""

    backup: Backup
    adopt: Callable[[ShardState], Iterator[Result]] = lambda _: iter(())
    """What is written of groups that have come from Kafka's log, in slices, before they are served."""
    whole_records: Mapping[int, WholeRecord] = field(default_factory=dict)
    """Kind of a record that has a whole group at Kafka and several parts here -> what makes the stored group
    as it says."""

    # Held heartbeats.
    stamp: Callable[[ShardState, str, int], Stamp]
    held: Mapping[int, HeldApi] = field(default_factory=dict)
    """API key of a heartbeat -> how its answers are held."""
    told_to_all: Callable[[ShardState], Hashable] = lambda _: None
    """What the answers of heartbeats of all groups of the kind depend on, besides image and settings."""
    of_member: frozenset[int] = frozenset()
    """Record kinds that tell of one member, whose id is the key's third field."""
    of_group: frozenset[int] = frozenset()
    """Record kinds that concern all members of a group."""


class OfOtherKind(Exception):
    """The request is for a group of another kind than that of the handler which was asked first."""

    def __init__(self, kind: Kind, error: GroupError) -> None:
        self.kind = kind
        self.error = error
        """What the client is told if members of that kind make no such requests."""


def hand_on(state: ShardState, group_id: str, error: GroupError) -> None:
    """Called by a handler that does not know the group, before it says so or makes one. Raises OfOtherKind if
    it is there as another kind."""
    kind = kind_of(state, group_id)
    if kind is not None:
        raise OfOtherKind(kind, error)


def kind_of(state: ShardState, group_id: str) -> Kind | None:
    """The kind of a group that has, or may have, members; None if there is no such group."""
    for groups, kind in state.groups_by_kind:
        if group_id in groups:
            found: Kind = kind
            return found
    return None


def kinds_of(state: ShardState) -> tuple[Kind, ...]:
    """The kinds that the shard serves."""
    return tuple(kind for _, kind in state.groups_by_kind)
