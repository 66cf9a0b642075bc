"""Checkers of Raft and of the replicas, outside of the code under test. They look; they never decide.

log matching     what is committed at an index is the same everywhere and for ever; logs with the same
                 last entry are the same (Raft paper, section 5.3); one leader a term
state            replicas are equal at equal index, snapshots are exactly the committed state
votes            one vote per (term, identity)
amnesia          who lost its directory is somebody else, and a newcomer does not vote
leases           one holder at a time, and it has applied all that anybody has
arrays           what a leader keeps for the assignors is as made anew
bounds           what is queued or kept stays below what the settings say
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import msgpack
from crc32c import crc32c

from storage.raft.members import Members, founders, unpack
from storage.raft.messages import APPEND, PRE_VOTE_ANSWER, VOTE, VOTE_ANSWER
from storage.raft.skeleton import MEMBERS, REGULAR
from tests.simulation.links import Way
from tests.simulation.machines import Pair, decode, decode_snapshot
from tests.simulation.parts import Process, World

STATE_CHECK_INTERVAL = 8
"""Every so many entries a replica's whole state is compared."""
_pack = msgpack.Packer().pack


class Violation(AssertionError):
    """A property does not hold. The text begins with the checker's name."""


def _digest(key: Any, value: Any) -> int:
    digest: int = crc32c(_pack((key, value)))
    return digest


def digest_of(pairs: Iterable[Pair]) -> int:
    """Return a digest in which the pairs' order and earlier values of a key make no difference."""
    return sum(_digest(key, value) for key, value in dict(pairs).items())


class State:
    """The committed state, from the committed entries alone, and all that it ever was."""

    def __init__(self) -> None:
        self.live: dict[Any, Any] = {}
        self.history: dict[Any, list[tuple[int, Any]]] = {}
        """The index and value of each write, by key."""
        self.indexes = [0]
        self._digests = [0]

    @property
    def index(self) -> int:
        return self.indexes[-1]

    def entry(self, index: int, term: int, command: bytes) -> None:
        digest = self._digests[-1]
        for key, value in decode(term, command):
            if key in self.live:
                digest -= _digest(key, self.live[key])
            if value is None:
                self.live.pop(key, None)
            else:
                self.live[key] = value
                digest += _digest(key, value)
            self.history.setdefault(key, []).append((index, value))
        self.indexes.append(index)
        self._digests.append(digest)

    def digest_at(self, index: int) -> int:
        """Return the digest of the state after the entry at `index`, which somebody has applied."""
        return self._digests[bisect_right(self.indexes, index) - 1]

    def writes(self, key: Any) -> list[tuple[int, Any]]:
        return self.history.get(key, [])


class Checks:
    """Checks the replicas as they apply, restore, lead and take their turns."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._state = world.state
        self._committed: dict[int, tuple[bytes, int, int]] = {}
        self._entries: dict[tuple[int, int], tuple[bytes, int | None]] = {}
        """The command of each entry, and the term of the entry before, by (index, term)."""
        self._leaders: dict[int, str] = {}
        self._built: set[int] = {0}
        self._directories: dict[str, int] = {}
        self.members = founders({number: number for number in world.founders})
        """The members of the group by the last committed change."""
        self.committed_index = 0
        self.lease_reads = 0
        self.snapshots_built = 0
        self.snapshots_restored = 0

    # -- called by hosts ----------------------------------------------------------------------------

    def started(self, process: Process, directory: int) -> None:
        if self._directories.setdefault(process.member_id, directory) != directory:
            raise Violation(f"amnesia: {process.name} lost its directory and is {process.member_id} again")

    def turned(self, process: Process) -> None:
        """Check what a turn has changed: newly committed entries, the log's end, the role, the bounds."""
        raft, journal = process.raft, process.journal
        commit_index, applied_index = raft.commit_index, raft.applied_index
        if commit_index != process.looked_index:
            if not process.looked_index <= commit_index <= journal.last_index:
                raise Violation(
                    f"log matching: {process.name} had committed up to entry {process.looked_index}, now up "
                    f"to entry {commit_index} of {journal.last_index}"
                )
            for index in range(max(process.looked_index, journal.base_index) + 1, commit_index + 1):
                self._commits(process, journal.entry(index))
            process.looked_index = commit_index
        if not process.applied_index <= applied_index <= commit_index:
            raise Violation(
                f"state: {process.name} had applied up to entry {process.applied_index}, now up to entry "
                f"{applied_index} of {commit_index} committed ones"
            )
        process.applied_index = applied_index
        last = (journal.last_index, journal.last_term)
        if last != process.looked_last:
            process.looked_last = last
            self._look_at_end(process, *last)
        if raft.is_leader:
            self._leads(process, raft.term)
        self._world.bounds.turned(process)

    def _commits(self, process: Process, entry: tuple[bytes, int, int]) -> None:
        known = self._committed.get(entry[1])
        if known is None:
            self._committed[entry[1]] = entry
            self.committed_index = max(self.committed_index, entry[1])
            if entry[0][:1] == MEMBERS:
                self.members = unpack(entry[0][1:])
        elif known != entry:
            raise Violation(
                f"log matching: {process.name} commits another entry {entry[1]} (term {entry[2]}, "
                f"{entry[0]!r:.80}) than was committed (term {known[2]}, {known[0]!r:.80})"
            )

    def _look_at_end(self, process: Process, index: int, term: int) -> None:
        journal = process.journal
        if index == journal.base_index:
            return
        found = (journal.entry(index)[0], journal.term_at(index - 1))
        if self._entries.setdefault((index, term), found) != found:
            raise Violation(
                f"log matching: {process.name} ends at entry {index} of term {term}, as another log did that "
                "differs from it"
            )

    def _leads(self, process: Process, term: int) -> None:
        if self._leaders.setdefault(term, process.member_id) != process.member_id:
            raise Violation(
                f"log matching: {process.name} leads term {term}, as {self._leaders[term]} does or did"
            )

    def members_at(self, index: int) -> Members:
        """Return the members as of this committed entry."""
        changes = [at for at, entry in self._committed.items() if at <= index and entry[0][:1] == MEMBERS]
        if not changes:
            return founders({number: number for number in self._world.founders})
        return unpack(self._committed[max(changes)][0][1:])

    # -- called by the watch on the state machine ---------------------------------------------------

    def applies(self, process: Process, index: int, term: int, command: bytes) -> None:
        if index <= process.watch.index:
            raise Violation(f"state: {process.name} applies entry {index} after entry {process.watch.index}")
        self._commits(process, (REGULAR + command, index, term))
        if index > self._state.index:
            self._state.entry(index, term, command)

    def applied(self, process: Process, index: int) -> None:
        if index % STATE_CHECK_INTERVAL == 0:
            self.compare(process, index)

    def leads(self, process: Process, term: int) -> None:
        """Check a replica that begins to lead: its state has nothing yet that is not committed."""
        self._leads(process, term)
        self.compare(process, process.raft.applied_index)

    def compare(self, process: Process, index: int) -> None:
        """The whole state with the committed one, unless it holds what is only decided."""
        if not process.machine.is_committed:
            return
        if digest_of(self._world.kind.records(process.machine)) != self._state.digest_at(index):
            raise Violation(
                f"state: {process.name} differs from the committed state after entry {index}: "
                f"{self._difference(process, index)}"
            )

    def _difference(self, process: Process, index: int) -> str:
        held = {tuple(key): tuple(value) for key, value in self._world.kind.records(process.machine)}
        then = {}
        for key, writes in self._state.history.items():
            upto = [value for written, value in writes if written <= index]
            if upto and upto[-1] is not None:
                then[key] = upto[-1]
        wrong = sorted((key for key in held.keys() | then.keys() if held.get(key) != then.get(key)), key=repr)
        return "; ".join(f"{key}: {held.get(key)} for {then.get(key)}" for key in wrong[:3])

    def built(self, process: Process, data: bytes, digest: int) -> None:
        self.snapshots_built += 1
        if digest_of(decode_snapshot(data)) != digest:
            raise Violation(f"state: {process.name} made a snapshot of what was not committed")
        self._built.add(digest)

    def restores(self, process: Process, data: bytes) -> None:
        self.snapshots_restored += 1
        if digest_of(decode_snapshot(data)) not in self._built:
            raise Violation(f"state: {process.name} restores a snapshot that nobody made")

    def restored(self, process: Process, data: bytes) -> None:
        if digest_of(self._world.kind.records(process.machine)) != digest_of(decode_snapshot(data)):
            raise Violation(f"state: {process.name} restored a snapshot and holds something else")

    # -- from time to time --------------------------------------------------------------------------

    def leases(self) -> None:
        holders = [process for process in self._world.processes() if process.raft.holds_lease]
        if len(holders) > 1:
            raise Violation(f"leases: {' and '.join(process.name for process in holders)} hold one at a time")
        for process in holders:
            self.lease_reads += 1
            if process.raft.applied_index < self._state.index:
                raise Violation(
                    f"leases: {process.name} would read after entry {process.raft.applied_index}, without "
                    f"entry {self._state.index}"
                )

    def arrays(self) -> None:
        for process in self._world.processes():
            if process.raft.holds_lease:
                self._world.kind.look(process.machine)


class Votes:
    def __init__(self) -> None:
        self.on_granted: Callable[[Process, str], None] | None = None
        """A function that is called with the voter and the candidate of each vote that is given."""
        self._cast: dict[tuple[int, str], str] = {}

    def sent(self, process: Process, message: tuple[Any, ...], target_id: str) -> None:
        kind, term = message[:2]
        if kind == VOTE:
            self._votes(process, term, process.member_id)
        elif kind in (VOTE_ANSWER, PRE_VOTE_ANSWER) and message[-1]:
            if not process.members:
                raise Violation(f"amnesia: {process.name}, a newcomer, grants {target_id} a vote")
            if kind == VOTE_ANSWER:
                self._votes(process, term, target_id)
                if self.on_granted is not None:
                    self.on_granted(process, target_id)

    def given(self, term: int, candidate: str) -> set[str]:
        """Return the voters that gave this candidate their vote in this term."""
        return {
            voter for (cast_in, voter), chosen in self._cast.items() if (cast_in, chosen) == (term, candidate)
        }

    def _votes(self, voter: Process, term: int, candidate: str) -> None:
        known = self._cast.setdefault((term, voter.member_id), candidate)
        if known != candidate:
            raise Violation(
                f"votes: {voter.name}, as {voter.member_id}, votes for {known} and {candidate} in term {term}"
            )


class Bounds:
    def __init__(self, world: World) -> None:
        self._world = world
        config = world.config
        # A leader may come back to a clogged connection that still holds what it sent in an earlier term.
        self._window_bytes_max = 3 * (config.window_bytes_max + config.batch_bytes + config.entry_bytes_max)

    def turned(self, process: Process) -> None:
        pending_bytes = process.raft.pending_bytes
        if pending_bytes > self._world.config.pending_bytes_max + 4_096:
            raise Violation(f"bounds: {process.name} has {pending_bytes} bytes of entries pending")
        asked = self._world.answers.open_at(process) + len(process.plug_ins.open)
        if process.machine.owed > asked:
            raise Violation(f"bounds: {process.name} owes {process.machine.owed} answers, {asked} were asked")

    def window(self, way: Way) -> None:
        if len(way.queue) % 16 == 0:
            held = sum(
                len(entry[0]) for _, message in way.queue if message[0] == APPEND for entry in message[-1]
            )
            if held > self._window_bytes_max:
                raise Violation(f"bounds: {held} bytes are on the way from {way.source.name}")

    def journals(self) -> None:
        """Once all is quiet: a log is a few times as long as what makes a snapshot due, not longer."""
        for process in self._world.processes():
            size, config = process.snapshots.size, self._world.config
            most = 4 * max(config.snapshot_journal_bytes_min, 2 * size) + config.pending_bytes_max
            if process.journal.entry_bytes > most:
                raise Violation(f"bounds: {process.name} keeps {process.journal.entry_bytes} bytes of log")
