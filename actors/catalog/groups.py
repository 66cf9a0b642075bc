"""The rows of the APIs that groups' coordinators answer."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Any, Final

from actors.catalog import group_refusals
from actors.catalog.api import NEVER_FLEXIBLE, Api, Batch, Coordinated, Listing, Server
from actors.protocol import (
    answers,
    api_keys,
    client_assignor_codec,
    hot_answers,
    hot_offset_answers,
    hot_offset_requests,
    hot_rebalances,
    hot_requests,
    push_codec,
    requests,
)
from actors.protocol.messages import (
    ConsumerGroupDescribeResponse,
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    OffsetFetchResponse,
)
from actors.security import client_assignor_checks, group_checks

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
        Coordinated(
            requests.offset_commit,
            group_checks.offset_commit,
            group_refusals.offset_commit,
            takes_connection=True,
            hot_requests=(
                (2, 4, hot_offset_requests.offset_commit_retention),
                (5, 5, hot_offset_requests.offset_commit_plain),
                (6, 6, hot_offset_requests.offset_commit_leader_epoch),
                (7, 7, hot_offset_requests.offset_commit_static),
                (8, 9, hot_offset_requests.offset_commit_flexible),
                (10, 10, hot_offset_requests.offset_commit_ids),
            ),
            hot_answers=(
                (2, 2, hot_offset_answers.offset_commit_plain),
                (3, 7, hot_offset_answers.offset_commit_throttle),
                (8, 9, hot_offset_answers.offset_commit_flexible),
                (10, 10, hot_offset_answers.offset_commit_ids),
            ),
        ),
    ),
    _row(
        api_keys.OFFSET_FETCH,
        (1, 10),
        6,
        Coordinated(
            requests.offset_fetch,
            group_checks.offset_fetch,
            group_refusals.offset_fetch,
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
            hot_requests=(
                (1, 1, hot_offset_requests.offset_fetch_plain),
                (2, 5, hot_offset_requests.offset_fetch_all),
                (6, 6, hot_offset_requests.offset_fetch_flexible),
                (7, 7, hot_offset_requests.offset_fetch_stable),
                (8, 8, hot_offset_requests.offset_fetch_groups),
                (9, 9, hot_offset_requests.offset_fetch_member),
                (10, 10, hot_offset_requests.offset_fetch_ids),
            ),
            hot_answers=(
                (1, 1, hot_offset_answers.offset_fetch_plain),
                (2, 2, hot_offset_answers.offset_fetch_top_error),
                (3, 4, hot_offset_answers.offset_fetch_throttle),
                (5, 5, hot_offset_answers.offset_fetch_leader_epoch),
                (6, 7, hot_offset_answers.offset_fetch_flexible),
                (8, 9, hot_offset_answers.offset_fetch_groups),
                (10, 10, hot_offset_answers.offset_fetch_ids),
            ),
        ),
    ),
    _row(
        api_keys.JOIN_GROUP,
        (0, 9),
        6,
        Coordinated(
            requests.join_group,
            group_checks.join_group,
            group_refusals.join_group,
            takes_connection=True,
            hot_requests=(
                (0, 0, hot_rebalances.join_group_one_timeout),
                (1, 4, hot_rebalances.join_group_plain),
                (5, 5, hot_rebalances.join_group_static),
                (6, 7, hot_rebalances.join_group_flexible),
                (8, 9, hot_rebalances.join_group_reason),
            ),
            hot_answers=(
                (0, 1, hot_answers.join_group_plain),
                (2, 4, hot_answers.join_group_throttle),
                (5, 5, hot_answers.join_group_static),
                (6, 6, hot_answers.join_group_flexible),
                (7, 8, hot_answers.join_group_protocol_type),
                (9, 9, hot_answers.join_group_skip),
            ),
        ),
    ),
    _row(
        api_keys.HEARTBEAT,
        (0, 4),
        4,
        Coordinated(
            requests.heartbeat,
            group_checks.heartbeat,
            group_refusals.heartbeat,
            takes_connection=True,
            hot_requests=(
                (0, 2, hot_requests.heartbeat_plain),
                (3, 3, hot_requests.heartbeat_static),
                (4, 4, hot_requests.heartbeat_flexible),
            ),
            hot_answers=(
                (0, 0, hot_answers.heartbeat_plain),
                (1, 3, hot_answers.heartbeat_throttle),
                (4, 4, hot_answers.heartbeat_flexible),
            ),
        ),
    ),
    _row(
        api_keys.LEAVE_GROUP,
        (0, 5),
        4,
        Coordinated(
            requests.leave_group,
            group_checks.leave_group,
            group_refusals.leave_group,
            answers.leave_group,
            takes_connection=True,
        ),
    ),
    _row(
        api_keys.SYNC_GROUP,
        (0, 5),
        4,
        Coordinated(
            requests.sync_group,
            group_checks.sync_group,
            group_refusals.sync_group,
            takes_connection=True,
            hot_requests=(
                (0, 2, hot_rebalances.sync_group_plain),
                (3, 3, hot_rebalances.sync_group_static),
                (4, 4, hot_rebalances.sync_group_flexible),
                (5, 5, hot_rebalances.sync_group_protocol),
            ),
            hot_answers=(
                (0, 0, hot_answers.sync_group_plain),
                (1, 3, hot_answers.sync_group_throttle),
                (4, 4, hot_answers.sync_group_flexible),
                (5, 5, hot_answers.sync_group_protocol),
            ),
        ),
    ),
    _row(
        api_keys.DESCRIBE_GROUPS,
        (0, 6),
        5,
        Coordinated(
            requests.describe_groups,
            group_checks.describe_groups,
            group_refusals.describe_groups,
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
        Coordinated(
            requests.list_groups,
            group_checks.list_groups,
            group_refusals.list_groups,
            answers.list_groups,
            listing=Listing("groups", "groups"),
        ),
    ),
    _row(
        api_keys.DELETE_GROUPS,
        (0, 3),
        2,
        Coordinated(
            requests.delete_groups,
            group_checks.delete_groups,
            group_refusals.delete_groups,
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
        Coordinated(
            requests.offset_delete,
            group_checks.offset_delete,
            group_refusals.offset_delete,
            answers.offset_delete,
        ),
    ),
    _row(
        api_keys.CONSUMER_GROUP_HEARTBEAT,
        (0, 1),
        0,
        Coordinated(
            requests.consumer_heartbeat,
            group_checks.consumer_heartbeat,
            group_refusals.consumer_heartbeat,
            takes_connection=True,
            hot_requests=(
                (0, 0, hot_requests.consumer_heartbeat_v0),
                (1, 1, hot_requests.consumer_heartbeat_v1),
            ),
            hot_answers=((0, 1, hot_answers.consumer_heartbeat),),
        ),
    ),
    _row(
        api_keys.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
        (0, 0),
        0,
        Coordinated(
            client_assignor_codec.prepare,
            client_assignor_checks.prepare,
            group_refusals.prepare_assignment,
            client_assignor_codec.prepared,
            takes_connection=True,
        ),
    ),
    _row(
        api_keys.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
        (0, 0),
        0,
        Coordinated(
            client_assignor_codec.install,
            client_assignor_checks.install,
            group_refusals.install_assignment,
            client_assignor_codec.installed,
            takes_connection=True,
        ),
    ),
    _row(
        api_keys.REGISTER_CONSUMER,
        (0, 0),
        0,
        Coordinated(
            push_codec.register_consumer,
            group_checks.register_consumer,
            group_refusals.register_consumer,
            push_codec.register_consumer_answer,
            takes_connection=True,
        ),
    ),
    _row(
        api_keys.CONSUMER_GROUP_DESCRIBE,
        (0, 1),
        0,
        Coordinated(
            requests.consumer_describe,
            group_checks.consumer_describe,
            group_refusals.consumer_describe,
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
