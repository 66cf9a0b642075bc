"""Frames of requests that span offsets partitions: one for each leader, and one answer from theirs.

Each leader is sent the groups of its own partition and no others. Its answer gives their entries back, which
are put into the order in which the client asked (W17). ListGroups goes to all leaders as it is, and their
lists are joined (W9).
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from actors.api.groups import joined_lists
from actors.catalog import codec
from actors.catalog.api import Batch
from actors.catalog.table import COORDINATED, is_flexible
from actors.network.frames import with_length
from actors.protocol import api_keys
from actors.protocol.header import Header
from actors.protocol.wire import compact_count, legacy_count, read_count

_LENGTH_PREFIX_BYTES = 4
_THROTTLE_SINCE = 1


def parted(
    header: Header, frame: bytes, body_offset: int, partition_of: Callable[[str], int]
) -> dict[int, bytes]:
    """Return the request frame (without its length prefix) of each offsets partition that a batch names."""
    batch = _batch(header)
    entity = codec.decode_entity(header, frame, body_offset)
    entries: defaultdict[int, list[Any]] = defaultdict(list)
    for entry in getattr(entity, batch.asked):
        entries[partition_of(_id_of(batch, entry))].append(entry)
    return {
        partition: codec.encode_request(header, dataclasses.replace(entity, **{batch.asked: tuple(its_own)}))[
            _LENGTH_PREFIX_BYTES:
        ]
        for partition, its_own in entries.items()
    }


def gathered(header: Header, body: Any, answers: Sequence[bytes]) -> bytes:
    """Return one answer frame from those of several leaders, at least one, to parts of the request `body`."""
    if header.api_key == api_keys.LIST_GROUPS:
        return _join_lists(header.api_version, answers)
    entities = [codec.decode_response(header, frame) for frame in answers]
    listing = COORDINATED[header.api_key].listing
    if listing is not None:
        joined = joined_lists(entities, listing.entity_field, dataclasses.replace)
        return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, joined)
    batch = _batch(header)
    entries: defaultdict[str, deque[Any]] = defaultdict(deque)
    for entity in entities:
        for entry in getattr(entity, batch.entity_field):
            entries[_id_of(batch, entry)].append(entry)
    asked = map(batch.asked_id, getattr(body, batch.asked))
    # A group that is asked for twice has two entries, except if Kafka gives one (DeleteGroups, O13).
    ordered = tuple(entries[group_id].popleft() for group_id in asked if entries[group_id])
    merged = dataclasses.replace(entities[0], **{batch.entity_field: ordered})
    return codec.encode_entity(header.api_key, header.api_version, header.correlation_id, merged)


def _batch(header: Header) -> Batch:
    batch = COORDINATED[header.api_key].batch
    assert batch is not None, f"API {header.api_key} spans no partitions"
    return batch


def _id_of(batch: Batch, entry: Any) -> str:
    group_id: str = entry if isinstance(entry, str) else getattr(entry, batch.entity_id)
    return group_id


def _join_lists(api_version: int, frames: Sequence[bytes]) -> bytes:
    """Return the groups of all lists (W9), as the bytes they are: to read 100,000 of them would hold up all
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
    head = frames[0][_LENGTH_PREFIX_BYTES:error_at] + ErrorCode.none.to_bytes(2, "big")
    count_of_all = compact_count(total) if flexible else legacy_count(total)
    return with_length(b"".join((head, count_of_all, *lists, bytes(flexible))))
