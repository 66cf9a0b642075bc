"""One answer frame from the answers of several leaders of this node.

The broker relays a request that spans partitions to each leader whole; every leader answers all of its
groups, those of other partitions with NOT_COORDINATOR. Here each group's entry is taken from the leader
of its own partition (W17); for ListGroups the lists are joined (W9).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from actors.protocol import api_keys, codec
from actors.protocol.headers import Header

_LENGTH_PREFIX_BYTES = 4
_ENTRIES = {
    api_keys.DESCRIBE_GROUPS: "groups",
    api_keys.DELETE_GROUPS: "results",
    api_keys.OFFSET_FETCH: "groups",
    api_keys.CONSUMER_GROUP_DESCRIBE: "groups",
}


def gather(header: Header, answers: Mapping[int, bytes], partition_of: Callable[[str], int]) -> bytes:
    """Join the answer frames of `answers` (by offsets partition, at least one)."""
    entities = {partition: _read(header, frame) for partition, frame in answers.items()}
    if header.api_key == api_keys.LIST_GROUPS:
        merged = _join_lists(list(entities.values()))
    else:
        merged = _choose_entries(_ENTRIES[header.api_key], entities, partition_of)
    return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, merged)


def _read(header: Header, frame: bytes) -> Any:
    response_class = codec.response_class(header.api_key, header.api_version)
    _, header_bytes = entity_reader(response_class.__header_schema__)(frame, _LENGTH_PREFIX_BYTES)
    return entity_reader(response_class)(frame, _LENGTH_PREFIX_BYTES + header_bytes)[0]


def _join_lists(entities: list[Any]) -> Any:
    answered = [entity for entity in entities if entity.error_code != ErrorCode.not_coordinator]
    for entity in answered:
        if entity.error_code != ErrorCode.none:
            return entity
    if not answered:
        return entities[0]
    return dataclasses.replace(
        answered[0], groups=tuple(group for entity in answered for group in entity.groups)
    )


def _choose_entries(field: str, entities: Mapping[int, Any], partition_of: Callable[[str], int]) -> Any:
    base = next(iter(entities.values()))
    own = {
        entry.group_id: entry
        for partition, entity in entities.items()
        for entry in getattr(entity, field)
        if partition_of(entry.group_id) == partition
    }
    entries = tuple(own.get(entry.group_id, entry) for entry in getattr(base, field))
    return dataclasses.replace(base, **{field: entries})
