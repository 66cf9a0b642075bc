"""The rows of the APIs that groups' coordinators answer."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Any, Final

from actors.catalog.api import NEVER_FLEXIBLE, Api, Batch, Coordinated, Server
from actors.protocol import answers, api_keys, requests
from actors.protocol.messages import (
    ConsumerGroupDescribeResponse,
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    OffsetFetchResponse,
)
from actors.security import group_checks

_by_first_field = itemgetter(0)
_by_group_id = attrgetter("group_id")


def _by_name(group: Any) -> str:
    name: str = group
    return name


def _row(key: int, versions: tuple[int, int], flexible_since: int, coordinated: Coordinated) -> Api:
    return Api(key, *versions, flexible_since, Server.COORDINATOR, coordinated=coordinated)


GROUPS: Final = (
    _row(
        api_keys.OFFSET_COMMIT,
        (2, 10),
        8,
        Coordinated(requests.offset_commit, group_checks.offset_commit, takes_connection=True),
    ),
    _row(
        api_keys.OFFSET_FETCH,
        (1, 10),
        6,
        Coordinated(
            requests.offset_fetch,
            group_checks.offset_fetch,
            batch=Batch(
                asked="groups",
                asked_id=_by_group_id,
                answered="groups",
                answered_id=_by_group_id,
                answer=OffsetFetchResponse,
                entity_field="groups",
                entity_id="group_id",
            ),
            takes_connection=True,
        ),
    ),
    _row(
        api_keys.JOIN_GROUP,
        (0, 9),
        6,
        Coordinated(requests.join_group, group_checks.join_group, takes_connection=True),
    ),
    _row(
        api_keys.HEARTBEAT,
        (0, 4),
        4,
        Coordinated(requests.heartbeat, group_checks.heartbeat, takes_connection=True),
    ),
    _row(
        api_keys.LEAVE_GROUP,
        (0, 5),
        4,
        Coordinated(
            requests.leave_group, group_checks.leave_group, answers.leave_group, takes_connection=True
        ),
    ),
    _row(
        api_keys.SYNC_GROUP,
        (0, 5),
        4,
        Coordinated(requests.sync_group, group_checks.sync_group, takes_connection=True),
    ),
    _row(
        api_keys.DESCRIBE_GROUPS,
        (0, 6),
        5,
        Coordinated(
            requests.describe_groups,
            group_checks.describe_groups,
            answers.describe_groups,
            Batch(
                asked="groups",
                asked_id=_by_name,
                answered="groups",
                answered_id=_by_group_id,
                answer=DescribeGroupsResponse,
                entity_field="groups",
                entity_id="group_id",
            ),
        ),
    ),
    _row(
        api_keys.LIST_GROUPS,
        (0, 5),
        3,
        Coordinated(requests.list_groups, group_checks.list_groups, answers.list_groups),
    ),
    _row(
        api_keys.DELETE_GROUPS,
        (0, 2),
        2,
        Coordinated(
            requests.delete_groups,
            group_checks.delete_groups,
            answers.delete_groups,
            Batch(
                asked="groups_names",
                asked_id=_by_name,
                answered="results",
                answered_id=_by_first_field,
                answer=DeleteGroupsResponse,
                entity_field="results",
                entity_id="group_id",
            ),
        ),
    ),
    _row(
        api_keys.OFFSET_DELETE,
        (0, 0),
        NEVER_FLEXIBLE,
        Coordinated(requests.offset_delete, group_checks.offset_delete, answers.offset_delete),
    ),
    _row(
        api_keys.CONSUMER_GROUP_HEARTBEAT,
        (0, 1),
        0,
        Coordinated(requests.consumer_heartbeat, group_checks.consumer_heartbeat, takes_connection=True),
    ),
    _row(
        api_keys.CONSUMER_GROUP_DESCRIBE,
        (0, 1),
        0,
        Coordinated(
            requests.consumer_describe,
            group_checks.consumer_describe,
            answers.consumer_describe,
            Batch(
                asked="group_ids",
                asked_id=_by_name,
                answered="groups",
                answered_id=_by_group_id,
                answer=ConsumerGroupDescribeResponse,
                entity_field="groups",
                entity_id="group_id",
            ),
        ),
    ),
)
"""KIP-848 consumers need OffsetCommit and OffsetFetch 9 (W16)."""
GROUP_APIS: Final = frozenset(row.key for row in GROUPS)
