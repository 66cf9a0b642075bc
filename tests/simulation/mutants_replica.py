"""Mistakes of the replica: when answers leave, what is undone, what a snapshot holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from actors.assignors.registry import AssignorError, PlugIn
from actors.assignors.spec import Assignment, AssignmentSpec
from actors.coordinator.ground import partitions
from actors.ground.contract import Key, Reply, Value
from actors.ground.release import LEVEL_MAX
from actors.ground.snapshot_build import SnapshotBuild
from actors.replica.replica import Log, Replica


class _AlwaysLeased:
    """A log whose leader never doubts."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def has_lease(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class AnswersBeforeCommit(Replica):
    """An answer leaves when every record it rests on is committed."""

    def _park(self, reply: Reply) -> None:
        self._send(reply)


class WaitsForTheOldestEntry(Replica):
    """An answer waits for the newest entry of its group, not for the next one to be committed."""

    def _park(self, reply: Reply) -> None:
        if self._uncommitted:
            self._uncommitted[0].replies.append(reply)
        else:
            super()._park(reply)


class ReadsWhatIsOnlyDecided(Replica):
    """What is read in a group with uncommitted records waits for their commit."""

    def _is_clean(self, group_id: Any) -> bool:
        return True


class ForgetsNewerEntries(Replica):
    """A commit makes a group clean only if no newer entry concerns it."""

    def _commit(self, entry: Any) -> None:
        super()._commit(entry)
        for group_id in entry.groups:
            self._dirty.pop(group_id, None)


class ReadsWithoutLease(Replica):
    """A leader answers from its own state only while it surely is the only one."""

    @property
    def log(self) -> Log | None:
        return self._log

    @log.setter
    def log(self, log: Log | None) -> None:
        self._log = None if log is None else _AlwaysLeased(log)


class UndoesNothing(Replica):
    """A fallen leader takes back what was decided and not committed."""

    def on_fallen(self) -> None:
        for entry in self._uncommitted:
            entry.undo.clear()
        super().on_fallen()


class UndoesOldestFirst(Replica):
    """What was decided is undone newest first: the oldest value is the committed one."""

    def on_fallen(self) -> None:
        for entry in self._uncommitted:
            entry.undo.reverse()
        self._uncommitted.reverse()
        super().on_fallen()


class KeepsItsBatch(Replica):
    """What a leader had decided and not yet proposed does not outlive its term."""

    def on_fallen(self) -> None:
        waiting = list(self._uncommitted)[self._in_flight :]
        super().on_fallen()
        self._uncommitted = deque(waiting)


class LeavesRequestsUnanswered(Replica):
    """A fallen leader refuses whoever still waits."""

    def on_fallen(self) -> None:
        self._open = {}
        super().on_fallen()


class AnswersTwice(Replica):
    """A request is answered once."""

    def _send(self, reply: Reply) -> None:
        request = self._open.get(reply.token)
        super()._send(reply)
        if request is not None:
            self._open[reply.token] = request


class AppliesItsOwnEntriesAgain(Replica):
    """An entry is applied once: its leader did so when it was decided, and has gone on since."""

    def apply(self, index: int, term: int, command: bytes) -> None:
        is_own = bool(self._uncommitted) and self._uncommitted[0].index == index
        super().apply(index, term, command)
        if is_own:
            self._write(self._unpack(command)[1])


class SnapshotHoldsSpeculation(Replica):
    """A snapshot holds what is committed, not what is only decided."""

    def begin_snapshot(self) -> SnapshotBuild:
        uncommitted, self._uncommitted = self._uncommitted, deque()
        build = super().begin_snapshot()
        self._uncommitted = uncommitted
        return build


class SnapshotHoldsLaterWrites(Replica):
    """A snapshot holds the state as it was begun, whatever is written while it is made."""

    def _write(self, records: Iterable[tuple[Key, Value | None]]) -> list[tuple[Key, Value | None]]:
        return [(key, self.shard.apply(key, value)) for key, value in records]


class RestoresOnTop(Replica):
    """A snapshot replaces the state; what it lacks was deleted."""

    def restore(self, data: bytes) -> None:
        shard = self.shard
        super().restore(data)
        for key, value in self.shard.records():
            shard.apply(key, value)
        self.shard = shard


class SplitsAResult(Replica):
    """The records of one Result are in one entry: all of them survive a fall, or none does."""

    def _decide(self, records: Any) -> None:
        for record in records:
            super()._decide([record])
            self._uncommitted.append(self._uncommitted[-1].__class__(self._packer.pack((1, self.log.term))))


class WritesAheadOfFinalizing(Replica):
    """What only a newer release can read is written once that is finalized, not as soon as one has it."""

    def learn_level(self, level: int) -> bool:
        return super().learn_level(LEVEL_MAX)


class LetsHeldHeartbeatsWait(Replica):
    """Whoever falls refuses the heartbeats that it holds: their clients are to look for the next leader."""

    def on_fallen(self) -> None:
        watcher, self.watcher = self.watcher, None
        super().on_fallen()
        self.watcher = watcher


class BelievesPlugIns(PlugIn):
    """What a plug-in gives is checked: members will believe it."""

    def assign(self, spec: AssignmentSpec) -> Assignment:
        try:
            given = self._assign(spec)
        except Exception as error:
            raise AssignorError(str(error)) from error
        return {
            member_id: tuple(
                (topic_id, partitions.pack(sorted(numbers))) for topic_id, numbers in sorted(topics.items())
            )
            for member_id, topics in given.items()
        }
