"""The Kafka cluster that a tier stands in front of, as `groupd up` finds it: looked at before anything
starts.

What a tier is told when it is made stays: which cluster it is, the ids of its nodes there, their listener,
and that it has as many offsets partitions as the cluster. Addresses may change with every start.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Final

from actors.ground.spec import UpstreamSpec
from actors.upstream.controllers import Address, CannotFollow, Elsewhere, NotAllowed, find_active, listed
from cluster import tier_file
from cluster.attaching.facts import Wishes
from cluster.attaching.looking import connector, look
from cluster.attaching.obstacles import BLOCKS, obstacles
from cluster.attaching.plan import partition_count
from cluster.groups.connection import run
from cluster.groups.properties import ClientProperties, properties
from cluster.settings import Settings
from cluster.tier_file import PARTITIONS, TierError, TierFile

BROKERS: Final = "upstream.bootstrap.servers"
CONTROLLERS: Final = "upstream.controllers"
FIRST_ID: Final = "upstream.first.broker.id"
LISTENER: Final = "upstream.listener.name"
PASSING: Final = frozenset({"share-groups", "streams-groups", "partition-without-leader", "partition-moving"})
"""The obstacles that pass while the tier waits: `groupd attach` looks for them."""


def in_front(settings: Settings) -> Settings:
    """Return the settings with the cluster that the tier stands in front of, if it does, and with as many
    offsets partitions as that has. Raises TierError if it must not stand there, by name."""
    data_dir = Path(settings["data.dir"])
    existing = tier_file.read(data_dir)
    if existing is not None:
        return replace(settings, upstream=_again(settings, existing, data_dir))
    if not settings[BROKERS]:
        return settings
    made = UpstreamSpec("", *_addresses(settings), settings[FIRST_ID] - 1, settings[LISTENER])
    return _looked_at(settings, made)


def _client_properties(settings: Settings, name: str) -> ClientProperties:
    return properties(",".join(settings[name]), None)


def _addresses(settings: Settings) -> tuple[tuple[Address, ...], tuple[Address, ...]]:
    """Return where brokers and controllers are."""
    brokers, controllers = (_client_properties(settings, name) for name in (BROKERS, CONTROLLERS))
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
    for name, value in ((FIRST_ID, first), (LISTENER, kept.listener)):
        if settings.is_given(name) and settings[name] != value:
            raise TierError(
                f"the tier in {data_dir} was made with {name} = {value!r}, by which the cluster knows its "
                f"nodes, and cannot change to {settings[name]!r}: leave that out"
            )
    if settings[BROKERS]:
        brokers, controllers = _addresses(settings)
        kept = kept._replace(brokers=brokers, controllers=controllers)
    _check_cluster(kept, data_dir)
    return kept


def _check_cluster(kept: UpstreamSpec, data_dir: Path) -> None:
    """Check that the controllers are of the cluster that the tier was made for. Raises TierError."""
    servers = listed(kept.controllers)

    async def asked() -> str | None:
        active = await find_active(connector(properties(servers, None)), kept.controllers)
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


def _looked_at(settings: Settings, upstream: UpstreamSpec) -> Settings:
    controllers = _client_properties(settings, CONTROLLERS)
    facts = run(_client_properties(settings, BROKERS), lambda kafka: look(kafka, controllers, measures=False))
    wishes = Wishes(settings[FIRST_ID], settings["nodes"], (upstream.listener,))
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
    found = settings.changed({PARTITIONS: count}, f"cluster {facts.cluster_id}")
    return replace(found, upstream=upstream._replace(cluster_id=facts.cluster_id))
