"""A third kind of group, made outside the product: a roster that members sign and whose signatures expire.

Nothing is assigned. A member that is on a roster may commit offsets in its name; it leaves by LeaveGroup, as
a member of a classic group does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.coordinator.ground.area import Area
from actors.coordinator.ground.explanation import Explanation, Waited
from actors.coordinator.ground.held import Stamp
from actors.coordinator.ground.kind import Backup, Kind, Retention, hand_on
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import NOTHING, Key, Record, Reply, Request, Result, Value
from actors.protocol import api_keys
from actors.protocol.errors import GroupError
from actors.protocol.messages import (
    NO_ERROR,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    ListedGroup,
)
from tests.coordinator.toy_kind.wire import (
    DESCRIBE_ROSTER,
    SIGN_ROSTER,
    DescribeRosterRequest,
    DescribeRosterResponse,
    SignRosterRequest,
    SignRosterResponse,
)

NAME = "roster"
ROSTER = 900
"""The kind of the record that says that there is a roster."""
SIGNATURE = 901
TIMER = "roster-signature"


class RosterKey(NamedTuple):
    kind: int
    group_id: str


class RosterValue(NamedTuple):
    opened_ms: int


class SignatureKey(NamedTuple):
    kind: int
    group_id: str
    name: str


class SignatureValue(NamedTuple):
    session_ms: int


RECORD_TYPES = {ROSTER: (RosterKey, RosterValue), SIGNATURE: (SignatureKey, SignatureValue)}


class Roster:
    """One roster, which is replicated as a whole."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.value: RosterValue | None = None
        self.signatures: dict[str, SignatureValue] = {}

    @property
    def state_name(self) -> str:
        return "Signed" if self.signatures else "Empty"

    @property
    def size(self) -> int:
        return len(self.signatures)


class RosterState:
    """All rosters of a shard."""

    def __init__(self) -> None:
        self.groups: dict[str, Roster] = {}

    def count(self) -> int:
        return len(self.groups) + sum(roster.size for roster in self.groups.values())

    def owns(self, group_id: str) -> bool:
        return False

    def drop_volatile(self) -> None:
        """A roster has no volatile state."""

    def drop_volatile_of(self, group_id: str) -> None:
        """A roster has no volatile state."""


def rosters(state: ShardState) -> dict[str, Roster]:
    kept: RosterState = state.of[NAME]
    return kept.groups


# Requests.


def sign(state: ShardState, request: Request, now_ms: int) -> Result:
    body: SignRosterRequest = request.body
    roster = rosters(state).get(body.group_id)
    records = []
    if roster is None:
        hand_on(state, body.group_id, GroupError(ErrorCode.group_id_not_found, "It is no roster."))
        records.append(Record(RosterKey(ROSTER, body.group_id), RosterValue(now_ms)))
    value = SignatureValue(body.session_ms)
    known = {} if roster is None else roster.signatures
    if known.get(body.name) != value:
        records.append(Record(SignatureKey(SIGNATURE, body.group_id, body.name), value))
    state.timers.schedule((TIMER, body.group_id, body.name), now_ms + body.session_ms)
    answer = SignRosterResponse(NO_ERROR, len(known) + (body.name not in known))
    return Result(records, (Reply(request.token, answer, body.group_id),))


def describe(state: ShardState, request: Request, now_ms: int) -> Result:
    body: DescribeRosterRequest = request.body
    roster = rosters(state).get(body.group_id)
    if roster is None:
        raise GroupError(ErrorCode.group_id_not_found)
    answer = DescribeRosterResponse(NO_ERROR, tuple(roster.signatures))
    return Result((), (Reply(request.token, answer, body.group_id),))


def leave(state: ShardState, request: Request, now_ms: int) -> Result:
    body: LeaveGroupRequest = request.body
    roster = rosters(state)[body.group_id]
    gone = [each for each in body.members if each.member_id in roster.signatures]
    records = [_tombstone(body.group_id, each.member_id) for each in gone]
    for each in gone:
        state.timers.cancel((TIMER, body.group_id, each.member_id))
    left = tuple(_left(each, each in gone) for each in body.members)
    return Result(records, (Reply(request.token, LeaveGroupResponse(NO_ERROR, left), body.group_id),))


def _left(leaving: LeavingMember, is_gone: bool) -> LeftMember:
    error = NO_ERROR if is_gone else ErrorCode.unknown_member_id
    return LeftMember(leaving.member_id, leaving.group_instance_id, error)


def _refused_sign(request: Request, error: ErrorCode, message: str | None) -> SignRosterResponse:
    return SignRosterResponse(error)


def _refused_describe(request: Request, error: ErrorCode, message: str | None) -> DescribeRosterResponse:
    return DescribeRosterResponse(error)


# Records and timers.


def _tombstone(group_id: str, name: str) -> Record:
    return Record(SignatureKey(SIGNATURE, group_id, name), None)


def _apply(state: ShardState, key: Key, value: Value | None) -> Value | None:
    groups = rosters(state)
    roster = groups.get(key[1])
    if roster is None:
        if value is None:
            return None
        roster = groups[key[1]] = Roster(key[1])
    replaced: Value | None
    if key[0] == ROSTER:
        replaced, roster.value = roster.value, None if value is None else RosterValue(*value)
    else:
        replaced = roster.signatures.pop(key[2], None)
        if value is not None:
            roster.signatures[key[2]] = SignatureValue(*value)
    if roster.value is None and not roster.signatures:
        del groups[key[1]]
    return replaced


def _records(state: ShardState) -> Iterator[Record]:
    for roster in list(rosters(state).values()):
        if roster.value is not None:
            yield Record(RosterKey(ROSTER, roster.group_id), roster.value)
        for name, value in list(roster.signatures.items()):
            yield Record(SignatureKey(SIGNATURE, roster.group_id, name), value)


def _run_out(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    roster = rosters(state).get(str(key[1]))
    if roster is None or key[2] not in roster.signatures:
        return NOTHING
    return Result([_tombstone(str(key[1]), str(key[2]))])


def _on_elected(state: ShardState, now_ms: int) -> Result:
    for roster in rosters(state).values():
        for name, value in roster.signatures.items():
            state.timers.schedule((TIMER, roster.group_id, name), now_ms + value.session_ms)
    return NOTHING


# What the rest of the coordinator asks of a group.


def _listed(state: ShardState, group_id: str) -> ListedGroup:
    return ListedGroup(group_id, "", rosters(state)[group_id].state_name, NAME)


def _summary(state: ShardState, group_id: str) -> dict[str, Any]:
    roster = rosters(state)[group_id]
    return {"state": roster.state_name, "members": roster.size}


def _explain(state: ShardState, group_id: str, now_ms: int) -> Explanation:
    roster = rosters(state)[group_id]
    waited = tuple(
        Waited(name, None, None, None, "signed again", state.timers.deadline_ms((TIMER, group_id, name)))
        for name in roster.signatures
    )
    says = "its members sign again before their signatures run out"
    return Explanation(group_id, NAME, roster.state_name, 0, None, roster.size, says, waited_for=waited)


def _delete_records(state: ShardState, group_id: str) -> list[Record]:
    if rosters(state)[group_id].size:
        raise GroupError(ErrorCode.non_empty_group)
    return [Record(RosterKey(ROSTER, group_id), None)]


def _forget(state: ShardState, group_id: str) -> None:
    """Nothing has to be forgotten: an empty roster has no timer."""


def _validate_commit(state: ShardState, request: Request, now_ms: int) -> None:
    body = request.body
    roster = rosters(state)[body.group_id]
    if (roster.size or body.member_id) and body.member_id not in roster.signatures:
        raise GroupError(ErrorCode.unknown_member_id)


def _validate_fetch(state: ShardState, group_id: str, member_id: str | None, member_epoch: int) -> None:
    if member_id and member_id not in rosters(state)[group_id].signatures:
        raise GroupError(ErrorCode.unknown_member_id)


def _subscribed_topics(state: ShardState, group_id: str) -> Collection[str] | None:
    """Return None, which stands for all topics, while there are members: a roster does not know theirs."""
    return None if rosters(state)[group_id].size else ()


def _retention(state: ShardState, group_id: str) -> Retention | None:
    return None if rosters(state)[group_id].size else Retention(None, ())


def _is_unused(state: ShardState, group_id: str) -> bool:
    return rosters(state)[group_id].size == 0


def _stamp(state: ShardState, group_id: str, now_ms: int) -> Stamp:
    return Stamp((rosters(state)[group_id].size,), False)


def _emptied(record: Record, now_ms: int) -> Record:
    return Record(record.key, RosterValue(now_ms))


def _present(state: ShardState, key: Key) -> Value | None:
    roster = rosters(state).get(key[1])
    return None if roster is None else roster.value


def _is_in_use(state: ShardState, group_id: str) -> bool:
    return rosters(state)[group_id].size > 0


def _revive(state: ShardState, record: Record, now_ms: int) -> None:
    """Nothing has to be done but to apply the record."""


KIND = Kind(
    name=NAME,
    states=("Empty", "Signed"),
    new_state=RosterState,
    areas=(
        Area(
            handlers={SIGN_ROSTER: sign, DESCRIBE_ROSTER: describe, api_keys.LEAVE_GROUP: leave},
            refusals={SIGN_ROSTER: _refused_sign, DESCRIBE_ROSTER: _refused_describe},
            appliers={ROSTER: _apply, SIGNATURE: _apply},
            timers={TIMER: _run_out},
            records=_records,
            on_elected=_on_elected,
        ),
    ),
    makes=frozenset({SIGN_ROSTER}),
    listed=_listed,
    summary=_summary,
    explain=_explain,
    delete_records=_delete_records,
    forget=_forget,
    validate_commit=_validate_commit,
    validate_txn_commit=_validate_commit,
    validate_fetch=_validate_fetch,
    subscribed_topics=_subscribed_topics,
    retention=_retention,
    is_unused=_is_unused,
    backup=Backup(
        record_types={ROSTER: (RosterKey, RosterValue)},
        emptied=_emptied,
        present=_present,
        is_in_use=_is_in_use,
        revive=_revive,
    ),
    stamp=_stamp,
    of_member=frozenset({SIGNATURE}),
    of_group=frozenset({ROSTER}),
)
