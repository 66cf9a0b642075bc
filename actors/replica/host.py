"""The event loop around one replica: disk, links to peers, Raft and shard, with one turn per loop iteration.

The offsets partition's actor and the controller are the same machine with another shard. Whatever happens
(a request, a peer's message, a finished sync) calls `wake`; what a turn does is said in turn.py.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.ground.clock import steady_clock_ms
from actors.ground.contract import Shard, Token
from actors.ground.limits import MIB
from actors.ground.spec import NodeSpec, TierSpec
from actors.metrics.histogram import Histogram
from actors.replica.entry import RecordType
from actors.replica.log_level import REST_LEVEL, check_entry
from actors.replica.replica import Replica
from actors.replica.sync_watch import SyncWatch
from actors.replica.turn import Turns
from storage.raft.disk import Disk, Worker
from storage.raft.journal import SEGMENT_SUFFIX, Genesis, Identity, Journal
from storage.raft.members import FOUNDING_INCARNATION, Member, Members, founders, member_id, pack, replica_of
from storage.raft.raft import Raft, RaftConfig
from storage.raft.skeleton import MEMBERS, REGULAR
from storage.raft.snapshot import SnapshotStore
from storage.raft.transport import LinkIdentity, LinkTls, PeerTransport

if TYPE_CHECKING:
    from storage.raft.injected import InjectedFaults

log = logging.getLogger("groupd.replica")

DISK_LOOK_INTERVAL_S = 3.0
DISK_RETRY_S = 30.0
"""How long, in seconds, a failed disk is waited for before the actor starts anew: a disk that fails for good
costs a start this often."""
FULL_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
EXIT_RESTART = 70
"""The exit code with which Ray starts the actor again: any exit but that of a stop does."""


def _nothing() -> None:
    """Do nothing: the replica has not been started, or nobody wants to know."""


class ReplicaHost:
    """The host of replica `replica_id` of `group` ("controller" or "partition-<p>").

    `on_turn` is called at the end of every turn: the place to look for changes of leadership.
    """

    def __init__(
        self,
        spec: TierSpec,
        group: str,
        replica_id: int,
        *,
        new_shard: Callable[[], Shard],
        record_types: dict[int, RecordType],
        release: Callable[[Token, Any], None],
        on_events: Callable[[Sequence[Any]], None],
        on_turn: Callable[[], None] = _nothing,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.spec = spec
        self.group = group
        self.replica_id = replica_id
        self.node_id = spec.node_of(group, replica_id)
        self._present = spec
        """The spec with the nodes of now, at which peers are called."""
        self._faults: InjectedFaults | None = None
        self._disk = Disk()
        self.now_ms = now_ms or steady_clock_ms()
        if spec.raft.faults_file:
            from storage.raft.injected import InjectedFaults  # here, because only a chaos run has faults

            self._faults = InjectedFaults(Path(spec.raft.faults_file), group, replica_id)
            self._disk = self._faults.disk()
            self.now_ms = self._faults.clock(self.now_ms)
        self.replica = Replica(
            new_shard=new_shard,
            record_types=record_types,
            release=release,
            clock_ms=self.now_ms,
            on_events=on_events,
        )
        self.raft: Raft | None = None
        self.member_id = ""
        """The member's id, "<replica>.<incarnation>", once the directory is open."""
        self.turn_times = Histogram()
        self.on_turn = on_turn
        self.wake: Callable[[], None] = _nothing
        """What asks for a turn at the end of this loop iteration."""
        self.arm: Callable[[], None] = _nothing
        """What sees that a turn comes when the next timer is due: a deadline of the shard may have come
        nearer."""
        self.let_clients_go: Callable[[], None] = _nothing
        """What ends the clients' connections when a disk hangs under the leader; called in another thread."""
        self._watch: SyncWatch | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: PeerTransport | None = None
        self._turns: Turns | None = None
        self._disk_timer: asyncio.TimerHandle | None = None
        self._failed_at: float | None = None
        self._stopped = False
        self._may_rest = False
        """Whether Raft knows that it may rest: levels only rise."""
        self._leader_of: tuple[str | None, Members, int | None] = (None, (), None)
        """A leader and the members that it was found among, with its node: every turn asks for it."""

    async def start(self) -> None:
        """Open the disk, replay the journal, join the peers. Raises what is wrong, in words."""
        loop = self._loop = asyncio.get_running_loop()
        spec, settings = self.spec, self.spec.raft
        directory = self.directory
        identity = Identity(tier_id=spec.tier_id, replica_id=f"{self.group}-{self.replica_id}")
        journal = self._open_journal(identity)
        self._check_level(journal)
        self.member_id = member_id(self.replica_id, journal.incarnation)
        self._go_on_alone(journal)
        self._began.touch()
        snapshots = SnapshotStore(
            self._disk,
            str(directory / "snapshot"),
            identity,
            executor=Worker("snapshot-save"),
            notify=self._wake_from_thread,
        )
        self._transport = PeerTransport(
            loop,
            LinkIdentity(spec.tier_id, self.group, self.member_id),
            spec.raft_address(self.group, self.replica_id, self.node_id),
            self._address_of,
            spec.raft_secret(self.group),
            _nothing,
            tls=self._link_tls(),
            faults=self._faults,
        )
        self.raft = Raft(
            self_id=self.member_id,
            transport=self._transport,
            journal=journal,
            snapshots=snapshots,
            machine=self.replica,
            clock=loop.time,
            random=random.Random(os.urandom(16)),
            settings=RaftConfig(
                heartbeat_s=settings.heartbeat_ms / 1000,
                election_min_s=settings.election_timeout_min_ms / 1000,
                election_max_s=settings.election_timeout_max_ms / 1000,
                snapshot_journal_bytes_min=settings.snapshot_journal_bytes_min,
            ),
        )
        self.replica.log = self.raft
        turns = self._turns = Turns(loop, self.raft, self.replica, self.now_ms, self._run)
        # These are called for every request or message, so there is nothing in between.
        self.wake, self.arm, self._transport.on_activity = turns.wake, turns.arm, turns.heard
        await self._transport.start()
        self.wake()
        self._disk_timer = loop.call_later(DISK_LOOK_INTERVAL_S, self._look_at_disk)

    def _open_journal(self, identity: Identity) -> Journal:
        settings = self.spec.raft
        self._watch = SyncWatch(settings.election_timeout_max_ms / 1000, self._hangs)
        return Journal(
            self._disk,
            str(self.directory / "journal"),
            identity,
            executor=Worker("journal-sync") if settings.journal_sync else None,
            notify=self._wake_from_thread,
            segment_bytes=settings.journal_segment_bytes,
            genesis=self._genesis(),
            on_progress=self._tell_progress,
            wait_for=self._watch,
        )

    @property
    def _began(self) -> Path:
        return Path(self.spec.began(self.group, self.replica_id))

    @property
    def directory(self) -> Path:
        """Return the folder of the replica's journal and snapshot."""
        return Path(self.spec.directory(self.group, self.replica_id, self.node_id))

    def _genesis(self) -> Genesis:
        """Return what a directory without a journal is to be: one of the founders of a new tier; or, if this
        replica took part before (or was added later), a newcomer: under the old name it would vote for a
        leader that lacks what it had acknowledged. An existing journal knows, except one of format version 1,
        which only founders have."""
        has_journal = any((self.directory / "journal").glob(f"*{SEGMENT_SUFFIX}"))
        if has_journal or not (self.spec.formed or self._began.exists()):
            return Genesis(FOUNDING_INCARNATION, founders(dict(self.spec.copies(self.group))))
        incarnation = secrets.randbits(62) | 1 << 62
        return Genesis(incarnation, ())

    def _tell_progress(self, bytes_done: int, bytes_total: int) -> None:
        """Log how much of the journal is read, if there is much to read."""
        log.info(
            "%s-%d: %d of %d MiB of the journal read",
            self.group,
            self.replica_id,
            bytes_done // MIB,
            bytes_total // MIB,
        )

    def _check_level(self, journal: Journal) -> None:
        """Check that this release reads what the log says last: levels only rise. Raises ReleaseTooOld."""
        for index in range(journal.last_index, journal.base_index, -1):
            command = journal.entry(index)[0]
            if command[:1] == REGULAR:
                check_entry(command[1:], f"the log of {self.group}-{self.replica_id}")
                return

    def _go_on_alone(self, journal: Journal) -> None:
        """Write the membership of an emergency into the log: this replica and nobody else. This is done only
        once, since others are taken in afterwards.

        The membership is an entry of a term of its own, for which this replica has voted: no other log has
        another one in its place. A member of before that comes back is a learner first, as any newcomer.
        """
        marker = self._began.with_suffix(".alone")
        if self.spec.alone != (self.group, self.replica_id) or marker.exists():
            return
        log.critical("%s-%s goes on alone: its group's majority is given up", self.group, self.replica_id)
        term = max(journal.term, journal.last_term) + 1
        journal.set_hard_state(term, self.member_id)
        members = (Member(self.member_id, self.node_id, True),)
        journal.append((MEMBERS + pack(members), journal.last_index + 1, term))
        marker.touch()

    def _address_of(self, member: Member) -> str:
        return self._present.raft_address(self.group, replica_of(member.member_id), member.node_id)

    def learn_nodes(self, nodes: tuple[NodeSpec, ...]) -> None:
        """Call peers where these nodes are, from the next call on."""
        self._present = self.spec._replace(nodes=nodes)

    def _link_tls(self) -> LinkTls | None:
        raft = self.spec.raft
        if self.spec.raft_port_base is None or not raft.tls_certificate:
            return None
        return LinkTls(raft.tls_certificate, raft.tls_key, raft.tls_ca)

    def set_members(self, target: Mapping[str, int]) -> None:
        """Work towards these members (id -> node id) if this replica leads."""
        if self.raft is not None:
            self.raft.set_target(target)
            self.wake()

    async def stop(self) -> None:
        """Hand leadership on if there is somebody to take it, then close links and disk."""
        if self._stopped or self._loop is None:
            return
        raft = self.raft
        if raft is not None and raft.is_leader and len(raft.members) > 1:
            raft.transfer()
            deadline = self._loop.time() + 0.5
            while raft.is_leader and self._loop.time() < deadline:
                await asyncio.sleep(0.005)
        self._stopped = True
        if self._turns is not None:
            self._turns.end()
        if self._disk_timer is not None:
            self._disk_timer.cancel()
        if raft is not None:
            raft.close()
        if self._transport is not None:
            await self._transport.close()
        if self._watch is not None:
            self._watch.close()
        if self._faults is not None:
            self._faults.close()

    def health(self) -> dict[str, Any]:
        """Return what the statuses of partition replicas and controllers have in common, once Raft is up."""
        raft = self.raft
        assert raft is not None
        peers = raft.status()
        # A replica may be there twice for a while: as the voter that it was, and under its new name, which
        # counts.
        votes = {member.member_id: member.votes for member in raft.members}
        by_vote = sorted(peers.get("peers", {}).items(), key=lambda item: not votes[item[0]])
        lags = {peer: each["lag"] for peer, each in by_vote}
        lost = {peer for peer, each in by_vote if each["has_lost"]}
        return {
            "role": peers["role"],
            "problem": peers["failure"],
            "member_id": self.member_id,
            "members": [
                {**member, "lag": lags.get(member["id"]), "has_lost": member["id"] in lost}
                for member in peers["members"]
            ],
            "members_committed": peers["members_committed"],
            "term": raft.term,
            "last_index": raft.last_index,
            "last_term": raft.last_term,
            "commit_index": raft.commit_index,
            "applied_index": raft.applied_index,
            "lag": {replica_of(peer): lag for peer, lag in lags.items()},
        }

    def activity(self) -> dict[str, int]:
        """Return how many turns this replica has taken, and how many messages of its peers."""
        heard = 0 if self._transport is None else self._transport.taken
        return {"turns": sum(self.turn_times.counts), "heard": heard}

    @property
    def leader_replica(self) -> int | None:
        leader_id = None if self.raft is None else self.raft.leader_id
        return None if leader_id is None else replica_of(leader_id)

    @property
    def leader_node(self) -> int | None:
        if self.raft is None:
            return None
        leader_id, members = self.raft.leader_id, self.raft.members
        if leader_id != self._leader_of[0] or members is not self._leader_of[1]:
            found = (each.node_id for each in members if each.member_id == leader_id)
            self._leader_of = leader_id, members, next(found, None)
        return self._leader_of[2]

    def _wake_from_thread(self) -> None:
        """Ask for a turn from a worker's thread, in which a sync has ended."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.wake)

    def _hangs(self) -> None:
        """Let the clients go if the disk hangs under a leader of several: by now, others can have elected
        another one. Called in the thread of the watch, while the loop hangs."""
        if self.replica.serving and self.raft is not None and len(self.raft.members) > 1:
            self.let_clients_go()

    def _look_at_disk(self) -> None:
        """Look for a failed write or sync, and leave when it is time to be started anew by Ray.

        A full disk is waited for until it has room for a segment. Any other failure is tried again after a
        while: never by another sync (one that succeeds proves nothing), but by reading what is there and
        writing again all that is not known to be on the disk.
        """
        assert self._loop is not None
        assert self.raft is not None
        failure = self.raft.status()["failure"]
        if failure is not None:
            self._failed_at = self._failed_at or self._loop.time()
            was_full = any(f"[Errno {number}]" in failure for number in FULL_DISK_ERRNOS)
            if was_full:
                free_bytes = self._disk.free_bytes(self.spec.data_dir)
                is_time = free_bytes > self.spec.raft.journal_segment_bytes
            else:
                is_time = self._loop.time() - self._failed_at > DISK_RETRY_S
            if is_time:
                log.critical("%s-%d: starting anew after: %s", self.group, self.replica_id, failure)
                os._exit(EXIT_RESTART)
        self._disk_timer = self._loop.call_later(DISK_LOOK_INTERVAL_S, self._look_at_disk)

    def _run(self, turn: Callable[[], None]) -> bool:
        """Time one turn, and end the process if the turn fails. Return True: a process that lives goes on."""
        began_ns = time.perf_counter_ns()
        try:
            turn()
            self.on_turn()
            if not self._may_rest and self.raft is not None and self.replica.level.known >= REST_LEVEL:
                self._may_rest = True
                self.raft.learn_to_rest()
        except Exception:
            # A replica that failed to apply must not go on answering: Ray starts a new one, which replays.
            log.critical("%s-%s: fatal, leaving", self.group, self.replica_id, exc_info=True)
            os._exit(EXIT_RESTART)
        self.turn_times.observe(time.perf_counter_ns() - began_ns)
        return True
