"""Consumer groups (KIP-848) as a kind of group."""

from __future__ import annotations

from collections.abc import Iterator

from actors.coordinator.consumer import assignment_jobs, classic_members, held, views
from actors.coordinator.consumer.area import AREA
from actors.coordinator.consumer.backup import BACKUP
from actors.coordinator.consumer.computations import AREA as CLIENT_ASSIGNORS_AREA
from actors.coordinator.consumer.explain import explain
from actors.coordinator.consumer.model.state import ConsumerState, kept
from actors.coordinator.ground.kind import Kind
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.events import CONSUMER
from actors.ground.contract import Result
from actors.ground.features import GROUP_VERSION
from actors.ground.records import (
    CLIENT_ASSIGNMENT,
    CLIENT_ASSIGNORS,
    CONSUMER_GROUP_METADATA,
    CONSUMER_MEMBER_METADATA,
    CURRENT_MEMBER_ASSIGNMENT,
    REGULAR_EXPRESSION,
    TARGET_ASSIGNMENT_MEMBER,
    TARGET_ASSIGNMENT_METADATA,
)
from actors.protocol import api_keys


def _adopt(state: ShardState) -> Iterator[Result]:
    from actors.coordinator.consumer.adopted import (
        adopt,
    )  # here, because few replicas ever take anything over

    return adopt(state)


KIND = Kind(
    name=CONSUMER,
    states=("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    new_state=ConsumerState,
    areas=(AREA, assignment_jobs.AREA, classic_members.AREA, CLIENT_ASSIGNORS_AREA),
    makes=frozenset({api_keys.CONSUMER_GROUP_HEARTBEAT}),
    own=frozenset(
        {
            api_keys.CONSUMER_GROUP_HEARTBEAT,
            api_keys.CONSUMER_GROUP_DESCRIBE,
            api_keys.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
            api_keys.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
        }
    ),
    feature=GROUP_VERSION,
    listed=views.listed,
    summary=views.summary,
    explain=explain,
    delete_records=views.delete_records,
    forget=views.forget,
    validate_commit=views.validate_commit,
    validate_txn_commit=views.validate_txn_commit,
    validate_fetch=views.validate_fetch,
    subscribed_topics=views.subscribed_topics,
    retention=views.retention,
    is_unused=views.is_empty,
    backup=BACKUP,
    adopt=_adopt,
    stamp=held.stamp,
    held={api_keys.CONSUMER_GROUP_HEARTBEAT: held.HELD},
    told_to_all=lambda state: kept(state).interval_floor_ms,
    of_member=frozenset(
        {
            CONSUMER_MEMBER_METADATA,
            TARGET_ASSIGNMENT_MEMBER,
            CURRENT_MEMBER_ASSIGNMENT,
            CLIENT_ASSIGNORS,
            CLIENT_ASSIGNMENT,
        }
    ),
    of_group=frozenset({CONSUMER_GROUP_METADATA, TARGET_ASSIGNMENT_METADATA, REGULAR_EXPRESSION}),
)
