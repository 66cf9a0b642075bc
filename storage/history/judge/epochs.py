"""Rule 4: generations and epochs never go back; whoever was fenced stays fenced."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from storage.history.calls import CONSUMER, Call, History
from storage.history.judge.findings import FENCED, Findings, Limits, Violation, has_members, story
from storage.history.judge.loading import Loading

_AS_A_MEMBER = frozenset({"Heartbeat", "SyncGroup", "OffsetCommit", "ConsumerGroupHeartbeat"})


class _Look(NamedTuple):
    """A call that shows the epoch that a group or a member had reached."""

    call: Call
    epoch: int
    is_confirmed: bool
    """Whether the answer only says that the epoch is the present one, and tells no new one."""
    is_promise: bool
    """Whether nothing less may be shown from now on. A classic generation promises nothing before a
    SyncGroup was answered: a coordinator may be lost with a rebalance that nobody has seen the end of, and
    begin it anew."""


def judge_epochs(history: History, limits: Limits) -> Findings:
    """Judge every call that tells or confirms a generation or an epoch."""
    loading = Loading(history.faults, limits.loading_grace_ms * 1_000)
    looks = _looks(history.calls, loading)
    violations = [violation for of_key in looks.values() for violation in _going_back(of_key)]
    violations += _unfenced(history.calls, loading)
    judged = {
        "epochs": sum(len(of_key) for of_key in looks.values()),
        "fenced": sum(_fences(call) for call in history.calls),
    }
    return Findings(
        violations,
        judged,
        seen=f"{judged['epochs']:,} generations and epochs told or confirmed, {judged['fenced']:,} fencings",
        unseen="" if judged["epochs"] else "no member was told a generation or an epoch",
        is_required=has_members(history.calls),
    )


def _looks(calls: Sequence[Call], loading: Loading) -> dict[Hashable, list[_Look]]:
    looks: dict[Hashable, list[_Look]] = defaultdict(list)
    lives: dict[str, int] = defaultdict(int)
    """How often each group was deleted, after which its generations begin anew."""
    for call in calls:
        group_id = call.group_id
        if call.api == "DeleteGroups" and (not call.is_answered or call.is_fine):
            lives[group_id] += 1
        if not call.is_fine:
            continue
        match call.api:
            case "JoinGroup":
                looks[group_id, lives[group_id]].append(_Look(call, call.told_epoch, False, False))
            case "SyncGroup":
                looks[group_id, lives[group_id]].append(_Look(call, call.epoch, True, True))
            case "Heartbeat" if not loading.may_be(call):
                looks[group_id, lives[group_id]].append(_Look(call, call.epoch, True, False))
            case "ConsumerGroupHeartbeat" if call.told_epoch > 0:
                looks[group_id, lives[group_id], call.member_id].append(
                    _Look(call, call.told_epoch, False, True)
                )
    return looks


def _going_back(looks: list[_Look]) -> Iterator[Violation]:
    """A call that began after another had ended must not show less than that."""
    ended: list[tuple[int, int, int]] = []
    floor, shown = -1, -1
    looks = sorted(looks, key=lambda look: look.call.sent_us)
    for number, look in enumerate(looks):
        while ended and ended[0][0] < look.call.sent_us:
            _, epoch, place = heapq.heappop(ended)
            if epoch > floor:
                floor, shown = epoch, place
        if look.epoch < floor:
            what = "an old one confirmed" if look.is_confirmed else "went back"
            before = looks[shown].call
            noun = "epoch" if look.call.protocol == CONSUMER else "generation"
            yield Violation(
                f"{noun} {what}",
                look.call.group_id,
                f"{look.epoch} after {floor}: {story(look.call)}; before: {story(before)}",
            )
        if look.is_promise:
            heapq.heappush(ended, (look.call.ended_us, look.epoch, number))


def _member(call: Call) -> tuple[str, str]:
    return call.group_id, call.member_id


def _fences(call: Call) -> bool:
    return bool(
        call.is_answered and call.error_code in FENCED and call.api in _AS_A_MEMBER and call.member_id
    )


def _rejoins(call: Call) -> bool:
    """A KIP-848 member comes back under its id, and may be given the epoch again at which it was fenced."""
    return call.protocol == CONSUMER and call.epoch == 0


def _unfenced(calls: Sequence[Call], loading: Loading) -> Iterator[Violation]:
    """Calls of fenced members that were served: of a classic one for good, of a KIP-848 one at the epoch at
    which it was fenced, until it joins again.

    A classic group that is taken over is as it was when it was last stable (C26). So a member that was
    missed since then is one again, at the generation that it had, and nobody else has its partitions."""
    answers = sorted((call for call in calls if _fences(call)), key=lambda call: call.ended_us)
    fenced: dict[tuple[str, str], Call] = {}
    heard = 0
    for call in calls:
        while heard < len(answers) and answers[heard].ended_us < call.sent_us:
            fenced.setdefault(_member(answers[heard]), answers[heard])
            heard += 1
        if _rejoins(call):
            fenced.pop(_member(call), None)
        first = fenced.get(_member(call))
        if first is not None and _is_served(call, first, loading):
            yield Violation("a fenced member served", call.group_id, f"{story(call)}; before: {story(first)}")


def _is_served(call: Call, first: Call, loading: Loading) -> bool:
    if not call.is_fine or call.api not in _AS_A_MEMBER or call.epoch <= 0:
        return False
    if call.protocol == CONSUMER:
        return call.epoch == first.epoch
    if call.group_instance_id != first.group_instance_id:
        return False
    if first.error_code == ErrorCode.unknown_member_id and call.epoch == first.epoch:
        return not loading.may_have_begun(first.ended_us, call.sent_us)
    return not (call.api == "Heartbeat" and loading.may_be(call))
