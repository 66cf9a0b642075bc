"""One member of a consumer group as it is kept: in parts, of which those that others have too are kept once.

Of a hundred thousand members each has an id of its own; nearly all else it has in common with others of its
group, or with members of other groups of the same application. So a member's records are taken apart: what
many have alike is one `Terms` and one `Standing` for all of them (`ground.alike`).
"""

from typing import Any, NamedTuple

from actors.coordinator.ground.alike import alike, are_small, shared, shared_text, shared_topics
from actors.coordinator.ground.partitions import EMPTY
from actors.ground.contract import new_tuple
from actors.ground.records import ConsumerMemberValue, CurrentAssignmentValue, TopicPartitions

STABLE = 0
UNREVOKED_PARTITIONS = 1
UNRELEASED_PARTITIONS = 2

SESSION_TIMER = "consumer-session"
REBALANCE_TIMER = "consumer-rebalance"

Subscribed = tuple[tuple[str, ...], str]
"""What a member subscribes to: (names, regex)."""


class Terms(NamedTuple):
    """What a member's metadata says, but for who it is."""

    subscribed: Subscribed
    rack_id: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: tuple[int, tuple[tuple[str, bytes], ...]] | None


class Standing(NamedTuple):
    """What a member's current assignment says, but for what is assigned."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    pending_revocation: TopicPartitions
    assignment_epochs: tuple[bytes, ...]


NO_STANDING = Standing(0, 0, STABLE, EMPTY, ())
"""The standing of a member that has no record of one."""
EPOCHS_SHARED_MAX = 8
"""How many topics' epochs a standing has at most that is shared."""
EPOCH_BYTES = 4


class Subscription:
    """One distinct (names, regex) pair and how many members have it. Groups of like members have one."""

    __slots__ = ("key", "member_count", "resolved")

    def __init__(self, key: Subscribed) -> None:
        self.key = key
        self.member_count = 0
        self.resolved: tuple[int, tuple[str, ...], frozenset[bytes]] | None = None
        """Volatile: (image version, topics of the regex, topic ids) of the last resolution."""


class ConsumerMember:
    """What the records say of one member id."""

    __slots__ = (
        "assigned",
        "client_host",
        "client_id",
        "instance_id",
        "standing",
        "subscription",
        "target",
        "terms",
    )

    def __init__(self) -> None:
        self.terms: Terms | None = None
        """It is None for no member (yet, or any more); then the next three say nothing."""
        self.client_id = ""
        self.client_host = ""
        self.instance_id: str | None = None
        self.standing: Standing | None = None
        """It is None if there is no current assignment; then the next one says nothing."""
        self.assigned = EMPTY
        self.target: TopicPartitions | None = None
        self.subscription: Subscription | None = None

    @property
    def metadata(self) -> ConsumerMemberValue | None:
        """The member's metadata as its record has them; None: it is no member (yet, or any more)."""
        terms = self.terms
        if terms is None:
            return None
        (names, regex), rack_id, timeout_ms, assignor, classic = terms
        who = self.instance_id, rack_id, self.client_id, self.client_host
        value: ConsumerMemberValue = new_tuple(
            ConsumerMemberValue, (*who, names, regex, timeout_ms, assignor, classic)
        )
        return value

    @property
    def current(self) -> CurrentAssignmentValue | None:
        """The member's current assignment as its record has it, None if there is none."""
        if self.standing is None:
            return None
        epoch, previous_epoch, state, pending, epochs = self.standing
        value: CurrentAssignmentValue = new_tuple(
            CurrentAssignmentValue, (epoch, previous_epoch, state, self.assigned, pending, epochs)
        )
        return value

    @property
    def is_blank(self) -> bool:
        """Whether no record of it is left."""
        return self.terms is None and self.standing is None and self.target is None

    # Appliers' methods.

    def put_metadata(
        self, value: ConsumerMemberValue | None, subscribed: Subscribed, other: "ConsumerMember | None"
    ) -> None:
        """Take what a record says. `subscribed` is what it says of topics, and `other` any other member of
        the group."""
        if value is None:
            self.terms, self.instance_id, self.client_id, self.client_host = None, None, "", ""
            return
        self.instance_id, _, self.client_id, self.client_host = value[:4]
        self.client_id = shared_text(self.client_id)
        self.client_host = shared_text(self.client_host)
        terms: Terms = new_tuple(Terms, (subscribed, value[1], *value[6:9]))
        known = None if other is None else other.terms
        self.terms = shared(terms) if terms != known and _is_small(terms) else alike(terms, known)

    def put_current(self, value: CurrentAssignmentValue | None) -> None:
        if value is None:
            self.standing, self.assigned = None, EMPTY
            return
        epoch, previous_epoch, state, assigned, pending, epochs = value
        # A member that has its whole target has the two once.
        target = self.target
        self.assigned = target if target is not None and assigned == target else shared_topics(assigned)
        standing: Any = new_tuple(Standing, (epoch, previous_epoch, state, pending, epochs))
        is_small = not pending and len(epochs) <= EPOCHS_SHARED_MAX and _are_single(epochs)
        self.standing = shared(standing) if is_small else standing

    def put_target(self, value: TopicPartitions | None) -> None:
        has_it = self.standing is not None and value == self.assigned
        self.target = self.assigned if has_it else None if value is None else shared_topics(value)


def session_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Return the key of a member's session timer. Only leaders have it, so that it is not kept."""
    return (SESSION_TIMER, group_id, member_id)


def rebalance_key(group_id: str, member_id: str) -> tuple[str, str, str]:
    return (REBALANCE_TIMER, group_id, member_id)


def _is_small(terms: Terms) -> bool:
    (names, regex), rack_id, _, assignor, classic = terms
    return classic is None and are_small((*names, regex, rack_id or "", assignor or ""))


def _are_single(epochs: tuple[bytes, ...]) -> bool:
    """Whether each topic has one epoch for all its partitions."""
    return all(len(each) == EPOCH_BYTES for each in epochs)
