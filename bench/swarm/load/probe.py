"""Checks before a run that a Kafka is there and has the APIs that a plan needs."""

from __future__ import annotations

from typing import Final

import gevent

from actors.protocol.api_keys import (
    CONSUMER_GROUP_HEARTBEAT,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from bench.swarm.planning.plan import CONSUMER, Plan
from bench.swarm.wire.connection import Closed, TimedOut
from bench.swarm.wire.coordinators import Bootstrap
from cluster.groups.properties import ClientProperties
from cluster.tier_file import TierError

NEEDED: Final = {
    "JoinGroup": (JOIN_GROUP, 5),
    "OffsetCommit": (OFFSET_COMMIT, 8),
    "OffsetFetch": (OFFSET_FETCH, 8),
    "Metadata": (METADATA, 12),
}
"""The APIs that a plan needs, in the versions of Kafka 3.0 and later."""


class Unreachable(Exception):
    """No Kafka on which a swarm could run is at the bootstrap addresses; the text says why."""


class NoConsumerProtocol(Exception):
    """The plan has KIP-848 members, and the coordinator knows nothing of them."""


def probe(plan: Plan, properties: ClientProperties) -> None:
    """Check the Kafka. Raises Unreachable, NoConsumerProtocol."""
    bootstrap = Bootstrap(properties, "probe")
    try:
        offered = bootstrap.connection().offered
    except (Closed, TimedOut, TierError) as error:
        raise Unreachable(f"no Kafka can be reached at {properties.bootstrap}: {error}") from None
    finally:
        bootstrap.close()
        gevent.sleep(0)  # there may be no other turn of gevent's loop to close it in
    for api, (api_key, version) in NEEDED.items():
        first, last = offered.get(api_key, (0, -1))
        if not first <= version <= last:
            has = f"versions {first} to {last}" if last >= 0 else "nothing"
            raise Unreachable(
                f"{properties.bootstrap} offers {has} of {api}; version {version} is needed (Kafka 3.0)"
            )
    wants = [member for member in plan.members if member.protocol == CONSUMER]
    if wants and offered.get(CONSUMER_GROUP_HEARTBEAT, (0, -1))[1] < 1:
        raise NoConsumerProtocol(
            f"{properties.bootstrap} does not offer ConsumerGroupHeartbeat v1 (KIP-848, Kafka 4.0), which "
            f"{len(wants):,} of {len(plan.members):,} members need"
        )
