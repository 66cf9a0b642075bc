"""What a leader does for one term: append, commit, hold the lease, change the membership, hand over.

The lease rests on followers that echo the leader's own send times. Nobody votes against a leader within one
minimum election timeout of hearing it, so up to 0.9 of that after a time that a majority has echoed no other
leader can exist (clocks may differ by a tenth in rate). The time is measured from sending, because the answer
may have been late.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from storage.raft.contract import NEVER
from storage.raft.core import Core
from storage.raft.errors import Busy, RaftFatal
from storage.raft.members import Members, View, next_step, pack
from storage.raft.messages import REST_S_MAX, TIMEOUT_NOW, AppendAnswer, ChunkAnswer, TimeoutNow
from storage.raft.progress import Progress
from storage.raft.replication import TIMER_SLACK_S, Replication
from storage.raft.skeleton import MEMBERS, NO_OP, REGULAR

LEASE_FRACTION: Final = 0.9
CAUGHT_UP_ENTRIES: Final = 64
"""How many entries a learner may miss to get its vote."""


class Leader:
    """One leadership: made when this replica is elected, dropped when it falls. Nothing that a leader knows
    outlives its term."""

    def __init__(self, core: Core) -> None:
        self.serving = False
        """Whether the first entry of the term is applied, and `on_leading` was called."""
        self.pending_bytes = 0
        """How many bytes were proposed in this term and are not yet applied."""
        self.target: Mapping[str, int] | None = None
        """The voters that there should be: member id -> node id; None: those that there are."""
        self.progress: dict[str, Progress] = {}
        self.transfer_to: str | None = None
        self._core = core
        self._settings = core.settings
        self._replication = Replication(core)
        self._voting: list[Progress] = []
        """The progress of the other voters."""
        self._no_op_index = 0
        """The index of the first entry of this term; all that follow it are of this term, too."""
        self._lease_until = NEVER
        self._transfer_deadline = NEVER
        self._transfer_sent = False
        self._asked_at = core.clock()
        """When this leader was asked for something last, as far as a tick has noted."""
        self._was_asked = False
        """Whether it was asked since then."""

    def begin(self) -> None:
        """Begin to lead. Entries of earlier terms commit only under an entry of this one (Raft paper, section
        5.4.2), which is appended here."""
        self._follow_members()
        self._no_op_index = self._core.journal.last_index + 1
        self._append(NO_OP)

    # -- log ----------------------------------------------------------------------------------------

    def propose(self, command: bytes) -> int:
        """Append a command for the state machine. Raises Busy, ValueError (too large)."""
        self._was_asked = True
        size, settings = len(command), self._settings
        if size > settings.entry_bytes_max:
            raise ValueError(f"a command of {size} bytes, at most {settings.entry_bytes_max} are allowed")
        if self.transfer_to is not None:
            raise Busy(f"leadership is being handed to {self.transfer_to}")
        if self.pending_bytes + size > settings.pending_bytes_max:
            raise Busy(f"{self.pending_bytes} bytes are not committed yet")
        journal = self._core.journal
        index = journal.last_index + 1
        journal.append((REGULAR + command, index, self._core.term))
        self.pending_bytes += size + 1
        return index

    def _append(self, command: bytes) -> None:
        """Append a command that is not for the state machine."""
        core = self._core
        core.append((command, core.journal.last_index + 1, core.term))
        self.pending_bytes += len(command)

    def replicate(self, now: float) -> None:
        replication = self._replication
        is_beat = now >= replication.heartbeat_due_at - TIMER_SLACK_S
        rest_s = self._rest_s(now) if is_beat or replication.rest_s else 0.0
        replication.send_due(now, to_all=self.transfer_to is not None, rest_s=rest_s)

    def asked(self) -> None:
        """Note that somebody needs this leader: it does not rest."""
        self._was_asked = True

    def _rest_s(self, now: float) -> float:
        """Return how much longer than usual this leader may be silent now; 0 if it may not: somebody has
        asked it for something lately, or something is under way."""
        core, settings = self._core, self._settings
        if self._was_asked:
            self._was_asked = False
            self._asked_at = now
        is_at_rest = (
            core.may_rest
            and now - self._asked_at > settings.rest_after_s
            and self.serving
            and self.transfer_to is None
            and self.target is None
            and core.commit_index == core.journal.last_index
            and self._replication.are_all_even
        )
        return min(settings.election_max_s, REST_S_MAX) if is_at_rest else 0.0

    @property
    def is_settled(self) -> bool:
        """Return whether a tick before the next heartbeat would have nothing to send or to change."""
        return (
            self.transfer_to is None
            and self.target is None
            and not (self._was_asked and self._replication.rest_s)
            and not self._replication.has_work
        )

    @property
    def is_resting(self) -> bool:
        """Return whether this leader is silent for longer than usual."""
        return self._replication.rest_s > 0

    @property
    def next_tick_at(self) -> float:
        if self._was_asked and self._replication.rest_s:
            return NEVER
        return self._replication.heartbeat_due_at

    def advance_commit(self) -> None:
        """Commit what a majority holds. Only entries of the current term commit by counting (Raft paper,
        section 5.4.2); our own disk counts like any other."""
        core = self._core
        if core.commit_index >= core.journal.last_index:
            return
        durable = core.journal.durable_index
        if core.group.majority == 2:  # the second highest: the usual case, without a call
            highest, index = durable, -1
            for progress in self._voting:
                match = progress.match_index
                if match > highest:
                    highest, index = match, highest
                elif match > index:
                    index = match
        else:
            matches = [progress.match_index for progress in self._voting]
            matches.append(durable)
            matches.sort(reverse=True)
            index = matches[core.group.majority - 1]
        if index > core.commit_index and index >= self._no_op_index:
            core.commit_index = index

    def applied(self, index: int, size: int) -> None:
        """Note that the state machine has taken the entry of this term at `index`."""
        self.pending_bytes -= size
        if index == self._no_op_index:
            self.serving = True
            self._core.machine.on_leading(self._core.term)

    # -- answers ------------------------------------------------------------------------------------

    def on_append_answer(self, progress: Progress, message: AppendAnswer) -> None:
        now = self._heard(progress, message.sent_at)
        if not message.success:
            progress.rejected(
                message.sent_at, message.previous_index, message.last_index, message.commit_index
            )
            return
        if message.match_index > self._core.journal.last_index:
            raise RaftFatal(
                f"{progress.node.id} acknowledged entry {message.match_index}, which was never sent"
            )
        advanced = message.match_index > progress.match_index
        # This is done for an answer that says nothing new, too: what was sent twice must leave the window.
        if advanced or progress.window:
            progress.matched(message.match_index if advanced else progress.match_index, now)
        if advanced and message.match_index > self._core.commit_index:
            self.advance_commit()
        if (
            progress.probing
            and progress.snapshot is None
            and message.previous_index == progress.next_index - 1
        ):
            progress.probe_matched()

    def on_chunk_answer(self, progress: Progress, message: ChunkAnswer) -> None:
        self._heard(progress, message.sent_at)
        snapshot = progress.snapshot
        if snapshot is None or snapshot.index != message.snapshot_index:
            return
        if message.covered:
            progress.probe_from(max(progress.match_index, snapshot.index) + 1)
        elif message.next_offset != progress.offset:
            progress.offset = min(message.next_offset, len(snapshot.data))
            progress.awaiting = False

    def _heard(self, progress: Progress, sent_at: float) -> float:
        """Note that the peer has answered what was sent then. Return the time."""
        now = self._core.clock()
        progress.heard_at = now
        # What was sent over an earlier connection does not count: the peer may have taken its end for
        # ours, and have voted. Nor does what this clock has not shown yet: it is not ours.
        if progress.online and progress.online_since <= sent_at <= now and progress.echoed_at <= sent_at:
            progress.echoed_at = sent_at
            self._renew_lease()
        return now

    # -- lease --------------------------------------------------------------------------------------

    def has_lease(self) -> bool:
        """Return whether nobody else can lead right now."""
        return self._core.clock() < self.lease_until

    @property
    def lease_until(self) -> float:
        """Return until when nobody else can lead, by the clock, unless this leader learns otherwise."""
        if not self.serving or self._transfer_sent:
            return NEVER
        return inf if self._core.group.majority == 1 else self._lease_until

    def _renew_lease(self) -> None:
        if self._core.group.majority == 1:
            return  # nobody else can be elected; see has_lease
        if self._core.group.majority == 2:  # one other voter is enough: the usual case, without a call
            echoed_at = NEVER
            for progress in self._voting:
                if progress.echoed_at > echoed_at:
                    echoed_at = progress.echoed_at
        else:
            echoed_at = self._majority_of([progress.echoed_at for progress in self._voting])
        self._lease_until = echoed_at + LEASE_FRACTION * self._settings.election_min_s

    def _majority_of(self, times: list[float]) -> float:
        """Return the latest time that a majority, this replica included, has reached; `times` are the other
        voters'."""
        times.sort(reverse=True)
        return times[self._core.group.majority - 2]

    # -- the end of a leadership --------------------------------------------------------------------

    def has_to_resign(self, now: float) -> bool:
        """Return whether a majority was not heard for too long, or a transfer has failed. Carries a transfer
        on."""
        if self._core.group.majority == 1:
            return False
        if now < self._lease_until and self.transfer_to is None:
            return False  # who holds a lease has heard a majority
        silences = [-self._replication.silence(progress, now) for progress in self._voting]
        if -self._majority_of(silences) > self._settings.election_max_s:
            return True
        return self.transfer_to is not None and self._has_failed_transfer(self.transfer_to, now)

    def _has_failed_transfer(self, to: str, now: float) -> bool:
        """Carry a transfer on: tell the target to campaign once it has the whole log. Return whether it has
        failed: if the target has not won in time, this leader is without a lease until the end of the term,
        and of no more use."""
        progress = self.progress.get(to)
        if now >= self._transfer_deadline or progress is None:
            self.transfer_to = None
            return self._transfer_sent and now >= self._transfer_deadline
        if not self._transfer_sent and progress.match_index == self._core.journal.last_index:
            # From here on the target's election ignores promises: no lease may exist any more.
            self._transfer_sent = True
            self._lease_until = NEVER
            self._core.send(progress.node, TimeoutNow(kind=TIMEOUT_NOW, term=self._core.term))
        return False

    def begin_transfer(self, to: str | None) -> bool:
        """Hand leadership to `to`, or to the voter that is furthest. Return False if that cannot begin."""
        if not self.serving or self.transfer_to is not None:
            return False
        online = [progress for progress in self._voting if progress.online]
        if to is None:
            target = max(online, key=lambda progress: progress.match_index, default=None)
        else:
            target = next((progress for progress in online if progress.node.id == to), None)
        if target is None:
            return False
        self.transfer_to = target.node.id
        self._transfer_deadline = self._core.clock() + self._settings.election_max_s
        return True

    # -- membership ---------------------------------------------------------------------------------

    def change_members(self) -> None:
        """Take one step towards the target, if the last one is committed. The tick calls this."""
        core = self._core
        if self.target is None or self.transfer_to is not None:
            return
        if not self.serving or core.memberships.index > core.commit_index:
            return
        members = core.memberships.current
        if all(member.votes for member in members) and self.target.keys() == core.group.voters:
            self.target = None
            return
        view = View(core.group.self_id, self._has_caught_up, self._is_online)
        step = next_step(members, self.target, view)
        if isinstance(step, str):
            self.begin_transfer(step)
        elif step is not None:
            self._append_members(step)

    def _append_members(self, members: Members) -> None:
        self._append(MEMBERS + pack(members))
        self._follow_members()

    def _follow_members(self) -> None:
        """Keep the progress of every peer, and of no other replica."""
        core = self._core
        now, next_index = core.clock(), core.journal.last_index + 1
        self.progress = {
            peer.id: self.progress.get(peer.id)
            or Progress(
                node=peer,
                online=peer.id in core.group.online,
                next_index=next_index,
                heard_at=now,
                online_since=now,
            )
            for peer in core.group.peers
        }
        self._voting = [self.progress[peer.id] for peer in core.group.voting_peers]
        self._replication.follow(tuple(self.progress.values()), tuple(self._voting), now)
        self._renew_lease()

    def _is_online(self, peer_id: str) -> bool:
        progress = self.progress[peer_id]
        silence = self._replication.silence(progress, self._core.clock())
        return progress.online and silence <= self._settings.election_max_s

    def _has_caught_up(self, peer_id: str) -> bool:
        """Return whether the peer misses next to nothing. It must also hold the entry that made it a learner:
        without that it must not get a vote."""
        progress = self.progress[peer_id]
        return (
            self._is_online(peer_id)
            and not progress.probing
            and progress.match_index >= self._core.memberships.index
            and self._core.journal.last_index - progress.match_index <= CAUGHT_UP_ENTRIES
        )

    # -- links --------------------------------------------------------------------------------------

    def link_up(self, peer_id: str) -> None:
        progress = self.progress.get(peer_id)
        if progress is not None:
            progress.online = True
            progress.online_since = self._core.clock()
            progress.probe_from(self._core.journal.last_index + 1)
            self._replication.doubt()

    def link_down(self, peer_id: str) -> None:
        """Take the peer out of the lease, at once and before the connection is closed by us: the peer may
        take its end for our death, forget its promise and vote."""
        progress = self.progress.get(peer_id)
        if progress is not None:
            progress.online = False
            progress.echoed_at = NEVER
            progress.probe_from(self._core.journal.last_index + 1)
            self._replication.doubt()
            self._renew_lease()

    def peers_status(self) -> dict[str, Any]:
        now, last_index = self._core.clock(), self._core.journal.last_index
        return {
            peer_id: {
                "match_index": progress.match_index,
                "lag": last_index - progress.match_index,
                "online": progress.online,
                "heard_s_ago": now - progress.heard_at,
                "snapshot": progress.snapshot is not None,
                "has_lost": progress.has_lost,
            }
            for peer_id, progress in self.progress.items()
        }
