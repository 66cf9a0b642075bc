"""What groups go through, as rows: their forming, and two rebalances for each restart of a member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.history.generator.lives import SLOW_SLOT, Int64s, Restarts, is_slow, lives_before
from storage.history.generator.rows import CAUSE, KIND, NULL, Column, Rows, concatenated, rows
from storage.history.generator.spec import Spec

FORMED_MS: Final = 1_500
"""How long a group takes to form, at the history's beginning."""


class World(NamedTuple):
    """A made-up world: the spec, the restarts, and which consumer is which member."""

    spec: Spec
    restarts: Restarts
    first_member: Int64s
    """Number of a consumer's first life, by consumer (group * members + slot); the later ones follow."""

    @property
    def members(self) -> int:
        """Lives of all consumers."""
        return self.spec.groups * self.spec.members + self.restarts.group.size

    def member(self, group: Int64s, slot: Int64s, life: Int64s) -> Int64s:
        found: Int64s = self.first_member[group * self.spec.members + slot] + life
        return found

    def alive(self, group: Int64s, slot: Int64s, at_ms: Int64s) -> Int64s:
        """The member that a consumer was just before."""
        return self.member(group, slot, lives_before(self.spec, self.restarts, group, slot, at_ms))


class Rebalances(NamedTuple):
    """One rebalance for each restart: its time, and the two members between whom its partitions move."""

    began_ms: Int64s
    took_ms: Int64s
    from_member: Int64s
    """The member's number; NULL where no owner is named."""
    to_member: Int64s


def world(spec: Spec, all_: Restarts) -> World:
    consumers = spec.groups * spec.members
    lives = 1 + np.bincount(all_.group * spec.members + all_.slot, minlength=consumers)
    return World(spec, all_, np.cumsum(lives) - lives)


def forming(of: World) -> Rows:
    """Everybody joins, and one rebalance gives them all they have."""
    spec = of.spec
    group, slot = (each.ravel() for each in np.indices((spec.groups, spec.members)))
    member = of.member(group, slot, np.zeros_like(group))
    kind = group % 2
    joins = {"member_id": member, "client": group * spec.members + slot, "group_type": kind, "order": 0}
    joined = rows(
        group.size,
        {"at_ms": slot, "kind": KIND["member_joined"], "group_id": group, "members": slot + 1, **joins},
    )
    began = joined.columns | {"kind": np.full(group.size, KIND["rebalance_began"]), "members": slot * 0 + 1}
    first = slot == 0
    cause = {"cause": np.full(spec.groups, CAUSE["member joined"]), "order": np.ones(spec.groups, np.int64)}
    began = {name: each[first] for name, each in began.items()} | cause
    groups = np.arange(spec.groups)
    partitions = spec.members * spec.partitions_each
    at, number = (each.ravel() for each in np.indices((spec.groups, partitions)))
    moves = {
        "row": at,
        "topic": at,
        "partition": number,
        "from_member": np.full(at.size, NULL),
        "to_member": of.member(at, number % spec.members, np.zeros_like(at)),
    }
    ended = rows(
        spec.groups,
        {
            "at_ms": FORMED_MS,
            "kind": KIND["rebalance_ended"],
            "group_id": groups,
            "order": 0,
            "group_type": groups % 2,
            "group_epoch": 1,
            "cause": CAUSE["member joined"],
            "duration_ms": FORMED_MS,
            "members": spec.members,
            "partitions": partitions,
            "moved": partitions,
            "assignor": groups % 2,
            "state": 0,
        },
        moves,
    )
    return concatenated([joined, Rows(began, joined.moves), ended])


def restarting(of: World) -> Rows:
    """Each restart's rows: left, rebalance began, assigned, ended; joined, began, assigned, ended."""
    spec, all_ = of.spec, of.restarts
    neighbour_slot = (all_.slot + 1) % spec.members
    neighbour = of.alive(all_.group, neighbour_slot, all_.left_ms)
    old = of.member(all_.group, all_.slot, all_.life)
    left_cause, going = _going(spec, all_)
    common = {"group_id": all_.group, "group_type": all_.group % 2}
    client = {"client": all_.group * spec.members + all_.slot}
    # The member is gone: a consumer group does not name it as the one it took a partition from.
    owner = np.where(all_.group % 2 == 1, NULL, old)
    first = _rebalanced(
        of,
        Rebalances(all_.left_ms, all_.first_ms, owner, neighbour),
        {**common, "cause": left_cause, "rule": left_cause, "group_epoch": 2 * all_.number + 1},
        {**client, **going, "member_id": old, "members": spec.members - 1},
    )
    joined = np.full(old.size, CAUSE["member joined"])
    second = _rebalanced(
        of,
        Rebalances(all_.back_ms, all_.second_ms, neighbour, old + 1),
        {**common, "cause": joined, "rule": joined, "group_epoch": 2 * all_.number + 2},
        {**client, "kind": KIND["member_joined"], "member_id": old + 1, "members": spec.members},
    )
    return concatenated([first, second])


def _going(spec: Spec, all_: Restarts) -> tuple[Int64s, dict[str, Column]]:
    """Causes, and how they show in the row of the member that goes."""
    random = np.random.default_rng([spec.seed, 2])
    is_classic = all_.group % 2 == 0
    silent = np.where(is_classic, CAUSE["session timed out"], CAUSE["session timeout"])
    late = np.where(is_classic, CAUSE["did not rejoin in time"], CAUSE["rebalance timeout"])
    is_late = all_.planted == 1
    is_left = (random.random(all_.group.size) < 0.7) & ~is_late
    cause = np.where(is_late, late, np.where(is_left, CAUSE["member left"], silent))
    kind = np.where(is_left, KIND["member_left"], KIND["member_expired"])
    timeout = np.where(is_late, 300_000, 45_000)
    return cause, {
        "kind": kind,
        "reason": np.where(is_left, 0, NULL),
        "duration_ms": np.where(is_left, NULL, timeout),
    }


def _rebalanced(
    of: World, rebalances: Rebalances, common: Mapping[str, Any], trigger: Mapping[str, Any]
) -> Rows:
    """Make the rows of rebalances: the trigger's and all that follow from it; one partition moves for each
    that a member owns."""
    spec = of.spec
    at_ms, took_ms, from_member, to_member = rebalances
    size, each = at_ms.size, spec.partitions_each
    members = trigger["members"]
    sizes = {"members": members, "partitions": spec.members * each}
    epoch = common["group_epoch"] + 1
    of_assignor = {"assignor": common["group_id"] % 2, "moved": each, **sizes}
    group, slot = of.restarts.group, of.restarts.slot
    number = np.repeat(slot, each) + np.tile(np.arange(each), size) * spec.members
    moves = {
        "row": np.repeat(np.arange(size), each),
        "topic": np.repeat(group, each),
        "partition": number,
        "from_member": np.repeat(from_member, each),
        "to_member": np.repeat(to_member, each),
    }
    began = {"cause": common["cause"], "rule": common["rule"], "order": 1, "members": members, "state": 1}
    who = {name: trigger[name] for name in ("client", "member_id")}
    reason = {"reason": trigger.get("reason", np.full(size, NULL))}
    joining = took_ms * 6 // 10
    ended = {
        "at_ms": at_ms + took_ms,
        "kind": KIND["rebalance_ended"],
        "group_epoch": epoch,
        "state": 0,
        "duration_ms": took_ms,
        "joining_ms": joining,
        "syncing_ms": took_ms - joining,
        "order": 3,
        "waited_for": _last_one(of, at_ms),
        "member_id": trigger["member_id"],
        **of_assignor,
        **reason,
    }
    bumped = np.where(group % 2 == 1, KIND["group_epoch_bumped"], KIND["state_changed"])
    return concatenated(
        [
            rows(size, {**common, **trigger, "at_ms": at_ms, "order": 0}),
            rows(size, {**common, **who, **reason, **began, "at_ms": at_ms, "kind": KIND["rebalance_began"]}),
            rows(size, {**common, "at_ms": at_ms, "kind": bumped, "order": 2, "members": members}),
            rows(
                size,
                {**common, **of_assignor, "at_ms": at_ms + joining, "kind": KIND["assigned"], "order": 0}
                | {"group_epoch": epoch, "duration_us": 40 + group % 50},
            ),
            rows(size, {**common, **ended}, moves),
        ]
    )


def _last_one(of: World, at_ms: Int64s) -> Int64s:
    """Choose the member that each rebalance waited for: the same one in some groups, any in others."""
    spec, all_ = of.spec, of.restarts
    random = np.random.default_rng([spec.seed, 3])
    slow: NDArray[np.bool_] = is_slow(spec, all_.group) & (all_.slot != SLOW_SLOT)
    anybody = (all_.slot + random.integers(2, spec.members, at_ms.size)) % spec.members
    return of.alive(all_.group, np.where(slow, SLOW_SLOT, anybody), at_ms)
