"""Cut group requests that span offsets partitions into parts, and make one answer from the parts.

A group lives in one offsets partition; DescribeGroups, DeleteGroups, ConsumerGroupDescribe and OffsetFetch
name many groups, DescribeTransactions many transactional ids, which live as groups do; ListGroups and
ListTransactions name none and mean all. The caller sends each part of `split` where it
belongs, puts `refused_part` in the place of a part it cannot serve (groups led elsewhere answer
NOT_COORDINATOR each, W17) and gives all of them to `merge`. Pure: no I/O here.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from actors.catalog.table import COORDINATED
from actors.coordinator.refusals import refusal
from actors.ground.contract import Request
from actors.protocol import api_keys
from actors.protocol.messages import NO_ERROR
from actors.protocol.transaction_messages import WriteTxnMarkersRequest

_NO_TOKEN = 0
_NEWEST_VERSION = 2**15 - 1


def split(
    api_key: int, body: Any, partition_of: Callable[[str], int], partition_count: int
) -> dict[int, Any]:
    """Return the part of the request for each offsets partition. An empty batch gives no parts; ListGroups
    goes to all."""
    batch, listing = COORDINATED[api_key].batch, COORDINATED[api_key].listing
    if listing is not None:
        return dict.fromkeys(range(partition_count), body)
    if api_key == api_keys.WRITE_TXN_MARKERS:
        return {_marked_partition(body): body}
    if batch is None:
        return {partition_of(body.group_id): body}
    groups_by_partition: defaultdict[int, list[Any]] = defaultdict(list)
    for group in getattr(body, batch.asked):
        groups_by_partition[partition_of(batch.asked_id(group))].append(group)
    return {
        partition: body._replace(**{batch.asked: tuple(groups)})
        for partition, groups in groups_by_partition.items()
    }


def _marked_partition(body: WriteTxnMarkersRequest) -> int:
    """Return the offsets partition whose markers a replica is given: the broker has cut the markers to pieces
    already."""
    numbers = (number for marker in body.markers for _, numbers in marker.topics for number in numbers)
    return next(numbers, -1)


def merge(api_key: int, parts: Sequence[Any], original_body: Any) -> Any:
    """Return one answer from the parts' answers, its groups in the order in which `original_body` names
    them."""
    batch, listing = COORDINATED[api_key].batch, COORDINATED[api_key].listing
    if listing is not None:
        return joined_lists(parts, listing.answered, lambda part, **fields: part._replace(**fields))
    if batch is None:
        return parts[0]
    # A group that is asked for twice has two answers, except if Kafka gives one (DeleteGroups, O13).
    answers: defaultdict[str, deque[Any]] = defaultdict(deque)
    for part in parts:
        for answer in getattr(part, batch.answered):
            answers[batch.answered_id(answer)].append(answer)
    asked: Iterable[str] = map(batch.asked_id, getattr(original_body, batch.asked))
    return batch.answer(tuple(answers[group_id].popleft() for group_id in asked if answers[group_id]))


def refused_part(api_key: int, body: Any, error_code: int, api_version: int = _NEWEST_VERSION) -> Any:
    """Return the answer in the place of a part that is not served: `error_code` for each of its groups.

    `api_version` matters to OffsetFetch alone, whose version 1 puts the error on each partition (W6).
    """
    return refusal(Request(_NO_TOKEN, api_key, api_version, "", "", body), error_code)


def joined_lists(lists: Sequence[Any], field: str, replaced: Callable[..., Any]) -> Any:
    """Return one list, whose entries stand in `field`: a partition that is led elsewhere is skipped, any
    other error fails the whole answer (W9). `replaced` returns an answer with some fields changed."""
    served = [each for each in lists if each.error_code != ErrorCode.not_coordinator]
    failed = next((each for each in served if each.error_code != NO_ERROR), None)
    if failed is not None:
        return failed
    entries = tuple(entry for each in served for entry in getattr(each, field))
    return replaced((served or lists)[0], error_code=NO_ERROR, **{field: entries})
