"""The lane: heartbeats that repeat are answered by a compiled function, which knows no rule.

The law of the lane:

1. **What is repeated.** Python has answered a heartbeat without error, at once or when its hold was over, and
   the shard says that the same one will get the same answer for as long as nothing changes
   (`HeldApi.repeats`). Then request and answer are remembered as bytes, for this one connection and member:
   of a connection those of many members, of a member those of the newest connection.
2. **What a repetition is.** A whole frame of which every byte but the correlation id is as remembered, on a
   connection to which Python owes nothing, while the leader's lease holds at this moment. It gets the
   remembered answer with its own correlation id.
3. **What is held.** If Python held the answer, the lane holds the next ones, for as long as Python says
   (`Terms`), or up to 40 ms less. It answers at the end of that time, or when anything else comes on the
   connection, first; if the lease does not hold then, Python holds on. Another spacing is Python's.
4. **Everything else is Python's,** from the first byte on that is no repetition. Nothing on the connection is
   repeated until all that Python owes to it is sent.
5. **What makes it forget,** before the next answer. All of one group: a request that is not `HARMLESS`, a
   record other than those of offsets and transactions, an event, or a timer of that group. Everything: a new
   image (topics, settings, ACLs, features), the beginning or end of serving, a split, a full log, a record or
   request of which it is not known whom it concerns, another interval for all. One connection: its end, and
   its handing over. One member: a heartbeat of it that Python decides and may hold. **What is held is given
   back:** Python holds it on, since it came, and decides what becomes of it.
6. **Who was heard.** The lane notes when each member was heard last. A session's timer asks for this before
   it ends a session (`ends_ms`), and whatever is forgotten is told to the timers first.
7. **What is counted.** Each answer counts as one of its API, each hold as one of Python's, and both keep
   their connection from being idle.
8. **When it looks.** At once, but what comes on calm connections gathers for up to a linger: heartbeats of
   members that were silent for at least two, commits on connections of which Python got nothing for ten.
   Their members are heard that much later.

What the lane does with commits is said in `commits.py`. This file is the memory: pure, and the same in a tier
and in the simulation. What compares bytes is beside it: `compiled.py`, on sockets, driven by `sockets.py`; a
twin in plain Python in `tests/simulation/lane.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, Protocol

from actors.coordinator.ground.kind import kinds_of
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Key, Request, Value
from actors.ground.records import (
    DYING_GROUP,
    OFFSET_BATCH,
    OFFSET_COMMIT,
    OFFSET_ROWS,
    PENDING_TXN_OFFSET,
    PRODUCER_ID_BLOCK,
    PRODUCER_MARKER,
    TRANSACTION,
)
from actors.protocol import api_keys
from actors.replica.replica import Replica

ARMED, HEARD_MS, CAME_MS, SPACING_MS, HELD, HOLD_MS, SPACING_MS_MIN, SPACING_MS_MAX = range(8)
SEAT, REQUEST_BYTES, ANSWER_BYTES, API_KEY = range(8, 12)
"""The columns of what is known of each place: whether it answers; when it was heard last (0: not since it was
told to the timers); when its last heartbeat came, and how long after the one before; whether the answer to
that one is held; how long answers are held (0: not at all), and between which spacings; whose it is; how long
request and answer are on the wire; the API."""
FACTS: Final = 12

HARMLESS: Final = frozenset(
    {
        api_keys.HEARTBEAT,
        api_keys.CONSUMER_GROUP_HEARTBEAT,
        api_keys.OFFSET_COMMIT,
        api_keys.OFFSET_FETCH,
        api_keys.TXN_OFFSET_COMMIT,
        api_keys.INIT_PRODUCER_ID,
        api_keys.ADD_PARTITIONS_TO_TXN,
        api_keys.ADD_OFFSETS_TO_TXN,
        api_keys.END_TXN,
        api_keys.WRITE_TXN_MARKERS,
        api_keys.LIST_GROUPS,
        api_keys.DESCRIBE_GROUPS,
        api_keys.CONSUMER_GROUP_DESCRIBE,
        api_keys.DESCRIBE_TRANSACTIONS,
        api_keys.LIST_TRANSACTIONS,
    }
)
"""Requests after which heartbeats of others are answered as before, unless their records or events say
otherwise."""
_NOT_OF_MEMBERS: Final = frozenset(
    {
        OFFSET_COMMIT,
        OFFSET_BATCH,
        OFFSET_ROWS,
        PENDING_TXN_OFFSET,
        TRANSACTION,
        PRODUCER_ID_BLOCK,
        PRODUCER_MARKER,
    }
)
"""Record kinds that no heartbeat's answer depends on, not even while they are not committed: it tells
nothing of them."""


class Facts(Protocol):
    """What is known of each place, by place and column: an array in a tier, lists in the simulation."""

    def __getitem__(self, place: int, /) -> Any: ...


class Repetition:
    """One heartbeat that a connection repeats."""

    __slots__ = ("group_id", "is_remembered", "key", "place", "session_ms")

    def __init__(self) -> None:
        self.place: int | None = None
        """The row of `Memory.facts` that it has; None: it has none, and nothing is armed."""
        self.is_remembered = False
        """Whether nothing has changed since Python gave the answer."""
        self.group_id = ""
        self.key: Hashable = None
        """The key of the timer that ends the member's session."""
        self.session_ms = 0

    def give_back(self, came_ms: int, spacing_ms: int) -> None:
        """Have Python hold on the heartbeat whose answer is held: it came at this time, so long after the one
        before."""

    def withdrawn(self) -> None:
        """Learn that it is forgotten."""


class Memory:
    """What the lane of one replica remembers, and has to forget: `actors.replica.neighbours.Repeats`."""

    def __init__(self, replica: Replica, facts: Facts) -> None:
        self.facts = facts
        self._replica = replica
        self._groups: dict[str, dict[Hashable, Repetition]] = {}
        """Group id -> the session's key -> what is remembered of this member. Of each member, only the newest
        connection is remembered."""
        kinds = kinds_of(self._shard.state)
        self._of_groups = frozenset({DYING_GROUP}).union(*(kind.of_member | kind.of_group for kind in kinds))
        self._told_to_all: Hashable = None
        """What answers depend on that is the same for all groups."""

    def remember(self, repetition: Repetition, request: Request, now_ms: int) -> bool:
        """Remember that the replica has just answered `request`, at once and without error. Return whether
        the same answer may be given again."""
        self.forget(repetition)
        shard, group_id = self._shard, request.body.group_id
        found = shard.repeats(request, now_ms) if self._replica.serving else None
        if found is None:
            return False
        if shard.told_to_all != self._told_to_all:
            self.everything()
            self._told_to_all = shard.told_to_all
        repetition.group_id, (repetition.key, repetition.session_ms) = group_id, found
        older = self._groups.get(group_id, {}).get(repetition.key)
        if older is not None:
            self.forget(older)
        self._groups.setdefault(group_id, {})[repetition.key] = repetition
        repetition.is_remembered = True
        shard.heard = self
        return True

    def forget(self, repetition: Repetition) -> None:
        """Forget one connection's heartbeat."""
        if repetition.is_remembered:
            members = self._groups[repetition.group_id]
            del members[repetition.key]
            if not members:
                del self._groups[repetition.group_id]
            self._withdraw(repetition)

    def forget_member(self, group_id: str, key: Hashable, *, only_held: bool = False) -> None:
        """Forget the heartbeat of the member whose session's timer has this key; `only_held`: if its answers
        are held."""
        repetition = self._groups.get(group_id, {}).get(key)
        if repetition is None:
            return
        if not only_held or repetition.place is None or self.facts[repetition.place][HOLD_MS]:
            self.forget(repetition)

    def _withdraw(self, repetition: Repetition) -> None:
        """Disarm, tell the timers what only the lane knows, and give back what is held."""
        repetition.is_remembered = False
        if repetition.place is not None:
            fact = self.facts[repetition.place]
            fact[ARMED] = 0
            ends_ms = self._ends_ms(repetition)
            timers = self._shard.state.timers
            before_ms = timers.deadline_ms(repetition.key)
            if ends_ms is not None and before_ms is not None and ends_ms > before_ms:
                timers.schedule(repetition.key, ends_ms)
            fact[HEARD_MS] = 0
            if fact[HELD]:
                fact[HELD] = 0
                repetition.give_back(int(fact[CAME_MS]), int(fact[SPACING_MS]))
        repetition.withdrawn()

    # What the replica tells (actors.replica.neighbours.Repeats).

    def everything(self) -> None:
        """Forget everything."""
        for group_id in list(self._groups):
            self._changed(group_id)

    def asked(self, request: Request) -> None:
        """Forget the group of a request that may change it, before it is decided."""
        if request.api_key in HARMLESS or not self._groups:
            return
        group_id = getattr(request.body, "group_id", None)
        if group_id is None:
            self.everything()
        else:
            self._changed(group_id)

    def written(self, records: Iterable[tuple[Key, Value | None]]) -> None:
        """Forget the groups whose records have just been applied. The values are those that were replaced."""
        if not self._groups:
            return
        is_of_group = False
        for key, _ in records:
            if key[0] in _NOT_OF_MEMBERS:
                continue
            is_of_group = True
            if key[0] in self._of_groups:
                self._changed(key[1])
            else:
                self.everything()
        if is_of_group and self._shard.told_to_all != self._told_to_all:
            self.everything()

    def told(self, events: Sequence[Any]) -> None:
        """Forget the groups of which these events tell."""
        for event in events:
            self._changed(getattr(event, "group_id", None))

    # What the shard asks (actors.coordinator.ground.held.Heard).

    def fired(self, key: tuple[Any, ...]) -> None:
        """Forget the group whose timer fires now."""
        self._changed(key[1] if len(key) > 1 else None)

    def ends_ms(self, key: tuple[Any, ...]) -> int | None:
        """Return when the session ends whose timer has this key, as far as the lane has heard its member;
        None if it has not."""
        repetition = self._groups.get(key[1], {}).get(key) if len(key) > 1 else None
        return None if repetition is None else self._ends_ms(repetition)

    def tell(self, group_id: str) -> None:
        """Tell the timers of a group all that the lane has heard."""
        self._changed(group_id)

    def _ends_ms(self, repetition: Repetition) -> int | None:
        heard_ms = 0 if repetition.place is None else int(self.facts[repetition.place][HEARD_MS])
        return heard_ms + repetition.session_ms if heard_ms else None

    def _changed(self, group_id: Any) -> None:
        for repetition in self._groups.pop(group_id, {}).values():
            self._withdraw(repetition)

    @property
    def _shard(self) -> CoordinatorShard:
        shard = self._replica.shard
        assert isinstance(shard, CoordinatorShard)
        return shard
