"""Find the active controller of the upstream cluster, by asking any of its controllers.

DescribeCluster with endpoint type 2 (KIP-919) names it on every controller from Kafka 3.7 on; DescribeQuorum,
which the active one alone answers, gives the leader epoch that each request about the metadata log has to
name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.serial.errors import DecodeError

from actors.network.wire import Closed, Wire, message_class

Address = tuple[str, int]
Versions = Mapping[int, tuple[int, int]]
"""API key -> the lowest and highest version that a server offers."""
Connect = Callable[[Address], Awaitable[tuple[Wire, Versions]]]
"""A function that connects to a controller or broker, authenticates, and asks which versions it offers. It
raises OSError, TimeoutError or Closed."""

METADATA_TOPIC: Final = "__cluster_metadata"
CONTROLLERS: Final = 2
"""The endpoint type for which DescribeCluster tells of controllers instead of brokers."""
SOFTWARE: Final[Mapping[str, Any]] = {"client_software_name": "groupd", "client_software_version": "1"}
"""What the tier says of itself in ApiVersions."""
REQUEST_TIMEOUT_S: Final = 5.0
ADDRESSES_MAX: Final = 64
"""How many controllers' addresses are known at most."""
UNREADABLE: Final = (DecodeError, ValueError)
"""What is raised for an answer that is not as Kafka's schema says: ValueError for an unknown error code."""
_BROKER_HEARTBEAT: Final = 63
"""The key of an API that controllers have and brokers have not."""


class CannotFollow(Exception):
    """Raised if the metadata log cannot be read until somebody changes something; the text says what."""


class Elsewhere(Exception):
    """Raised if another controller has to be asked, or this one again a little later."""


class NotAllowed(CannotFollow):
    """Raised if the cluster refuses a request because the user lacks a right; `right` names it."""

    def __init__(self, api: str, right: str) -> None:
        super().__init__(
            f"{api} is refused: the user needs {right} on the cluster (CLUSTER_AUTHORIZATION_FAILED)"
        )
        self.api = api
        self.right = right


class ActiveController(NamedTuple):
    """The controller that leads the metadata log, and a connection to it. Who has it closes the
    connection."""

    wire: Wire
    versions: Versions
    address: Address
    controller_id: int
    epoch: int
    high_watermark: int
    cluster_id: str | None
    """The cluster's id. Controllers before Kafka 3.7 do not tell it (None)."""
    voters: tuple[int, ...]
    observers: tuple[int, ...]
    """The ids of everybody else who fetches the log: brokers, and controllers that do not vote."""
    addresses: tuple[Address, ...]
    """The addresses of all controllers, as far as they are told."""


def version_of(api: str, versions: Versions, spoken: Sequence[int]) -> int | None:
    """Return the first of these versions of an API that is offered, or None."""
    api_key = int(message_class(api, spoken[0], "request").__api_key__)
    least, most = versions.get(api_key, (0, -1))
    return next((version for version in spoken if least <= version <= most), None)


async def find_active(connect: Connect, addresses: Sequence[Address]) -> ActiveController:
    """Return the active controller. Raises CannotFollow; Elsewhere if nobody is active now, or nobody of the
    named ones answers."""
    waiting, notes = deque(addresses[:ADDRESSES_MAX]), []
    asked: set[Address] = set()
    while waiting:
        address = waiting.popleft()
        if address in asked:
            continue
        asked.add(address)
        try:
            found = await _ask(connect, address)
        except (OSError, TimeoutError, Closed, Elsewhere, *UNREADABLE) as error:
            notes.append(f"{words(address)}: {error or 'it does not answer'}")
            continue
        if isinstance(found, ActiveController):
            return found
        notes.append(f"{words(address)}: it is not the active controller")
        waiting.extendleft(reversed(found[: ADDRESSES_MAX - len(asked)]))
    raise Elsewhere("; ".join(notes) or "no controller is named")


async def _ask(connect: Connect, address: Address) -> ActiveController | tuple[Address, ...]:
    """Ask one controller. Return who to ask next if it is not the active one: the first of them may be it."""
    wire, versions = await connect(address)
    is_kept = False
    try:
        if _BROKER_HEARTBEAT not in versions:
            raise Elsewhere("it is no KRaft controller: name a listener of controller.listener.names")
        told = await _described(wire, versions)
        found = await _quorum(wire, versions, address, told)
        is_kept = isinstance(found, ActiveController)
        return found
    finally:
        if not is_kept:
            await wire.close()


class _Told(NamedTuple):
    """What DescribeCluster says: the active controller's address comes first, if it is known."""

    cluster_id: str | None
    addresses: tuple[Address, ...]


async def _described(wire: Wire, versions: Versions) -> _Told:
    version = version_of("describe_cluster", versions, (2, 1))
    if version is None:
        return _Told(None, ())
    answer = await call(
        wire,
        "describe_cluster",
        version,
        include_cluster_authorized_operations=False,
        endpoint_type=CONTROLLERS,
        include_fenced_brokers=False,
    )
    if answer["error_code"]:
        return _Told(None, ())
    active = answer["controller_id"]
    rows = sorted(answer["brokers"], key=lambda row: bool(row["broker_id"] != active))
    return _Told(answer["cluster_id"], tuple((row["host"], row["port"]) for row in rows))


async def _quorum(
    wire: Wire, versions: Versions, address: Address, told: _Told
) -> ActiveController | tuple[Address, ...]:
    version = version_of("describe_quorum", versions, (1, 0))
    if version is None:
        raise Elsewhere("it offers no DescribeQuorum in a version that is spoken here")
    topics = [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
    answer = await call(wire, "describe_quorum", version, topics=topics)
    if answer["error_code"] == ErrorCode.cluster_authorization_failed:
        raise NotAllowed("DescribeQuorum", "DESCRIBE")
    partitions = [partition for topic in answer["topics"] for partition in topic["partitions"]]
    if answer["error_code"] or not partitions or partitions[0]["error_code"]:
        return told.addresses
    (partition,) = partitions
    return ActiveController(
        wire=wire,
        versions=versions,
        address=address,
        controller_id=partition["leader_id"],
        epoch=partition["leader_epoch"],
        high_watermark=partition["high_watermark"],
        cluster_id=told.cluster_id,
        voters=tuple(row["replica_id"] for row in partition["current_voters"]),
        observers=tuple(row["replica_id"] for row in partition["observers"]),
        addresses=told.addresses,
    )


async def call(wire: Wire, api: str, version: int, **fields: Any) -> dict[str, Any]:
    """Ask once and return the answer. `fields` that the version lacks are left out. Raises Closed,
    TimeoutError, and Elsewhere if the answer cannot be read."""
    known = message_class(api, version, "request").__dataclass_fields__
    given = {name: value for name, value in fields.items() if name in known}
    try:
        return await wire.call(api, version, timeout_s=REQUEST_TIMEOUT_S, **given)
    except UNREADABLE as error:
        raise Elsewhere(f"its answer to {api} version {version} cannot be read: {error}") from error


def words(address: Address) -> str:
    """Return an address as people and clients' settings have it."""
    return f"{address[0]}:{address[1]}"


def listed(addresses: Iterable[Address]) -> str:
    """Return addresses as clients' settings have them, with commas between them."""
    return ",".join(map(words, addresses))
