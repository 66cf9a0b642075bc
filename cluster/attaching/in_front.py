"""The Kafka cluster that a tier stands in front of, as `groupd up` finds it: looked at before anything
starts.

What a tier is told when it is made stays: which cluster it is, the ids of its nodes there, their listener,
and that it has as many offsets partitions as the cluster. Addresses may change with every start.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from actors.ground.spec import UpstreamSpec
from actors.security.gate import ACLS, NO_AUTHORIZER, super_users
from actors.upstream.connecting import connector
from actors.upstream.controllers import Address, CannotFollow, Elsewhere, NotAllowed, find_active, listed
from cluster import tier_file
from cluster.attaching import facts as facts_of
from cluster.attaching.facts import Facts, Wishes
from cluster.attaching.logins import Logins, logins
from cluster.attaching.looking import look
from cluster.attaching.obstacles import BLOCKS, obstacles, protocol_of
from cluster.attaching.plan import partition_count
from cluster.groups.connection import run
from cluster.groups.properties import properties
from cluster.settings import Settings, check_listener_tls
from cluster.tier_file import PARTITIONS, TierError, TierFile
from cluster.upstream_login import BROKERS_CONFIG, CONTROLLERS_CONFIG

BROKERS: Final = "upstream.bootstrap.servers"
CONTROLLERS: Final = "upstream.controllers"
OTHER_LISTENERS: Final = "upstream.other.listener.names"
OTHER_PORT: Final = "upstream.other.port"
"""The nodes' second ports, if brokers speak another protocol at these listeners."""
PROTOCOL: Final = "listener.security.protocol"
AUTHORIZER: Final = "authorizer"
FIRST_ID: Final = "upstream.first.broker.id"
LISTENER: Final = "upstream.listener.name"
CLIENT_ID: Final = "groupd-cli"
PASSING: Final = frozenset({"share-groups", "streams-groups", "partition-without-leader", "partition-moving"})
"""The obstacles that pass while the tier waits: `groupd attach` looks for them."""


def in_front(settings: Settings) -> Settings:
    """Return the settings with the cluster that the tier stands in front of, if it does, and with what its
    nodes must have as that has it: how many offsets partitions there are, how clients log in, who asks for
    their rights. Raises TierError if it must not stand there, by name."""
    data_dir = Path(settings["data.dir"])
    existing = tier_file.read(data_dir)
    if existing is not None:
        upstream = _again(settings, existing, data_dir)
        return settings if upstream is None else _as_there(settings, upstream)
    if not settings[BROKERS]:
        _check_no_login(settings)
        return settings
    made = UpstreamSpec(
        "", *_addresses(settings), settings[FIRST_ID] - 1, settings[LISTENER], settings[OTHER_LISTENERS]
    )
    if settings[OTHER_PORT]:
        if not made.other_listeners:
            raise TierError(
                f"{OTHER_PORT} ({settings.origins[OTHER_PORT]}): it needs {OTHER_LISTENERS}, which have it"
            )
        made = made._replace(other_port_shift=settings[OTHER_PORT] - settings["port"])
    return _looked_at(settings, made, logins(settings, data_dir))


def _check_no_login(settings: Settings) -> None:
    """Check that a tier of its own is told no login. Raises TierError."""
    for name in (BROKERS_CONFIG, CONTROLLERS_CONFIG):
        if settings[name]:
            raise TierError(f"{name} ({settings.origins[name]}): it needs {BROKERS}, too")


def _addresses(settings: Settings) -> tuple[tuple[Address, ...], tuple[Address, ...]]:
    """Return where brokers and controllers are."""
    brokers, controllers = (properties(",".join(settings[name]), None) for name in (BROKERS, CONTROLLERS))
    return tuple(brokers.addresses), tuple(controllers.addresses)


def _again(settings: Settings, existing: TierFile, data_dir: Path) -> UpstreamSpec | None:
    """Return what an existing tier stands in front of, at the addresses that are given now."""
    kept = existing.upstream
    if kept is None:
        if settings[BROKERS]:
            raise TierError(
                f"the tier in {data_dir} has groups of its own and cannot stand in front of a cluster: "
                f"leave {BROKERS} out, or name an empty --data-dir"
            )
        return None
    first = kept.first_broker_id + existing.nodes[0].node_id
    other_port = existing.nodes[0].port + kept.other_port_shift if kept.other_protocol else 0
    names = (
        *((FIRST_ID, first), (LISTENER, kept.listener)),
        *((OTHER_LISTENERS, kept.other_listeners), (OTHER_PORT, other_port)),
    )
    for name, value in names:
        if settings.is_given(name) and settings[name] != value:
            raise TierError(
                f"the tier in {data_dir} was made with {name} = {value!r}, by which the cluster knows its "
                f"nodes, and cannot change to {settings[name]!r}: leave that out"
            )
    if settings[BROKERS]:
        brokers, controllers = _addresses(settings)
        kept = kept._replace(brokers=brokers, controllers=controllers)
    kept = logins(settings, data_dir).of(kept)
    _check_cluster(kept, data_dir)
    return kept


def _check_cluster(kept: UpstreamSpec, data_dir: Path) -> None:
    """Check that the controllers are of the cluster that the tier was made for. Raises TierError."""
    servers = listed(kept.controllers)

    async def asked() -> str | None:
        connect = connector(CLIENT_ID, kept.controllers_login)
        active = await find_active(connect, kept.controllers)
        await active.wire.close()
        return active.cluster_id

    try:
        cluster_id = asyncio.run(asked())
    except NotAllowed:
        return  # who it is, the nodes are told when they register
    except (CannotFollow, Elsewhere) as error:
        raise TierError(f"no controller of cluster {kept.cluster_id} can be asked: {error}") from None
    if cluster_id not in (None, kept.cluster_id):
        raise TierError(
            f"other-cluster: the controllers at {servers} are those of cluster {cluster_id}; the tier in "
            f"{data_dir} stands in front of {kept.cluster_id}"
        )


def _looked_at(settings: Settings, upstream: UpstreamSpec, found: Logins) -> Settings:
    brokers, controllers = found.at(upstream)
    facts = run(brokers, lambda kafka: look(kafka, controllers, measures=False))
    upstream = upstream._replace(
        cluster_id=facts.cluster_id,
        protocol=_protocol(settings, facts, upstream),
        other_protocol=_other_protocol(facts, upstream),
        has_authorizer=any(facts.config_values(facts_of.AUTHORIZER)),
        creates_topics="true" in facts.config_values(facts_of.AUTO_CREATE),
    )
    wishes = Wishes(
        settings[FIRST_ID],
        settings["nodes"],
        upstream.listeners,
        upstream.protocol,
        super_users(settings.broker._replace(admin_user="")),
        frozenset(f"User:{each.sasl_username}" for each in found),
        apart=frozenset(filter(upstream.is_apart, upstream.listeners)),
    )
    wrong = [
        each for each in obstacles(facts, wishes) if each.severity == BLOCKS and each.name not in PASSING
    ]
    if wrong:
        raise TierError("; ".join(f"{each.name}: {each.what} {each.do}" for each in wrong))
    count = partition_count(facts)
    if count is None:
        raise TierError(
            "offsets-partitions: no broker tells its offsets.topic.num.partitions, which the tier has to "
            "have, too: give the user DESCRIBE_CONFIGS on the cluster"
        )
    if settings.is_given(PARTITIONS) and settings[PARTITIONS] != count:
        raise TierError(
            f"{PARTITIONS} = {settings[PARTITIONS]} ({settings.origins[PARTITIONS]}): the cluster has "
            f"{count}, and a tier in front of it has as many: leave that out"
        )
    settings = settings.changed({PARTITIONS: count}, f"cluster {facts.cluster_id}")
    return _as_there(settings, found.of(upstream))


def _protocol(settings: Settings, facts: Facts, upstream: UpstreamSpec) -> str:
    """Return the security protocol of the nodes' listeners: that of the brokers', unless it is given."""
    theirs = protocol_of(facts, upstream.listener)
    return str(settings[PROTOCOL]) if settings.is_given(PROTOCOL) or theirs is None else theirs


def _other_protocol(facts: Facts, upstream: UpstreamSpec) -> str:
    """Return what is spoken at the nodes' second ports; "" if they have none."""
    if not upstream.other_port_shift:
        return ""
    return protocol_of(facts, upstream.other_listeners[0]) or ""


def _as_there(settings: Settings, upstream: UpstreamSpec) -> Settings:
    """Return the settings with what a tier in front of this cluster must have. Raises TierError, and
    SettingsError if its port cannot speak TLS as the brokers' do."""
    origin = f"cluster {upstream.cluster_id}"
    if settings.is_given(PROTOCOL) and settings[PROTOCOL] != upstream.protocol:
        raise TierError(
            f"{PROTOCOL} = {settings[PROTOCOL]} ({settings.origins[PROTOCOL]}): the cluster knows the nodes "
            f"by {upstream.protocol}: leave that out"
        )
    authorizer = ACLS if upstream.has_authorizer else NO_AUTHORIZER
    if settings.is_given(AUTHORIZER) and settings[AUTHORIZER] != authorizer:
        raise TierError(
            f"{AUTHORIZER} = {settings[AUTHORIZER]} ({settings.origins[AUTHORIZER]}): brokers of the cluster "
            f"have {'one' if upstream.has_authorizer else 'none'}, and nodes have as well: leave that out"
        )
    there: dict[str, Any] = {PROTOCOL: upstream.protocol, AUTHORIZER: authorizer, "admin.user": ""}
    if not settings.is_given(facts_of.AUTO_CREATE):
        there[facts_of.AUTO_CREATE] = upstream.creates_topics
    settings = settings.changed(there, origin)
    check_listener_tls(settings)
    if upstream.other_protocol:
        check_listener_tls(settings.changed({PROTOCOL: upstream.other_protocol}, origin))
    return replace(settings, upstream=upstream)
