"""The rights that the tier's user needs in the cluster, and no others: what for, and which of them it lacks.
PURE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from actors.ground.acl import SUPPORTED, Operation, ResourceType

BROKERS: Final = "brokers"
CONTROLLERS: Final = "controllers"
"""The servers at which a right is needed, as BROKERS are: the tier may log in there as another user."""
CLUSTER: Final = "the cluster"
TOPICS: Final = "every topic"
TRANSACTIONS: Final = "every transactional id"
_OPTIONS: Final = {
    CLUSTER: "--cluster",
    TOPICS: "--topic '*'",
    TRANSACTIONS: "--transactional-id '*'",
}
OPERATIONS_UNKNOWN: Final = -(2**31)
"""What stands in an answer instead of the operations that are allowed if they are not told."""
ALL_BUT_ALTER: Final = sum(1 << each for each in SUPPORTED[ResourceType.CLUSTER] if each != Operation.ALTER)
"""What is known of a user whom a controller tells nothing: it tells those who may ALTER the cluster."""


class Right(NamedTuple):
    """A right that the tier's user needs."""

    operation: str
    needed_to: str
    resource: str = CLUSTER
    at: str = BROKERS

    @property
    def command(self) -> str:
        """Return how an administrator gives it."""
        return (
            f"kafka-acls.sh --add {_OPTIONS[self.resource]} --operation {self.operation} "
            "--allow-principal User:..."
        )


def _on_cluster(at: str, *rights: tuple[Operation, str]) -> tuple[tuple[Operation, Right], ...]:
    return tuple((operation, Right(operation.name, why, CLUSTER, at)) for operation, why in rights)


CLUSTER_RIGHTS: Final = (
    *_on_cluster(
        CONTROLLERS,
        (Operation.CLUSTER_ACTION, "register its nodes, follow the metadata log and pass requests on"),
        (
            Operation.ALTER,
            "reassign offsets partitions, elect leaders and unregister",
        ),
        (Operation.DESCRIBE, "find the active controller and see what else it may do"),
    ),
    *_on_cluster(
        BROKERS,
        (Operation.CLUSTER_ACTION, "fetch as a replica and to verify transactions"),
        (Operation.DESCRIBE, "see groups, users and rules, and what else it may do"),
        (Operation.DESCRIBE_CONFIGS, "know brokers' authorizer and number of offsets partitions"),
        (Operation.IDEMPOTENT_WRITE, "have producers that ask its nodes given their ids"),
    ),
)
CREATE_RIGHT: Final = _on_cluster(
    CONTROLLERS, (Operation.CREATE, "create __consumer_offsets, which is not there yet")
)
TOPICS_RIGHT: Final = Right(
    Operation.DESCRIBE.name, "tell clients of topics and know where their logs end", TOPICS
)
TRANSACTIONS_RIGHT: Final = Right(
    Operation.DESCRIBE.name, "find the coordinators of transactions", TRANSACTIONS
)


class Allowed(NamedTuple):
    """What the tier's user may do, as servers say when it asks."""

    at_brokers: int = OPERATIONS_UNKNOWN
    """One bit for each operation on the cluster; OPERATIONS_UNKNOWN: not told."""
    at_controllers: int = OPERATIONS_UNKNOWN
    sees_topics: bool = True
    sees_transactions: bool = True


def missing(allowed: Allowed, *, is_new: bool) -> tuple[Right, ...]:
    """Return the rights that are missing; `is_new`: there is no `__consumer_offsets` yet."""
    return tuple(_missing(allowed, (*CLUSTER_RIGHTS, *CREATE_RIGHT) if is_new else CLUSTER_RIGHTS))


def _missing(allowed: Allowed, needed: Iterable[tuple[Operation, Right]]) -> Iterator[Right]:
    bits = {BROKERS: allowed.at_brokers, CONTROLLERS: allowed.at_controllers}
    for operation, right in needed:
        told = bits[right.at]
        is_blind = not told & 1 << Operation.DESCRIBE  # then nothing is told of the others
        if told == OPERATIONS_UNKNOWN or (is_blind and operation != Operation.DESCRIBE):
            continue
        if not told & 1 << operation:
            yield right
    if not allowed.sees_topics:
        yield TOPICS_RIGHT
    if not allowed.sees_transactions:
        yield TRANSACTIONS_RIGHT
