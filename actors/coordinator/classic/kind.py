"""Classic groups as a kind of group."""

from __future__ import annotations

from actors.coordinator.classic import held, views
from actors.coordinator.classic.area import AREA
from actors.coordinator.classic.backup import BACKUP
from actors.coordinator.classic.explain import explain
from actors.coordinator.classic.group import GroupState
from actors.coordinator.classic.rebalance import forget
from actors.coordinator.classic.session import validate_commit
from actors.coordinator.classic.state import ClassicState
from actors.coordinator.classic.store import replacement
from actors.coordinator.ground.kind import Kind
from actors.coordinator.told.events import CLASSIC
from actors.ground.records import CLASSIC_MEMBER, GROUP_METADATA
from actors.protocol import api_keys

KIND = Kind(
    name=CLASSIC,
    states=tuple(state.value for state in GroupState),
    new_state=ClassicState,
    areas=(AREA,),
    makes=frozenset({api_keys.JOIN_GROUP}),
    listed=views.listed,
    summary=views.summary,
    explain=explain,
    knows_since=True,
    delete_records=views.delete_records,
    forget=forget,
    validate_commit=validate_commit,
    validate_txn_commit=views.validate_txn_commit,
    validate_fetch=views.validate_fetch,
    subscribed_topics=views.subscribed_topics,
    retention=views.retention,
    is_unused=views.is_unused,
    backup=BACKUP,
    whole_records={GROUP_METADATA: replacement},
    stamp=held.stamp,
    held={api_keys.HEARTBEAT: held.HELD},
    of_member=frozenset({CLASSIC_MEMBER}),
    of_group=frozenset({GROUP_METADATA}),
)
