"""What `groupd explain` says of one group: its state in a sentence, and whom it waits for."""

from typing import NamedTuple


class Waited(NamedTuple):
    """Somebody whom a group waits for."""

    member_id: str
    group_instance_id: str | None
    client_id: str | None
    """The client's id; None if the member id was handed out and not yet used."""
    client_host: str | None
    what: str
    """What the group waits for this member to do."""
    deadline_ms: int | None
    """When the member is removed if it has not done so; None if there is no certain time."""


class Explanation(NamedTuple):
    """What one group is doing now."""

    group_id: str
    group_type: str
    state: str
    group_epoch: int
    """Generation of a classic group."""
    assignment_epoch: int | None
    members: int
    says: str
    """A clause that says what the group is doing."""
    offsets: int = 0
    """How many partitions have a committed offset."""
    since_ms: int | None = None
    """When the group came to this state, or this rebalance began; of a stable consumer group when its last
    target stood. None: records do not tell."""
    cause: str | None = None
    """Why the rebalance under way began, with the next three."""
    rule: str | None = None
    member_id: str | None = None
    reason: str | None = None
    waiting: int = 0
    """How many members the group waits for."""
    waited_for: tuple[Waited, ...] = ()
    """Who holds the others up first; at most WAITED_FOR_MAX once it is told."""
