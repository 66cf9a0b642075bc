"""The catalog: every API that the tier advertises, by its key.

It is the smallest that runs librdkafka, the Java client, kafka-python, aiokafka, franz-go, kafkajs and sarama
end to end, classic and KIP-848, plus topic and config administration.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from actors.catalog.api import Api, Coordinated, Server
from actors.catalog.broker import BROKER
from actors.catalog.groups import GROUPS
from actors.catalog.transactions import TRANSACTIONS
from actors.protocol import api_keys
from actors.protocol.errors import UnsupportedRequest

APIS: Final[Mapping[int, Api]] = MappingProxyType(
    {api.key: api for api in sorted((*BROKER, *GROUPS, *TRANSACTIONS))}
)
COORDINATED: Final[Mapping[int, Coordinated]] = MappingProxyType(
    {key: api.coordinated for key, api in APIS.items() if api.coordinated is not None}
)
"""The APIs that coordinators answer, always or for some requests."""
COORDINATOR_APIS: Final = frozenset(key for key, api in APIS.items() if api.served_by is Server.COORDINATOR)
MEMBER_APIS: Final = frozenset(key for key, row in COORDINATED.items() if row.takes_connection)


def coordinated(api_key: int) -> Coordinated:
    """The coordinator's side of an API. Raises UnsupportedRequest for one that no coordinator answers."""
    row = COORDINATED.get(api_key)
    if row is None:
        raise UnsupportedRequest(f"API {api_key} is answered by no coordinator")
    return row


def is_supported(api_key: int, api_version: int) -> bool:
    """Whether the tier advertises this version of this API."""
    api = APIS.get(api_key)
    return api is not None and api.min_version <= api_version <= api.max_version


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether requests of this advertised API and version have compact fields and tags (KIP-482)."""
    return api_version >= APIS[api_key].flexible_since


def name_of(api_key: int) -> str:
    """Kafka's schema name of an API, "JoinGroup"."""
    return api_keys.SCHEMA_NAMES[api_key]
