"""What stands in the way of a tier that wants to stand in front of a Kafka cluster: one function a matter.
PURE.

An obstacle *blocks* if going on would harm the cluster or leave clients without their groups, and *warns* if
it is something to know. Each says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from actors.ground.acl import Acl, Operation, Permission, ResourceType
from actors.ground.features import GROUPD_VERSION, METADATA_VERSION
from actors.security.scram import MECHANISM_NUMBERS, SCRAM_SHA_512
from actors.upstream.image import Broker, ClusterImage
from actors.upstream.levels import (
    CORDONS_LEVEL,
    UNDERSTOOD,
    feature_levels,
    level_name,
    metadata_version_name,
    not_understood,
)
from actors.upstream.node import PROTOCOL_NUMBERS, PROTOCOLS
from cluster.attaching.facts import (
    AUTHORIZER,
    INTER_BROKER_LISTENER,
    INTER_BROKER_MECHANISM,
    OFFSETS_PARTITIONS,
    OWN_AUTHORIZER,
    SASL_MECHANISMS,
    SHARE,
    STREAMS,
    Facts,
    Wishes,
)

BLOCKS: Final = "blocks"
WARNS: Final = "warns"
NAMES_SHOWN_MAX: Final = 5
"""How many of many names are shown."""
_WITH_SASL: Final = (PROTOCOL_NUMBERS["SASL_PLAINTEXT"], PROTOCOL_NUMBERS["SASL_SSL"])
_AS_A_BROKER: Final = (Operation.CLUSTER_ACTION, Operation.ALL)
_AWAY: Final = "a broker that is registered but away"


class Obstacle(NamedTuple):
    """One thing that stands in the way."""

    severity: str
    name: str
    what: str
    do: str


def obstacles(facts: Facts, wishes: Wishes) -> tuple[Obstacle, ...]:
    """Return everything that stands in the way, what blocks first."""
    if not facts.is_kraft:
        return (_NOT_KRAFT,)
    if (other := _other_cluster(facts)) is not None:
        return (other,)
    found = [each for check in CHECKS for each in check(facts, wishes)]
    return tuple(sorted(found, key=lambda each: each.severity))


_NOT_KRAFT: Final = Obstacle(
    BLOCKS,
    "not-kraft",
    "The brokers know of no quorum of controllers with which the tier could register: their metadata is in "
    "ZooKeeper, or they are no Apache Kafka.",
    "Migrate the cluster to KRaft first (Kafka 3.9 is the last version that can).",
)


def _other_cluster(facts: Facts) -> Obstacle | None:
    theirs = None if facts.quorum is None else facts.quorum.cluster_id
    if theirs in (None, facts.cluster_id):
        return None
    return Obstacle(
        BLOCKS,
        "other-cluster",
        f"--controllers are those of cluster {theirs}, --bootstrap names brokers of {facts.cluster_id}. "
        "Nothing else was looked at.",
        "Name the controllers of the cluster that the brokers belong to.",
    )


def _metadata_version(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    level = facts.features.get(METADATA_VERSION, 0)
    if level < CORDONS_LEVEL:
        name = metadata_version_name(level) if level else "not told"
        yield Obstacle(
            BLOCKS,
            "metadata-version",
            f"metadata.version is {name}. Below 4.3-IV0 a broker cannot cordon its log directories, so the "
            "cluster would place new topics on the tier, which keeps no messages.",
            "Run all brokers and controllers with Kafka 4.3 or later, then "
            "`kafka-features.sh upgrade --release-version 4.3`.",
        )


def _features(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    for name, level in not_understood(facts.features).items():
        most = UNDERSTOOD.get(name)
        known = "does not know it" if most is None else f"understands it up to {level_name(name, most)}"
        yield Obstacle(
            BLOCKS,
            "feature",
            f"Feature {name} is at {level_name(name, level)}; this groupd {known}.",
            "Update groupd, or downgrade the feature if nobody needs it yet.",
        )


def _held_up(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    """Yield the upgrades that the tier's nodes would hold up: a controller asks all brokers first."""
    for each in feature_levels(facts.features, facts.supported or None):
        if each.is_held_up and each.level <= each.most:
            yield Obstacle(
                WARNS,
                "upgrade-held-up",
                f"The controllers could raise {each.name} to {level_name(each.name, each.offered or 0)}; "
                f"while this groupd is attached they refuse more than {level_name(each.name, each.most)}.",
                "Update groupd before that feature is raised, or detach for it.",
            )


def _unknown_records(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    if facts.image is None or not facts.image.unknown:
        return
    kinds = [
        f"{count} x {kind.what} (metadata.version {metadata_version_name(kind.metadata_version)})"
        for kind, count in facts.image.unknown.most_common()
    ]
    yield Obstacle(
        BLOCKS,
        "unknown-records",
        f"The metadata log has records that this groupd cannot read: {shortened(kinds)}.",
        "Update groupd to a release that understands this metadata.version.",
    )


def _unserved_groups(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    for kind in (SHARE, STREAMS):
        names = [row.group for row in facts.groups if row.type == kind]
        if names:
            yield Obstacle(
                BLOCKS,
                f"{kind.lower()}-groups",
                f"{counted(len(names), f'{kind.lower()} group')}: {shortened(names)}. The tier serves "
                "classic and consumer groups, and they live in the same offsets partitions.",
                "Stop and delete them, or keep the coordination on the brokers.",
            )


def _offsets_partitions(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    values = facts.config_values(OFFSETS_PARTITIONS)
    said = ", ".join(f"{value} on {_brokers(ids)}" for value, ids in sorted(values.items()))
    real = None if facts.partitions is None else str(len(facts.partitions))
    if not facts.is_topic_seen:
        yield Obstacle(
            WARNS,
            "not-seen",
            "The user may not see __consumer_offsets: how many partitions it has, if any, is not known.",
            "Give the user DESCRIBE on the topic, or let it read the metadata log.",
        )
        return
    if len(values) > 1 or (real is not None and values and set(values) != {real}):
        has = "does not exist yet" if real is None else f"has {real}"
        yield Obstacle(
            BLOCKS,
            "offsets-partitions",
            f"{OFFSETS_PARTITIONS} is {said}, and __consumer_offsets {has}. A broker that starts takes its "
            "config for the number, and sends clients to the wrong coordinator.",
            f"Set {OFFSETS_PARTITIONS}={real or 'N'} on every broker and restart those that have another.",
        )
    elif not values:
        yield Obstacle(
            WARNS,
            "offsets-partitions",
            f"No broker told its {OFFSETS_PARTITIONS}, which has to be the number of partitions of "
            "__consumer_offsets.",
            "Compare them in the brokers' properties.",
        )


def _ids(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    if wishes.first_id < 0 or wishes.ids[-1] > 2**31 - 1:
        yield Obstacle(
            BLOCKS, "id-range", f"{_range(wishes)} are no ids of brokers.", "Choose another --first-id."
        )
        return
    for number, who in sorted(_takers(facts).items()):
        if number in wishes.ids:
            unregister = f"; if that broker never comes back, `kafka-cluster.sh unregister --id {number}`"
            yield Obstacle(
                BLOCKS,
                "id-taken",
                f"Id {number} belongs to {who}; the tier would take {_range(wishes)}.",
                f"Choose another range with --first-id{unregister if who == _AWAY else ''}.",
            )


def _takers(facts: Facts) -> dict[int, str]:
    """Return who has which id. Brokers and controllers share their ids."""
    found = {}
    for number in facts.quorum.ids if facts.quorum is not None else ():
        found[number] = "a controller"
    for controller in facts.image.controllers.values() if facts.image is not None else ():
        found[controller.controller_id] = "a controller"
    for asked in facts.brokers:
        found[asked.broker_id] = f"the broker at {asked.host}:{asked.port}"
    for broker in _registered(facts.image):
        if broker.broker_id not in found:
            found[broker.broker_id] = _AWAY if broker.fenced else "a broker that is registered"
    return found


def _second_tier(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    """A tier's brokers say so: they register with the feature `groupd.version`. One that does not (another
    release, another program of the kind) still has nothing but cordoned directories."""
    tiers = [each.broker_id for each in _registered(facts.image) if _is_of_a_tier(each)]
    if tiers:
        yield Obstacle(
            BLOCKS,
            "second-tier",
            f"{_brokers(tiers).capitalize()} {'is' if len(tiers) == 1 else 'are'} of a tier that stands in "
            "front of this cluster already (registered with groupd.version).",
            "Detach that tier first: two of them would take the groups from each other.",
        )
    alike = [
        each.broker_id for each in _registered(facts.image) if each.is_cordoned and not _is_of_a_tier(each)
    ]
    if alike:
        in_range = any(number in wishes.ids for number in alike)
        yield Obstacle(
            BLOCKS if in_range else WARNS,
            "second-tier",
            f"{_brokers(alike).capitalize()} "
            f"{'has' if len(alike) == 1 else 'have'} all log directories cordoned, as nodes of a tier have.",
            "Make sure that no other tier stands in front of this cluster.",
        )


def _is_of_a_tier(broker: Broker) -> bool:
    return any(name == GROUPD_VERSION for name, _, _ in broker.features)


def _registered(image: ClusterImage | None) -> list[Broker]:
    return [] if image is None else [image.brokers[number] for number in sorted(image.brokers)]


def listener_protocols(facts: Facts) -> dict[str, set[int]]:
    """Return the listeners of the brokers that are up, each with the numbers of its security protocols."""
    protocols: dict[str, set[int]] = {}
    for broker in _registered(facts.image):
        if not broker.fenced and not _is_of_a_tier(broker):
            for endpoint in broker.endpoints:
                protocols.setdefault(endpoint.name, set()).add(endpoint.security_protocol)
    return protocols


def protocol_of(facts: Facts, listener: str) -> str | None:
    """Return the security protocol that all brokers speak at a listener; None if there is none."""
    found = listener_protocols(facts).get(listener, set())
    return PROTOCOLS.get(min(found)) if len(found) == 1 else None


def _listeners(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    protocols = listener_protocols(facts)
    internal = set(facts.config_values(INTER_BROKER_LISTENER))
    for name in sorted(protocols.keys() - set(wishes.listeners)):
        whom = (
            "brokers could not reach the tier"
            if name in internal
            else "clients that use it would find no group"
        )
        yield Obstacle(
            BLOCKS,
            "listener-missing",
            f"The brokers have a listener {name}, and the tier would have none of that name: {whom}.",
            f"Name it: upstream.other.listener.names={name}. If it speaks another protocol than the first "
            f"one, give it a port, too: upstream.other.port (for a plan: --listeners {name}://HOST:PORT,...).",
        )
    for name in sorted(set(wishes.listeners) - protocols.keys()) if protocols else ():
        yield Obstacle(
            BLOCKS,
            "listener-unknown",
            f"No broker has a listener {name}: nobody would be sent to it, and no node registers with it.",
            f"Leave it out, or name one of theirs: {', '.join(sorted(protocols))}.",
        )
    together = [name for name in wishes.listeners if name not in wishes.apart]
    yield from _other_protocols(protocols, together, wishes.protocol)
    yield from _other_protocols(protocols, sorted(wishes.apart), None)


def _other_protocols(
    protocols: dict[str, set[int]], listeners: Iterable[str], protocol: str | None
) -> Iterator[Obstacle]:
    """Name the listeners of one port of the nodes at which brokers speak another protocol than the port does:
    that of the first one, unless it is told. Clients and brokers speak to it what they speak to brokers."""
    known = [name for name in listeners if name in protocols]
    for name in known:
        spoken = protocols[known[0]] if protocol is None else {PROTOCOL_NUMBERS[protocol]}
        if protocols[name] != spoken:
            theirs = _in_words(protocols[name])
            yield Obstacle(
                BLOCKS,
                "listener-protocol",
                f"Listener {name} speaks {theirs}, and the tier's port {_in_words(spoken)}: all listeners of "
                "a port speak the same.",
                "Give it a second port, as one of upstream.other.listener.names: upstream.other.port "
                "(another port in --listeners, for a plan). If it is that of clients, set the tier's "
                f"listener.security.protocol to {theirs}.",
            )


def _in_words(protocols: Iterable[int]) -> str:
    return "/".join(PROTOCOLS.get(number, str(number)) for number in sorted(protocols))


def _rights(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    for right in facts.missing_rights:
        yield Obstacle(
            BLOCKS,
            "right-missing",
            f"The user may not {right.operation} on {right.resource} at {right.at}, which the tier needs to "
            f"{right.needed_to}.",
            f"`{right.command}`",
        )
    if facts.log_problem is not None:
        yield Obstacle(
            BLOCKS,
            "metadata-log",
            f"The metadata log could not be read: {facts.log_problem}. Ids, listeners and other tiers were "
            "looked at only as far as brokers tell of them.",
            "Give the user the right, and plan again.",
        )


def _security(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    for name in sorted(set(facts.config_values(AUTHORIZER)) - {"", OWN_AUTHORIZER}):
        yield Obstacle(
            WARNS,
            "authorizer",
            f"The brokers ask {name} for rights. The tier knows the rules in the metadata log only.",
            f"Rights on groups have to be rules of {OWN_AUTHORIZER}.",
        )
    if any(facts.config_values(AUTHORIZER)) and wishes.asks_for_rights is False:
        yield Obstacle(
            BLOCKS,
            "authorizer-new",
            "The brokers ask for clients' rights, and did not when the tier was made: it would ask for none.",
            "Make a tier anew, in another data directory: `groupd up --upstream ...`.",
        )
    if _asks_for_users(facts):
        yield from _mechanisms(facts)
    if any(facts.config_values(AUTHORIZER)) and wishes.super_users == frozenset():
        yield from _rights_of_brokers(facts, wishes)


def _asks_for_users(facts: Facts) -> bool:
    return any(
        endpoint.security_protocol in _WITH_SASL
        for broker in _registered(facts.image)
        for endpoint in broker.endpoints
    )


def _mechanisms(facts: Facts) -> Iterator[Obstacle]:
    """Users whose passwords are not in the metadata log cannot log in at the tier, nor can brokers."""
    enabled = {each.strip() for value in facts.config_values(SASL_MECHANISMS) for each in value.split(",")}
    if others := sorted(enabled - set(MECHANISM_NUMBERS) - {""}):
        yield Obstacle(
            WARNS,
            "sasl-mechanism",
            f"Clients may log in by {', '.join(others)}. The tier knows the users in the metadata log only, "
            "which are those of SCRAM; by PLAIN they log in with the passwords that they have there.",
            f"Clients of groups have to be users of {' or '.join(MECHANISM_NUMBERS)}.",
        )
    among_brokers = {name.strip() for name in facts.config_values(INTER_BROKER_MECHANISM)}
    if _is_sasl_among_brokers(facts) and (others := sorted(among_brokers - set(MECHANISM_NUMBERS))):
        yield Obstacle(
            BLOCKS,
            "broker-mechanism",
            f"Brokers log in at each other by {', '.join(others)}. They follow the tier when groups go back, "
            "and could not log in there: it knows the users of SCRAM only.",
            f"Set {INTER_BROKER_MECHANISM}={SCRAM_SHA_512} on the brokers, with a user in the metadata log.",
        )


def _is_sasl_among_brokers(facts: Facts) -> bool:
    named, protocols = facts.config_values(INTER_BROKER_LISTENER), listener_protocols(facts)
    found = [protocols[name] for name in named if name in protocols] or list(protocols.values())
    return any(number in _WITH_SASL for numbers in found for number in numbers)


def _rights_of_brokers(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    rules = () if facts.image is None else facts.image.acls.values()
    if any(_is_brokers(rule) and rule.principal not in wishes.users for rule in rules):
        return
    yield Obstacle(
        BLOCKS,
        "super-users",
        "No rule lets anybody else act as a broker (CLUSTER_ACTION on the cluster), so the brokers' own user "
        "is in their super.users, which cannot be read from outside. At the tier it could do nothing.",
        "Give the tier the same: --set super.users=User:...",
    )


def _is_brokers(rule: Acl) -> bool:
    """Return whether a rule makes its user as good as a broker."""
    is_allowed = rule.permission == Permission.ALLOW and rule.operation in _AS_A_BROKER
    return is_allowed and rule.resource_type == ResourceType.CLUSTER


def _partitions(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    partitions = facts.partitions or ()
    if leaderless := [each.number for each in partitions if each.leader < 0]:
        yield Obstacle(
            BLOCKS,
            "partition-without-leader",
            f"{counted(len(leaderless), 'offsets partition')} without a leader: {shortened(leaderless)}.",
            "Bring back the brokers that have them.",
        )
    if short := [each.number for each in partitions if set(each.isr) < set(each.replicas)]:
        yield Obstacle(
            WARNS,
            "under-replicated",
            f"{counted(len(short), 'offsets partition')} with replicas out of sync: {shortened(short)}.",
            "Wait until they are: the way back leads to the brokers that are in sync.",
        )
    topic = None if facts.image is None else facts.image.topic("__consumer_offsets")
    moving = (
        [
            number
            for number, each in topic.partitions.items()
            if each.adding_replicas or each.removing_replicas
        ]
        if topic
        else []
    )
    if moving:
        yield Obstacle(
            BLOCKS,
            "partition-moving",
            f"{counted(len(moving), 'offsets partition')} being reassigned: {shortened(sorted(moving))}.",
            "Wait until that is done, or cancel it.",
        )


def _unseen(facts: Facts, wishes: Wishes) -> Iterator[Obstacle]:
    for broker in facts.brokers:
        for problem in broker.problems:
            yield Obstacle(
                WARNS,
                "not-seen",
                f"Broker {broker.broker_id} ({broker.host}:{broker.port}): {problem}.",
                "What it has is missing in this plan.",
            )


Check = Callable[[Facts, Wishes], Iterable[Obstacle]]
CHECKS: Final[tuple[Check, ...]] = (
    _metadata_version,
    _features,
    _held_up,
    _unknown_records,
    _unserved_groups,
    _offsets_partitions,
    _ids,
    _second_tier,
    _listeners,
    _rights,
    _security,
    _partitions,
    _unseen,
)


def shortened(names: Iterable[object]) -> str:
    """Return names in a list, the first of them if there are many."""
    found = [str(name) for name in names]
    rest = len(found) - NAMES_SHOWN_MAX
    shown = ", ".join(found[:NAMES_SHOWN_MAX])
    return shown if rest <= 0 else f"{shown} and {rest} more"


def counted(number: int, what: str) -> str:
    """Return how many of something there are, in words."""
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def _brokers(ids: Iterable[int]) -> str:
    found = list(ids)
    return f"broker {found[0]}" if len(found) == 1 else f"brokers {shortened(found)}"


def _range(wishes: Wishes) -> str:
    return str(wishes.first_id) if wishes.nodes == 1 else f"{wishes.first_id} to {wishes.ids[-1]}"
