"""Push groups (the D rows) as a kind of group: a coordinator that talks to its consumers.

Reading order: `group` (the live group, its table of transitions), `rebalance` (stop, wait, start, wait), then
what comes in: `register`, `answers`, `leave`. `sending` has what goes out, `ownership` the division of
partitions, `committed` the offsets that answers bring; `store` keeps what survives a failover, `area` what
concerns all groups of a shard.

Few replicas ever have such a group, and each pays for what it imports: all of these are loaded when the first
of their functions is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from actors.coordinator.ground.area import Area
from actors.coordinator.ground.kind import Backup, Kind
from actors.coordinator.ground.state import ShardState
from actors.coordinator.push.state import PUSH, PushGroups, kept
from actors.ground.contract import NOTHING, Record, Result
from actors.ground.image import MetadataImage
from actors.ground.records import PUSH_CONSUMER, PUSH_GROUP, PUSH_OWNERSHIP, RECORD_TYPES
from actors.protocol import api_keys

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
"""The values of `group.PushState`."""
TIMERS = {
    "push-ping": "on_ping_timer",
    "push-watch": "on_watch_timer",
    "push-fail": "on_fail_timer",
}
"""The timers of consumers, as `group` names them, and who of `answers` carries them out."""


def _late(module: str, name: str) -> Any:
    """Return what calls a function of this folder, and loads it before the first call."""

    def call(*given: Any) -> Any:
        return getattr(import_module(f"{__package__}.{module}"), name)(*given)

    return call


def _records(state: ShardState) -> Iterator[Record]:
    found: Iterator[Record] = _late("store", "all_records")(state) if kept(state).stored else iter(())
    return found


def _on_elected(state: ShardState, now_ms: int) -> Result:
    result: Result = _late("area", "on_elected")(state, now_ms) if kept(state).stored else NOTHING
    return result


def _on_metadata(state: ShardState, before: MetadataImage, now_ms: int) -> None:
    if kept(state).groups:
        _late("area", "on_metadata")(state, before, now_ms)


AREA = Area(
    handlers={
        api_keys.REGISTER_CONSUMER: _late("register", "register_consumer"),
        **dict.fromkeys(api_keys.PUSHED, _late("answers", "answered")),
        api_keys.LEAVE_GROUP: _late("leave", "leave_group"),
        api_keys.CHANNEL_CLOSED: _late("answers", "channel_closed"),
    },
    refusals=dict.fromkeys((*api_keys.PUSHED, api_keys.CHANNEL_CLOSED), _late("inside", "refused")),
    appliers=dict.fromkeys((PUSH_GROUP, PUSH_CONSUMER, PUSH_OWNERSHIP), _late("store", "apply")),
    timers={
        **{timer: _late("answers", name) for timer, name in TIMERS.items()},
        "push-rebalance": _late("rebalance", "on_rebalance_timer"),
    },
    records=_records,
    on_elected=_on_elected,
    on_metadata=_on_metadata,
)
KIND = Kind(
    name=PUSH,
    states=STATES,
    new_state=PushGroups,
    areas=(AREA,),
    makes=frozenset({api_keys.REGISTER_CONSUMER}),
    listed=_late("views", "listed"),
    summary=_late("views", "summary"),
    explain=_late("explain", "explain"),
    described=_late("views", "described"),
    listed_as=frozenset({"classic"}),
    knows_since=True,
    delete_records=_late("views", "delete_records"),
    forget=_late("views", "forget"),
    validate_commit=_late("views", "validate_commit"),
    validate_txn_commit=_late("views", "validate_txn_commit"),
    validate_fetch=_late("views", "validate_fetch"),
    subscribed_topics=_late("views", "subscribed_topics"),
    retention=_late("views", "retention"),
    is_unused=_late("views", "is_unused"),
    backup=Backup(
        record_types={PUSH_GROUP: RECORD_TYPES[PUSH_GROUP]},
        emptied=_late("backup", "emptied"),
        present=_late("backup", "present"),
        is_in_use=_late("backup", "is_in_use"),
        revive=_late("backup", "revive"),
    ),
    stamp=_late("views", "stamp"),
    of_member=frozenset({PUSH_CONSUMER, PUSH_OWNERSHIP}),
    of_group=frozenset({PUSH_GROUP}),
)
"""Kafka's tools list classic groups and describe them by DescribeGroups, where push groups are shown: so they
are listed for those who ask for classic ones."""
