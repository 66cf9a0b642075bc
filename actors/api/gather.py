"""Make one answer frame from the answers of several leaders of this node.

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

from actors.network.frames import with_length
from actors.protocol import api_keys, codec
from actors.protocol.headers import Header
from actors.protocol.versions import is_flexible
from actors.protocol.wire import compact_count, legacy_count, read_count

_LENGTH_PREFIX_BYTES = 4
_THROTTLE_SINCE = 1
_ENTRIES = {
    api_keys.DESCRIBE_GROUPS: ("groups", "group_id"),
    api_keys.DELETE_GROUPS: ("results", "group_id"),
    api_keys.OFFSET_FETCH: ("groups", "group_id"),
    api_keys.CONSUMER_GROUP_DESCRIBE: ("groups", "group_id"),
    api_keys.ADD_PARTITIONS_TO_TXN: ("results_by_transaction", "transactional_id"),
}
"""API key -> the answer's field of entries, and the entry's field by which its partition is found."""


def gather(header: Header, answers: Mapping[int, bytes], partition_of: Callable[[str], int]) -> bytes:
    """Return one frame made of the answer frames of `answers` (by offsets partition, at least one)."""
    if header.api_key == api_keys.LIST_GROUPS:
        return _join_lists(header.api_version, list(answers.values()))
    entities = {partition: _read(header, frame) for partition, frame in answers.items()}
    merged = _choose_entries(*_ENTRIES[header.api_key], entities, partition_of)
    return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, merged)


def _read(header: Header, frame: bytes) -> Any:
    response_class = codec.response_class(header.api_key, header.api_version)
    _, header_bytes = entity_reader(response_class.__header_schema__)(frame, _LENGTH_PREFIX_BYTES)
    return entity_reader(response_class)(frame, _LENGTH_PREFIX_BYTES + header_bytes)[0]


def _join_lists(api_version: int, frames: list[bytes]) -> bytes:
    """Return the groups of all lists, as the bytes they are: to read 100,000 of them would hold up all
    clients.

    A frame is a length, a correlation id, tags, the throttle time, the error, the groups with their count
    first, tags; tags from version 3 on, the throttle time from version 1.
    """
    flexible = is_flexible(api_keys.LIST_GROUPS, api_version)
    error_at = 8 + flexible + 4 * (api_version >= _THROTTLE_SINCE)
    total, lists = 0, []
    for frame in frames:
        error_code = int.from_bytes(frame[error_at : error_at + 2], "big", signed=True)
        if error_code == ErrorCode.not_coordinator:
            continue
        if error_code != ErrorCode.none:
            return frame
        count, at = read_count(frame, error_at + 2, flexible)
        total += count
        lists.append(memoryview(frame)[at : len(frame) - flexible])
    if not lists:
        return frames[0]
    head = frames[0][_LENGTH_PREFIX_BYTES:error_at] + ErrorCode.none.to_bytes(2, "big")
    count_of_all = compact_count(total) if flexible else legacy_count(total)
    return with_length(b"".join((head, count_of_all, *lists, bytes(flexible))))


def _choose_entries(
    field: str, id_field: str, entities: Mapping[int, Any], partition_of: Callable[[str], int]
) -> Any:
    base = next(iter(entities.values()))
    own = {
        getattr(entry, id_field): entry
        for partition, entity in entities.items()
        for entry in getattr(entity, field)
        if partition_of(getattr(entry, id_field)) == partition
    }
    entries = tuple(own.get(getattr(entry, id_field), entry) for entry in getattr(base, field))
    return dataclasses.replace(base, **{field: entries})
