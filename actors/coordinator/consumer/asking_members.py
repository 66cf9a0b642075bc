"""What a heartbeat decides about assignors of members: which there are (A4), who computes (A11), and what the
member is told of it (A7)."""

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from actors.coordinator.consumer.assignment_jobs import first_target
from actors.coordinator.consumer.client_assignors.choice import (
    Brought,
    asks_anew,
    choice,
    refuse_unsupported,
    validate,
)
from actors.coordinator.consumer.client_assignors.job import (
    Computation,
    begin,
    end,
    fail,
    have_all_failed,
)
from actors.coordinator.consumer.decision import NEW_MEMBER, Decision
from actors.coordinator.consumer.model.state import kept
from actors.coordinator.ground import partitions
from actors.coordinator.told.consumer_events import AssignmentRefused
from actors.coordinator.told.events import CONSUMER
from actors.ground.contract import Record
from actors.ground.features import CLIENT_ASSIGNORS_LEVEL, GROUPD_VERSION
from actors.ground.records import (
    CLIENT_ASSIGNMENT,
    CLIENT_ASSIGNORS,
    ClientAssignorsValue,
    ConsumerMemberKey,
)
from actors.protocol.client_assignor_messages import ClientSide
from actors.protocol.errors import GroupError


def concerns(decision: Decision) -> bool:
    """Whether the group or the request knows assignors of members; of most groups neither does."""
    return bool(decision.body.client_assignors or decision.group.client_assignors)


def update_assignors(decision: Decision) -> None:
    """Take the assignors that the member brings. Who joins without any has none. Raises GroupError: 42,
    112."""
    brought, group = decision.body.client_assignors, decision.group
    before = group.client_assignors.get(decision.replaced_id or decision.member_id, ())
    is_new = decision.body.member_epoch == 0 or decision.classic is not None
    after: Brought = before if brought is None and not is_new else brought or ()
    if brought and after != before:
        _refuse_below_level(decision)
        validate(after)
        refuse_unsupported(after, _others(decision))
    decision.client_assignors_before, decision.client_assignors = before, after
    if after != group.client_assignors.get(decision.member_id, ()):
        key = ConsumerMemberKey(CLIENT_ASSIGNORS, group.group_id, decision.member_id)
        decision.records.append(Record(key, ClientAssignorsValue(after) if after else None))
    carried = group.client_assignments.get(decision.replaced_id or "")
    if carried is not None:
        key = ConsumerMemberKey(CLIENT_ASSIGNMENT, group.group_id, decision.member_id)
        decision.records.append(Record(key, carried))


def _refuse_below_level(decision: Decision) -> None:
    if decision.state.image.features.level(GROUPD_VERSION) < CLIENT_ASSIGNORS_LEVEL:
        raise GroupError(
            ErrorCode.unsupported_assignor,
            f"ClientAssignors need level {CLIENT_ASSIGNORS_LEVEL} of {GROUPD_VERSION}: the tier has not been"
            " upgraded yet.",
        )


def _others(decision: Decision) -> dict[str, Brought]:
    """Return the assignors of the other members that have any."""
    besides = decision.member_id, decision.replaced_id
    return {key: each for key, each in decision.group.client_assignors.items() if key not in besides}


def assignor_before(decision: Decision) -> str | None:
    group = decision.group
    return assignor_of(group.client_assignors, group.size)


def assignor_of(of_members: Mapping[str, Brought], size: int) -> str | None:
    """Return the assignor of a group of `size` members; None: the server's assigns, because not all members
    bring assignors."""
    return choice(list(of_members.values())) if of_members and len(of_members) == size else None


def assignor_after(decision: Decision) -> str | None:
    """Return the assignor that members are to run once the decision stands; None: the server's runs."""
    of_members = _others(decision)
    if not decision.client_assignors:
        return None
    of_members[decision.member_id] = decision.client_assignors
    is_more = decision.stored is None and decision.replaced_id is None
    return assignor_of(of_members, decision.group.size + is_more)


def asks_for_assignment(decision: Decision) -> bool:
    """Whether what the member brings asks for a new assignment (A4)."""
    before, after = decision.client_assignors_before, decision.client_assignors
    if before == after or decision.previous is NEW_MEMBER:
        return False
    name = assignor_after(decision)
    if name != assignor_before(decision):
        return True
    return name is not None and asks_anew(before, after, name)


def ask(decision: Decision) -> bool:
    """Have a member compute the target that is due: the one that is heard now, if nobody is at it. Return
    False if the server's assignor is to run."""
    state, group, group_id = decision.state, decision.group, decision.group.group_id
    name = assignor_after(decision)
    if name is None:
        end(state, group_id)
        return False
    computation = kept(state).computations.setdefault(group_id, Computation())
    asked = computation.member_id
    if asked and (group.member(asked) is None or asked == decision.replaced_id):
        decision.events.append(fail(state, group, "it is no member any more", decision.now_ms))
    if computation.is_too_large or _gives_up(decision, computation):
        decision.events.append(_fallback(decision, computation))
        end(state, group_id)
        return False
    if not computation.member_id and decision.member_id not in computation.tried:
        begin(state, group_id, decision.member_id, name, decision.now_ms)
    first_target(decision)
    return True


def _gives_up(decision: Decision, computation: Computation) -> bool:
    is_asking = bool(computation.member_id)
    if is_asking or not computation.tried or decision.member_id not in computation.tried:
        return False
    return have_all_failed(computation, decision.group)


def _fallback(decision: Decision, computation: Computation) -> AssignmentRefused:
    why = (
        "the group is too large to be handed out"
        if computation.is_too_large
        else "all that were asked failed"
    )
    return AssignmentRefused(
        decision.now_ms,
        decision.group.group_id,
        CONSUMER,
        decision.group_epoch,
        None,
        f"{why}: the server's assignor assigns",
        "A11",
        computation.assignor,
        None,
    )


def told(decision: Decision, is_assignment_told: bool) -> ClientSide | None:
    """Return what the member is told beside Kafka's answer (A7); None: nothing."""
    computation = kept(decision.state).computations.get(decision.group.group_id)
    is_asked = computation is not None and computation.member_id == decision.member_id
    if not is_assignment_told:
        return ClientSide(should_compute=True) if is_asked else None
    target = decision.target or partitions.EMPTY
    pending = partitions.difference(target, decision.current.assigned)
    given = decision.group.client_assignments.get(decision.replaced_id or decision.member_id)
    if given is None:
        return ClientSide(is_asked, pending=pending)
    return ClientSide(is_asked, given.error, pending, given.metadata_version, given.metadata)
