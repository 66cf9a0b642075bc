"""What a replica promises to a leader, looked at message by message: that a broken promise loses an entry or
gives two leases takes much more than the mistake itself, and would seldom be seen.

    disk    what it acknowledges is on its disk, and is there when its next process starts
    votes   they are on its disk, and go to nobody with an older log; it votes for nobody else within one
            minimum election timeout of hearing a leader, nor does its restart free it: only the leader's own
            wish does, or that its host closed the connection; and while a leader rests it waits longer
    echoes  a leader gets back its own send times, over the connection that brought them
"""

from __future__ import annotations

from typing import Any, NamedTuple

from storage.raft.messages import (
    APPEND,
    APPEND_ANSWER,
    CHUNK,
    CHUNK_ANSWER,
    REST,
    VOTE,
    VOTE_ANSWER,
    Vote,
)
from storage.raft.recovery import Recovery
from tests.simulation.checkers import Violation
from tests.simulation.parts import Process

NEVER = float("-inf")
ROUNDING_S = 1e-6
SAMPLE_INTERVAL = 50
FIRST_SAMPLES = 5
"""The number of a term's first acknowledgements that are all compared with the disk; later, samples are."""


class _Heard(NamedTuple):
    leader_id: str
    at: float
    """When it was heard by the host's clock, which goes on when the host's processes end."""
    by: Process
    rest_s: float
    """How much longer than usual its next message may take, as it said; only the process that heard it
    knows that."""


class _Image:
    """A copy of a disk that can only be read."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def list(self, directory: str) -> list[str]:
        start = f"{directory}/"
        return sorted(name.removeprefix(start) for name in self._files if name.startswith(start))

    def read(self, path: str) -> bytes:
        return self._files[path]

    def size(self, path: str) -> int:
        return len(self._files[path])


class Promises:
    """Checks the promises of replicas; each is kept by the member id of the replica that made it."""

    def __init__(self) -> None:
        self._acknowledged: dict[str, tuple[int, int | None]] = {}
        """The highest entry, and its term if the log still tells it."""
        self._heard: dict[str, _Heard] = {}
        self._asked: dict[tuple[str, str], Vote] = {}
        """The last vote that each candidate asked of each voter."""
        self._voted: dict[str, tuple[int, str]] = {}
        """The last term in which it voted, and for whom."""
        self._received: dict[tuple[Process, str], set[float]] = {}
        """Send times that came over the present connection from this peer."""
        self._counted: dict[Process, tuple[int, int, int]] = {}
        """Term, number of acknowledgements that told of more, and the last entry they told of."""

    # -- what a process receives --------------------------------------------------------------------

    def received(self, process: Process, sender_id: str, message: tuple[Any, ...]) -> None:
        kind, term = message[:2]
        if kind in (APPEND, CHUNK, REST):
            self._received.setdefault((process, sender_id), set()).add(message[2])
            if term >= process.raft.term:
                rest_s = message[-1] if kind == REST else 0.0
                self._heard[process.member_id] = _Heard(sender_id, process.host.clock(), process, rest_s)
        elif kind == VOTE:
            self._asked[process.member_id, sender_id] = Vote(*message)

    def disconnected(self, process: Process, peer_id: str, *, closed_by_host: bool) -> None:
        self._received.pop((process, peer_id), None)
        heard = self._heard.get(process.member_id)
        if closed_by_host and heard is not None and heard.leader_id == peer_id:
            del self._heard[process.member_id]

    # -- what it sends ------------------------------------------------------------------------------

    def sent(self, process: Process, message: tuple[Any, ...], target_id: str) -> None:
        match message:
            case (kind, _, sent_at, success, _, index, _, _) if kind == APPEND_ANSWER:
                self._check_echo(process, sent_at, target_id)
                if success:
                    self._acknowledge(process, index)
            case (kind, _, sent_at, index, _, is_covered) if kind == CHUNK_ANSWER:
                self._check_echo(process, sent_at, target_id)
                if is_covered:
                    self._acknowledge(process, index)
            case (kind, term, True) if kind == VOTE_ANSWER:
                self._voted[process.member_id] = term, target_id
                asked = self._asked[process.member_id, target_id]
                self._check_log(process, asked, target_id)
                if not asked.transfer:
                    self._check_vote(process, target_id)
            case (kind, term, _, _, transfer) if kind == VOTE:
                self._voted[process.member_id] = term, process.member_id
                if not transfer:
                    self._check_vote(process, process.member_id)

    def _check_echo(self, process: Process, sent_at: float, target_id: str) -> None:
        if sent_at != NEVER and sent_at not in self._received.get((process, target_id), ()):
            raise Violation(
                f"promises: {process.name} echoes to {target_id} a send time that did not come from there"
            )

    def _check_log(self, voter: Process, asked: Vote, candidate_id: str) -> None:
        ours, theirs = (
            (voter.journal.last_term, voter.journal.last_index),
            (asked.last_term, asked.last_index),
        )
        if theirs < ours:
            raise Violation(
                f"promises: {voter.name} votes for {candidate_id}, whose log ends at (term, index) {theirs}, "
                f"its own at {ours}"
            )

    def _check_vote(self, process: Process, candidate_id: str) -> None:
        heard = self._heard.get(process.member_id)
        if heard is None or heard.leader_id == candidate_id:
            return
        since_s = process.host.clock() - heard.at
        promised_s: float = process.world.config.election_min_s
        if heard.by is process:
            promised_s += heard.rest_s
        if since_s + ROUNDING_S < promised_s:
            raise Violation(
                f"promises: {process.name} votes for {candidate_id} {since_s:.3f} s after it heard its "
                f"leader {heard.leader_id}"
            )

    # -- what it has on its disk --------------------------------------------------------------------

    def _acknowledge(self, process: Process, index: int) -> None:
        term, count, last_index = self._counted.get(process, (0, 0, 0))
        if term != process.raft.term:
            count = last_index = 0
        if index > last_index:
            self._counted[process] = process.raft.term, count + 1, index
            if count < FIRST_SAMPLES or count % SAMPLE_INTERVAL == 0:
                self._check_disk(process, index)
        if index >= self._acknowledged.get(process.member_id, (0, 0))[0]:
            self._acknowledged[process.member_id] = index, process.journal.term_at(index)

    def _check_disk(self, process: Process, index: int) -> None:
        """Check that the disk would have the entry if the machine lost power now. Raises Violation."""
        host = process.host
        if not process.world.sync or host.disk.gone or host.directory != process.directory:
            return
        found = Recovery(_Image(host.disk.surviving()), "journal", None)
        found.run()
        if found.last_index < index:
            raise Violation(
                f"promises: {process.name} acknowledges entry {index}, {found.last_index} are on its disk"
            )

    def ended(self, process: Process) -> None:
        """Forget promises about entries that a leader of a later term had the replica take back."""
        index, term = self._acknowledged.get(process.member_id, (0, 0))
        journal = process.journal
        if journal.base_index < index and journal.term_at(index) != term:
            index = min(index, process.raft.commit_index, journal.durable_index)
            self._acknowledged[process.member_id] = index, journal.term_at(index)
        self._counted.pop(process, None)
        for key in [key for key in self._received if key[0] is process]:
            del self._received[key]

    def started(self, process: Process) -> None:
        journal, voted = process.journal, self._voted.get(process.member_id)
        if voted is not None and journal.term <= voted[0] and (journal.term, journal.vote) != voted:
            raise Violation(
                f"promises: {process.name} voted for {voted[1]} in term {voted[0]} and comes back in term "
                f"{journal.term} with a vote for {journal.vote}"
            )
        self._check_entries(process)

    def _check_entries(self, process: Process) -> None:
        index, term = self._acknowledged.get(process.member_id, (0, 0))
        journal = process.journal
        found = journal.term_at(index)
        if journal.last_index < index or (None not in (term, found) and found != term):
            raise Violation(
                f"promises: {process.name} acknowledged entry {index} of term {term} and comes back with "
                f"{journal.last_index} entries; there it holds term {found}"
            )
