"""A classic group's rebalance: prepare, complete the join phase, and what timers do to it (C10 to C16, C19).

Functions here change the live group at once and collect records, replies and events in an `Outcome`.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.coordinator.classic.cause import Cause
from actors.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
    ClassicMember,
    Step,
)
from actors.coordinator.classic.history import (
    Gone,
    move,
    note_joined,
    tell_began,
    tell_delayed,
    tell_ended,
    tell_gone,
)
from actors.coordinator.classic.outcome import Outcome
from actors.coordinator.classic.state import classic_groups
from actors.coordinator.classic.store import generation_records
from actors.coordinator.ground.batching import (
    ALONE_MS,
    FORMING_MS_MAX,
    NEWCOMERS_MIN,
    PAUSE_MS_MAX,
    longest_ms,
    pause_ms,
)
from actors.coordinator.ground.sparse import NONE, put
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told import rebalances
from actors.coordinator.told.events import CLASSIC, MemberExpired, MemberLeft
from actors.ground.contract import NOTHING, Result, new_tuple
from actors.protocol.messages import NO_ERROR, JoinGroupResponse, SyncGroupResponse


def joined(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """What a member hears of the current generation; the leader also hears of the others (B3)."""
    members = member_list(group) if member.member_id == group.leader else ()
    chosen = group.generation, group.protocol_type, group.protocol_name, group.leader or ""
    response: JoinGroupResponse = new_tuple(
        JoinGroupResponse, (NO_ERROR, *chosen, False, member.member_id, members)
    )
    return response


def member_list(group: ClassicGroup) -> tuple[tuple[str, str | None, bytes], ...]:
    name = group.protocol_name
    return tuple(
        (member.member_id, member.group_instance_id, member.metadata(name))
        for member in group.members.values()
    )


def arm_session(outcome: Outcome, member: ClassicMember) -> None:
    outcome.state.timers.schedule(member.session_key, outcome.now_ms + member.session_timeout_ms)


def rebalance_or_complete(outcome: Outcome, group: ClassicGroup, cause: Cause) -> None:
    """Begin a rebalance, or see whether the one under way has all it waits for."""
    if group.state is PREPARING_REBALANCE:
        maybe_complete_join(outcome, group)
    else:
        prepare_rebalance(outcome, group, cause)


def members_changed(outcome: Outcome, group: ClassicGroup, cause: Cause) -> None:
    """Somebody came or went: rebalance, or, in a storm of such changes, let those who work go on until
    more have come or gone (`batching`). Newcomers have their joins parked meanwhile."""
    if group.state is not STABLE:
        rebalance_or_complete(outcome, group, cause)
        return
    group.changes += 1
    delay_ms = _delay_ms(outcome, group, cause)
    if delay_ms <= 0:
        _rebalance_for_changes(outcome, group, cause)
        return
    timers = outcome.state.timers
    timers.schedule(group.join_key, outcome.now_ms + delay_ms)
    if not group.pending_syncs:
        timers.cancel(group.sync_key)


def _delay_ms(outcome: Outcome, group: ClassicGroup, cause: Cause) -> int:
    """How long the Stable group waits for more changes, from now on. The clients of newcomers wait for their
    rebalance timeout; half of it is left to the join phase."""
    last = group.last_member
    if last is None or not group.has_working_members:
        return 0
    due_ms = outcome.state.timers.deadline_ms(group.join_key)
    if due_ms is not None:
        # All others were looked at when the wait began; who came since is the last.
        return min(due_ms - outcome.now_ms, last.rebalance_timeout_ms // 2)
    shortest_ms = min(member.rebalance_timeout_ms for member in group.members.values())
    bound_ms = min(outcome.state.settings.group_rebalance_batch_max_ms, shortest_ms // 2)
    most_ms = longest_ms(bound_ms, len(group.members))
    delay_ms = group.storm.delay_ms(outcome.now_ms, most_ms, calm_ms=most_ms)
    if delay_ms > 0:
        tell_delayed(outcome, group, cause, delay_ms)
    return delay_ms


def _waited_for(outcome: Outcome, group: ClassicGroup) -> Cause:
    """The cause of a rebalance for changes that waited: the first of them, and how many there are."""
    first = rebalances.of(outcome.state, group.group_id, CLASSIC).delayed
    assert first is not None, group.story(Step.REBALANCE)
    together = f"{group.changes} joins and leaves, taken together"
    what = first.cause if group.changes == 1 else together
    return Cause(what, first.member_id, first.reason, first.rule)


def _rebalance_for_changes(outcome: Outcome, group: ClassicGroup, cause: Cause) -> None:
    group.storm.rebalances += 1
    prepare_rebalance(outcome, group, cause)


def prepare_rebalance(outcome: Outcome, group: ClassicGroup, cause: Cause) -> None:
    timers = outcome.state.timers
    if group.state is COMPLETING_REBALANCE:
        _send_back_syncs(outcome, group)
    group.pending_syncs = NONE
    timers.cancel(group.sync_key)
    initial = group.state is EMPTY
    tell_began(outcome, group, cause)
    move(outcome, group, Step.REBALANCE)
    group.changes = group.newcomers = 0
    delay_ms = outcome.state.settings.group_initial_rebalance_delay_ms if initial else 0
    group.initial_delay_ms = delay_ms
    if delay_ms > 0:
        group.new_member_added = False
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        timers.schedule(group.join_key, outcome.now_ms + delay_ms)
        return
    wait_ms = _first_wait_ms(outcome, group) if initial else group.rebalance_timeout_ms
    if (initial and wait_ms == 0) or not group.members:
        # Nobody is waited for when only pending members are left: the longest rebalance timeout of no member
        # is 0 (C11).
        complete_join(outcome, group)
        return
    group.join_deadline_ms = outcome.now_ms + wait_ms
    timers.schedule(group.join_key, group.join_deadline_ms)
    maybe_complete_join(outcome, group)


def _first_wait_ms(outcome: Outcome, group: ClassicGroup) -> int:
    """How long the first rebalance of a group without an initial delay waits at most for those who join
    together with its first member: who is left behind waits for that member's next heartbeat, seconds later.
    Who comes meanwhile makes it longer (`wait_longer`). (Kafka waits for nobody: C8.)"""
    group.last_newcomer_ms = outcome.now_ms
    return min(PAUSE_MS_MAX, outcome.state.settings.group_rebalance_batch_max_ms, group.rebalance_timeout_ms)


def wait_longer(outcome: Outcome, group: ClassicGroup, timeout_ms: int) -> None:
    """Let the first rebalance of a group wait for more, because somebody has just come, who waits at most for
    `timeout_ms`: as long as more come, those who would be left behind are many."""
    if group.previous_state is not EMPTY or group.initial_delay_ms > 0:
        return
    longest_ms = min(FORMING_MS_MAX, outcome.state.settings.group_rebalance_batch_max_ms, timeout_ms // 2)
    over_ms = min(outcome.now_ms + PAUSE_MS_MAX, group.current_state_timestamp_ms + longest_ms)
    group.join_deadline_ms = max(group.join_deadline_ms, over_ms)


def _send_back_syncs(outcome: Outcome, group: ClassicGroup) -> None:
    """C19: the assignment that was being made is void; whoever waits for it must rejoin."""
    for member in group.members.values():
        member.assignment = b""
        if member.sync_token is not None:
            outcome.answer(
                member.sync_token, SyncGroupResponse(ErrorCode.rebalance_in_progress), group.group_id
            )
            member.sync_token = None
            arm_session(outcome, member)


def maybe_complete_join(outcome: Outcome, group: ClassicGroup) -> None:
    """Complete the join phase if nobody is missing. Never during an initial delay: it runs to the end, so
    that a group that starts up needs one rebalance (C10)."""
    if group.state is not PREPARING_REBALANCE or group.initial_delay_ms > 0 or not group.all_joined:
        return
    over_ms = min(_newcomers_over_ms(outcome, group), group.join_deadline_ms)
    if over_ms > outcome.now_ms:
        outcome.state.timers.schedule(group.join_key, over_ms)
    else:
        complete_join(outcome, group)


def _newcomers_over_ms(outcome: Outcome, group: ClassicGroup) -> int:
    """When a join phase that misses nobody may be completed: when the flow of newcomers has dried up."""
    during_ms = group.last_newcomer_ms - group.current_state_timestamp_ms
    pause = pause_ms(group.newcomers, during_ms)
    if group.previous_state is EMPTY:
        pause = max(pause, ALONE_MS)
        if group.newcomers < NEWCOMERS_MIN:
            pause = max(pause, group.slowest_return_ms)
    return group.last_newcomer_ms + min(pause, outcome.state.settings.group_rebalance_batch_max_ms)


def complete_join(outcome: Outcome, group: ClassicGroup) -> None:
    """C13: go on with those who rejoined, and with static members, who may be restarting."""
    timers = outcome.state.timers
    timers.cancel(group.join_key)
    missing = [
        member
        for member in group.members.values()
        if member.join_token is None and member.group_instance_id is None
    ]
    cause = Cause("did not rejoin in time", rule="C13")
    for member in missing:
        _remove_late(outcome, group, member, cause)
    if not group.elect_joined_leader() and group.members:
        # Only absent static members: their session timers decide. Their rebalance timeout may be 0, and time
        # has to pass before they are looked for again.
        group.join_deadline_ms = outcome.now_ms + group.rebalance_timeout_ms
        timers.schedule_late(group.join_key, group.join_deadline_ms)
        return
    group.generation += 1
    group.slowest_return_ms = 0
    group.pending_syncs = NONE
    if group.members:
        _begin_sync_phase(outcome, group)
        return
    group.protocol_name = None
    move(outcome, group, Step.NOBODY_JOINED)
    group.learn_subscribed_topics()
    end_rebalance(outcome, group)


def _begin_sync_phase(outcome: Outcome, group: ClassicGroup) -> None:
    group.protocol_name = group.select_protocol()
    move(outcome, group, Step.MEMBERS_JOINED)
    note_joined(outcome, group)
    group.learn_subscribed_topics()
    for member in group.members.values():
        outcome.answer(group.take_join(member), joined(group, member), group.group_id)
        member.is_new = False
        arm_session(outcome, member)
        group.pending_syncs = put(group.pending_syncs, member.member_id, True)
    outcome.state.timers.schedule(group.sync_key, outcome.now_ms + group.rebalance_timeout_ms)


def end_rebalance(outcome: Outcome, group: ClassicGroup) -> None:
    """End the rebalance: the group is Stable or Empty, and this generation is stored."""
    group.storm.ended_ms = outcome.now_ms
    outcome.records += generation_records(outcome.state, group)
    tell_ended(outcome, group)


def _remove_late(outcome: Outcome, group: ClassicGroup, member: ClassicMember, cause: Cause) -> None:
    """Remove a member that was waited for in vain."""
    rebalances.of(outcome.state, group.group_id, CLASSIC).late[member.member_id] = None
    remove_member(outcome, group, member, cause, MemberExpired)


def remove_member(
    outcome: Outcome, group: ClassicGroup, member: ClassicMember, cause: Cause, gone: type[Gone] = MemberLeft
) -> None:
    """Take a member out, without a rebalance: the caller begins one for all it removes.

    Its parked requests get UNKNOWN_MEMBER_ID, a join with member id "" (C23), so that a client
    that is still there starts over. (Kafka leaves a parked sync unanswered.)
    """
    group_id = group.group_id
    unknown = ErrorCode.unknown_member_id
    outcome.answer(group.take_join(member), JoinGroupResponse(unknown), group_id)
    outcome.answer(member.sync_token, SyncGroupResponse(unknown), group_id)
    member.sync_token = None
    outcome.state.timers.cancel(member.session_key)
    group.remove(member)
    rebalance = rebalances.of(outcome.state, group_id, CLASSIC)
    rebalance.gone = member.member_id, member.client_id, member.client_host
    if member.assignment:
        rebalance.before.setdefault(member.member_id, member.assignment)
    tell_gone(outcome, group, gone, cause._replace(member_id=member.member_id), member)


def drop_pending(
    outcome: Outcome, group: ClassicGroup, member_id: str, cause: Cause, gone: type[Gone] = MemberLeft
) -> None:
    """Forget a member id that was handed out and not used."""
    outcome.state.timers.cancel(group.pending_joins[member_id])
    group.pending_joins = put(group.pending_joins, member_id, None)
    tell_gone(outcome, group, gone, cause._replace(member_id=member_id))


def forget(state: ShardState, group_id: str) -> None:
    """Drop the live group and its timers, once its tombstones are on their way. Nothing may be parked."""
    group = classic_groups(state).pop(group_id, None)
    if group is None:
        return
    rebalances.drop(state, group_id, CLASSIC)
    assert not group.parked_joins, group.story(Step.DELETED)
    for key in (group.join_key, group.sync_key, *group.pending_joins.values()):
        state.timers.cancel(key)
    for member in group.members.values():
        assert member.sync_token is None, group.story(Step.DELETED)
        state.timers.cancel(member.session_key)
    group.move(Step.DELETED, group.current_state_timestamp_ms)


# Timers.


def on_join_timer(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Complete a join phase that has lasted long enough; the initial one is extended for newcomers (C10). Or
    rebalance a Stable group that has waited long enough for more joins and leaves."""
    group = classic_groups(state).get(str(key[1]))
    if group is None or group.state not in (PREPARING_REBALANCE, STABLE):
        return NOTHING
    outcome = Outcome(state, now_ms)
    if group.state is STABLE:
        _rebalance_for_changes(outcome, group, _waited_for(outcome, group))
        return outcome.result()
    initial = group.initial_delay_ms > 0
    if initial and group.new_member_added and group.initial_remaining_ms > 0:
        elapsed_ms = group.initial_delay_ms
        group.new_member_added = False
        group.initial_delay_ms = min(
            state.settings.group_initial_rebalance_delay_ms, group.initial_remaining_ms
        )
        group.initial_remaining_ms = max(group.initial_remaining_ms - elapsed_ms, 0)
        state.timers.schedule(group.join_key, now_ms + group.initial_delay_ms)
    elif initial or now_ms >= group.join_deadline_ms:
        complete_join(outcome, group)
    else:
        # It waited for newcomers; one of them may still be on its way with the member id it was given.
        state.timers.schedule(group.join_key, group.join_deadline_ms)
        maybe_complete_join(outcome, group)
    return outcome.result()


def on_sync_timer(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """C16: who has not synced by now is out, static members included, even if the group is Stable."""
    group = classic_groups(state).get(str(key[1]))
    if group is None or group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_syncs:
        return NOTHING
    outcome = Outcome(state, now_ms)
    cause = Cause("did not sync in time", rule="C16")
    late = list(group.pending_syncs)
    for member_id in late:
        _remove_late(outcome, group, group.members[member_id], cause)
    only = late[0] if len(late) == 1 else None
    prepare_rebalance(outcome, group, Cause("members did not sync in time", only, rule="C16"))
    return outcome.result()


def on_session_timer(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Remove a member that was not heard of, or a member id that nobody came back with (C8, C12)."""
    group = classic_groups(state).get(str(key[1]))
    if group is None:
        return NOTHING
    member_id = str(key[2])
    outcome = Outcome(state, now_ms)
    if member_id in group.pending_joins:
        cause = Cause("did not use its member id in time", rule="C8")
        drop_pending(outcome, group, member_id, cause, MemberExpired)
        maybe_complete_join(outcome, group)
        return outcome.result()
    member = group.members.get(member_id)
    if member is None or member.is_waited_for():
        return NOTHING
    what = "waited too long for its first generation" if member.is_new else "session timed out"
    remove_member(outcome, group, member, Cause(what, rule="C12"), MemberExpired)
    members_changed(outcome, group, Cause("member: " + what, member_id, rule="C12"))
    return outcome.result()
