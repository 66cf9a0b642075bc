"""The area of consumer groups (KIP-848): requests, records and timers.

Reading order: `model` (the group as replicated, and what follows from it), `heartbeat` (what a member's
request decides), `target` and `leave`; `migration` turns groups into classic ones and back, and
`classic_members` serves members that still speak the classic protocol. `kind` is what the rest of the
coordinator sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from actors.coordinator.consumer.forming import FORMING_TIMER
from actors.coordinator.consumer.heartbeat import heartbeat, on_formed
from actors.coordinator.consumer.history import found_under_way
from actors.coordinator.consumer.leave import rebalance_over, session_over
from actors.coordinator.consumer.migration.repair import is_consumer_group
from actors.coordinator.consumer.model import apply as consumer_apply
from actors.coordinator.consumer.model import group_settings
from actors.coordinator.consumer.model.group import REGEX_TIMER, ConsumerGroup
from actors.coordinator.consumer.model.member import (
    REBALANCE_TIMER,
    SESSION_TIMER,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    rebalance_key,
    session_key,
)
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.consumer.regexes import (
    note_new_topics,
    resolve,
)
from actors.coordinator.consumer.views import (
    describe_groups,
)
from actors.coordinator.ground.area import Area
from actors.coordinator.ground.slices import begun, group_members, sliced
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import NOTHING, Result
from actors.protocol import api_keys

_AT_REST = frozenset({"Empty", "Stable"})


def _on_elected(state: ShardState, now_ms: int) -> Result:
    """M26: session timers for all, rebalance timers for those that have to revoke. Topic metadata is
    checked at each group's first heartbeat (A21)."""
    return begun(_armed(state, now_ms), group_members(state))


def _armed(state: ShardState, now_ms: int) -> Iterator[Result]:
    members = (
        (group, member_id, member)
        for group_id, group in consumer_groups(state).items()
        if is_consumer_group(state, group_id)
        for member_id, member in group.members.items()
    )
    for some in sliced(members):
        for group, member_id, member in some:
            _arm(state, group, member_id, member, now_ms)
        yield NOTHING
    under_way = (group for group in consumer_groups(state).values() if group.state_name not in _AT_REST)
    for groups in sliced(under_way):
        yield Result(events=list(chain(*(found_under_way(state, group, now_ms) for group in groups))))


def _arm(
    state: ShardState, group: ConsumerGroup, member_id: str, member: ConsumerMember, now_ms: int
) -> None:
    terms, standing = member.terms, member.standing
    if terms is None:
        return
    classic = terms.classic
    timeout_ms = classic[0] if classic else group_settings.of(state, group.group_id).session_timeout_ms
    state.timers.schedule(session_key(group.group_id, member_id), now_ms + timeout_ms)
    if classic is None and standing is not None and standing.state == UNREVOKED_PARTITIONS:
        group.start_revoking(member_id, standing.member_epoch)
        key = rebalance_key(group.group_id, member_id)
        state.timers.schedule(key, now_ms + terms.rebalance_timeout_ms)


AREA = Area(
    handlers={
        api_keys.CONSUMER_GROUP_HEARTBEAT: heartbeat,
        api_keys.CONSUMER_GROUP_DESCRIBE: describe_groups,
    },
    appliers=consumer_apply.APPLIERS,
    timers={
        SESSION_TIMER: session_over,
        REBALANCE_TIMER: rebalance_over,
        REGEX_TIMER: resolve,
        FORMING_TIMER: on_formed,
    },
    records=consumer_apply.records,
    on_elected=_on_elected,
    on_metadata=note_new_topics,
)
