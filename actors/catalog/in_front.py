"""The requests of a node that is one of a Kafka cluster's brokers: which the tier answers, and which are
passed on to the cluster's other brokers, in whatever version these speak."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from actors.catalog.api_versions import Offer
from actors.catalog.groups import GROUP_APIS
from actors.catalog.table import APIS
from actors.protocol import api_keys

LEADER_APIS: Final = GROUP_APIS | {api_keys.TXN_OFFSET_COMMIT}
"""The APIs that the leaders of offsets partitions answer: transactional ids are coordinated by the cluster's
own brokers."""
_EITHER: Final = frozenset({api_keys.FIND_COORDINATOR, api_keys.DESCRIBE_CONFIGS})
"""The APIs of which some requests are answered here, and the others are passed on."""
SERVED: Final = (
    LEADER_APIS
    | _EITHER
    | {
        api_keys.PRODUCE,
        api_keys.FETCH,
        api_keys.LIST_OFFSETS,
        api_keys.OFFSET_FOR_LEADER_EPOCH,
        api_keys.DELETE_RECORDS,
        api_keys.WRITE_TXN_MARKERS,
        api_keys.LIST_TRANSACTIONS,
        api_keys.DESCRIBE_PRODUCERS,
        api_keys.DESCRIBE_LOG_DIRS,
        api_keys.API_VERSIONS,
        api_keys.SASL_HANDSHAKE,
        api_keys.SASL_AUTHENTICATE,
    }
)
"""The APIs that are answered here. Those of logs are among them: a broker answers them for itself alone, and
a node of the tier has no logs but those of offsets partitions."""
LEFT_OUT: Final = frozenset({71, 72, *range(76, 80), *range(83, 93)})
"""The APIs that nobody here serves on purpose: the tier takes in no telemetry, and has no share and no
streams groups."""
REPEATABLE: Final = frozenset(
    {
        api_keys.METADATA,
        api_keys.FIND_COORDINATOR,
        api_keys.DESCRIBE_ACLS,
        api_keys.DESCRIBE_CONFIGS,
        api_keys.DESCRIBE_CLIENT_QUOTAS,
        api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS,
        api_keys.DESCRIBE_CLUSTER,
        api_keys.DESCRIBE_TRANSACTIONS,
        api_keys.LIST_CONFIG_RESOURCES,
        api_keys.DESCRIBE_TOPIC_PARTITIONS,
        46,  # ListPartitionReassignments
        55,  # DescribeQuorum
    }
)
"""The APIs that change nothing, so that another broker may be asked if one is lost."""
CARRIED_OUT: Final = frozenset(
    {
        api_keys.CREATE_TOPICS,
        api_keys.DELETE_TOPICS,
        api_keys.CREATE_ACLS,
        api_keys.DELETE_ACLS,
        api_keys.ALTER_CONFIGS,
        api_keys.CREATE_PARTITIONS,
        api_keys.ELECT_LEADERS,
        api_keys.INCREMENTAL_ALTER_CONFIGS,
        45,  # AlterPartitionReassignments
        46,  # ListPartitionReassignments
        api_keys.ALTER_CLIENT_QUOTAS,
        api_keys.ALTER_USER_SCRAM_CREDENTIALS,
        55,  # DescribeQuorum
        api_keys.UPDATE_FEATURES,
        64,  # UnregisterBroker
        80,  # AddRaftVoter
        81,  # RemoveRaftVoter
    }
)
"""The APIs that controllers carry out, and that brokers pass on to them in envelopes."""
SCREENED: Final = frozenset(
    {
        api_keys.METADATA,
        api_keys.FIND_COORDINATOR,
        api_keys.INIT_PRODUCER_ID,
        api_keys.DESCRIBE_ACLS,
        api_keys.DESCRIBE_CONFIGS,
        api_keys.DESCRIBE_CLIENT_QUOTAS,
        api_keys.DESCRIBE_USER_SCRAM_CREDENTIALS,
        api_keys.DESCRIBE_CLUSTER,
        api_keys.LIST_CONFIG_RESOURCES,
        api_keys.DESCRIBE_TOPIC_PARTITIONS,
    }
)
"""The APIs that any broker answers, and none takes in an envelope: what the client may ask for goes to one as
the tier's user. InitProducerId with a transactional id is not among them."""
COORDINATED_THERE: Final = frozenset(
    {
        api_keys.ADD_PARTITIONS_TO_TXN,
        api_keys.ADD_OFFSETS_TO_TXN,
        api_keys.END_TXN,
        api_keys.DESCRIBE_TRANSACTIONS,
    }
)
"""The APIs of transactional ids, whose coordinators are brokers: clients do not ask a node for long."""
_KEY: Final = struct.Struct(">h")


class Way(enum.Enum):
    """Where requests of an API go if the cluster knows its users."""

    CONTROLLER = "in an envelope to the controller"
    BROKER = "as the tier's user to a broker, by the cluster's rules"
    COORDINATOR = "refused: a broker coordinates it"
    NOWHERE = "refused"


def way_of(api_key: int) -> Way:
    """Return where requests of an API go that is passed on."""
    if api_key in CARRIED_OUT:
        return Way.CONTROLLER
    if api_key in SCREENED:
        return Way.BROKER
    return Way.COORDINATOR if api_key in COORDINATED_THERE else Way.NOWHERE


def api_key_of(frame: bytes) -> int:
    """Return the API key of a request, whatever else it is; -1 if it has none."""
    key: int = _KEY.unpack_from(frame)[0] if len(frame) >= _KEY.size else -1
    return key


def is_passed_on(api_key: int) -> bool:
    """Return whether requests of an API go to another broker of the cluster, whatever they are."""
    return 0 <= api_key < api_keys.OWN_FROM and api_key not in SERVED and api_key not in LEFT_OUT


def offer(
    versions: Mapping[int, tuple[int, int]],
    supported: Iterable[Mapping[str, Any]],
    finalized: Mapping[str, int],
    epoch: int,
    *,
    knows_users: bool = False,
) -> Offer:
    """Return what a node tells of itself. `versions` and `supported` are what a broker offers to which
    requests are passed on; `knows_users`: the cluster does, so that what goes there is looked into."""
    passed_on = {key for key in versions if is_passed_on(key)}
    looked_into = set(_EITHER)
    if knows_users:
        passed_on = {key for key in passed_on if way_of(key) is not Way.NOWHERE}
        looked_into |= passed_on - CARRIED_OUT
    rows = {key: (key, *versions[key]) for key in passed_on - looked_into}
    for key in (SERVED | looked_into) & APIS.keys():
        low, high = APIS[key].first_told, APIS[key].max_version
        if key in looked_into:
            theirs = versions.get(key, (0, -1))
            low, high = max(low, theirs[0]), min(high, theirs[1])
        if low <= high and key < api_keys.OWN_FROM:
            rows[key] = (key, low, high)
    features = sorted((row["name"], row["min_version"], row["max_version"]) for row in supported)
    return Offer(
        tuple(rows[key] for key in sorted(rows)), tuple(features), tuple(sorted(finalized.items())), epoch
    )
