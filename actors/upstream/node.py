"""A tier node as a broker of the upstream cluster, and what is checked of it before anything is sent.

Kafka's controller accepts much that is wrong: no listeners, listeners that no other broker has, ids that
clients cannot tell from their own. Clients or brokers stumble over it later, so it is refused here, by name.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from actors.upstream.image import Endpoint

BROKER_ID_END: Final = 2_147_483_000
"""Java's clients call the connection to a group's coordinator 2147483647 minus its id, so the ids up there
are taken."""
RESERVED_ENDS: Final = 100
"""Kafka reserves the UUIDs whose number is below this (org.apache.kafka.common.DirectoryId)."""
PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
PROTOCOL_NUMBERS: Final = {name: number for number, name in PROTOCOLS.items()}
_ANY_HOST: Final = ("", "0.0.0.0", "::", "[::]", "*")  # noqa: S104 - what is refused
_PORT_MAX: Final = 65_535


class NodeInvalid(Exception):
    """Raised if a node cannot be a broker of the upstream cluster; the text says why and what to do."""


class TierNode(NamedTuple):
    """What an operator says of a node that is to be a broker of the upstream cluster."""

    cluster_id: str
    broker_id: int
    listeners: tuple[Endpoint, ...]
    rack: str | None = None


def log_dir_id(cluster_id: str, broker_id: int) -> bytes:
    """Return the id of the one log directory that a node says it has.

    A controller refuses an id that another broker has, and a reserved one. The same node has the same one
    for ever, also if its disk is lost: so it is made of what it is registered as."""
    for number in range(2**16):
        text = f"groupd log directory\0{cluster_id}\0{broker_id}\0{number}"
        made = hashlib.sha256(text.encode()).digest()[:16]
        # Kafka gives out no UUID that begins with a dash, because tools take it for a flag.
        if not is_reserved(made) and not uuid_text(made).startswith("-"):
            return made
    raise AssertionError("sha256 gives others")


def is_reserved(uuid: bytes) -> bool:
    """Return whether Kafka keeps this UUID for itself."""
    return int.from_bytes(uuid, "big") < RESERVED_ENDS


def uuid_text(uuid: bytes) -> str:
    """Return a UUID as Kafka writes it."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def check_node(node: TierNode) -> None:
    """Check what needs no cluster to be known. Raises NodeInvalid with all that is wrong."""
    wrong = [*_wrong_ids(node), *_wrong_listeners(node.listeners)]
    if wrong:
        raise NodeInvalid("; ".join(wrong))


def _wrong_ids(node: TierNode) -> Iterator[str]:
    if not node.cluster_id:
        yield "no cluster id is given: name the upstream cluster's, as `kafka-cluster cluster-id` prints it"
    if not 0 <= node.broker_id < BROKER_ID_END:
        yield (
            f"broker id {node.broker_id} is not between 0 and {BROKER_ID_END - 1}: choose a free one, "
            "such as 1001"
        )
    if node.rack == "":
        yield "the rack is empty: give it a name, or none"


def _wrong_listeners(listeners: tuple[Endpoint, ...]) -> Iterator[str]:
    if not listeners:
        yield "no listeners: name one for each listener of the upstream's brokers"
    for name, times in Counter(each.name for each in listeners).items():
        if times > 1:
            yield f"listener {name} is given {times} times: give it once"
    for name, host, port, protocol in listeners:
        if host in _ANY_HOST:
            yield f"listener {name} has host {host!r}, to which nobody can connect: give clients' address"
        if not 0 < port <= _PORT_MAX:
            yield f"listener {name} has port {port}: give one between 1 and {_PORT_MAX}"
        if protocol not in PROTOCOLS:
            yield f"listener {name} has security protocol {protocol}: give one of {PROTOCOLS}"


def check_against_brokers(node: TierNode, upstream: Mapping[str, int]) -> None:
    """Check the listeners against those of the upstream's brokers (name -> security protocol), by which
    clients and brokers look for them. Raises NodeInvalid with all that is wrong."""
    ours = {each.name: each.security_protocol for each in node.listeners}
    wrong = []
    if unknown := sorted(ours.keys() - upstream.keys()):
        wrong.append(
            f"no upstream broker has listeners {', '.join(unknown)}: use the names "
            f"{', '.join(sorted(upstream))}"
        )
    if missing := sorted(upstream.keys() - ours.keys()):
        wrong.append(
            f"upstream's listeners {', '.join(missing)} have no endpoint on broker {node.broker_id}: whoever "
            "comes through them would not find the coordinator; give one for each"
        )
    for name in sorted(ours.keys() & upstream.keys()):
        if ours[name] != upstream[name]:
            wrong.append(
                f"listener {name} is {_protocol(ours[name])} here and {_protocol(upstream[name])} upstream: "
                "clients speak the upstream's"
            )
    if wrong:
        raise NodeInvalid("; ".join(wrong))


def _protocol(number: int) -> str:
    return PROTOCOLS.get(number, str(number))
