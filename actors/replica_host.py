"""The event loop around one replica: disk, links to peers, Raft and shard, turned once per loop iteration.

The offsets partition's actor and the controller are the same machine with another shard. Whatever happens
(a request, a peer's message, a finished sync, a timer) calls `wake`; the next `turn` fires timers, makes
one Raft entry of what was decided, and lets Raft send and commit.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from actors.clock import steady_clock_ms
from actors.contract import Shard, Token
from actors.replica import RecordType, Replica
from actors.spec import TierSpec
from storage.disk import Disk, Worker
from storage.errors import JournalLost
from storage.journal import SEGMENT_SUFFIX, Identity, Journal
from storage.raft import Raft, RaftConfig
from storage.snapshot import SnapshotStore
from storage.transport import PeerTransport

log = logging.getLogger("groupd.replica")

TURN_LATE_MS = 1
NOT_AT_ALL = float("inf")
DISK_LOOK_INTERVAL_S = 3.0
FULL_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
EXIT_RESTART = 70
"""Any exit but that of a stop makes Ray start the actor again."""


class ReplicaHost:
    """Replica `replica_id` of `group` ("controller" or "partition-<p>").

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
        on_turn: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.group = group
        self.replica_id = replica_id
        self.nodes = spec.replicas(group)
        """Node ids of all replicas, by replica id."""
        self.node_id = self.nodes[replica_id]
        self.now_ms = steady_clock_ms()
        self.replica = Replica(
            new_shard=new_shard,
            record_types=record_types,
            release=release,
            clock_ms=self.now_ms,
            on_events=on_events,
        )
        self.raft: Raft | None = None
        self._on_turn = on_turn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: PeerTransport | None = None
        self._turn_is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NOT_AT_ALL
        self._disk_timer: asyncio.TimerHandle | None = None
        self._stopped = False

    async def start(self) -> None:
        """Open the disk, replay, join the peers. Raises what is wrong, in words."""
        loop = self._loop = asyncio.get_running_loop()
        spec, settings = self.spec, self.spec.raft
        directory = Path(spec.data_dir) / f"node-{self.node_id}" / f"{self.group}-{self.replica_id}"
        self._refuse_amnesia(directory / "journal")
        disk, identity = Disk(), Identity(tier_id=spec.tier_id, replica_id=f"{self.group}-{self.replica_id}")
        journal = Journal(
            disk,
            str(directory / "journal"),
            identity,
            executor=Worker("journal-sync") if settings.journal_sync else None,
            notify=self._wake_from_thread,
            segment_bytes=settings.journal_segment_bytes,
        )
        self._began.touch()
        snapshots = SnapshotStore(
            disk,
            str(directory / "snapshot"),
            identity,
            executor=Worker("snapshot-save"),
            notify=self._wake_from_thread,
        )
        peers = {
            str(other): spec.raft_address(self.group, other)
            for other in range(len(self.nodes))
            if other != self.replica_id
        }
        self._transport = PeerTransport(
            loop,
            str(self.replica_id),
            spec.raft_address(self.group, self.replica_id),
            peers,
            spec.raft_secret(self.group),
            self.wake,
        )
        self.raft = Raft(
            self_id=str(self.replica_id),
            peer_ids=tuple(peers),
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
        await self._transport.start()
        self.wake()
        self._disk_timer = loop.call_later(DISK_LOOK_INTERVAL_S, self._look_at_disk)

    @property
    def _began(self) -> Path:
        """There from the replica's first start in this life of the tier on, apart from its data."""
        return Path(self.spec.run_dir) / f"{self.group}-{self.replica_id}.began"

    def _refuse_amnesia(self, directory: Path) -> None:
        """Raises JournalLost if the journal is gone from under a replica that has made promises: with an
        empty one it would vote for a leader that lacks what it had acknowledged."""
        if any(directory.glob(f"*{SEGMENT_SUFFIX}")):
            return
        if self.spec.formed or self._began.exists():
            raise JournalLost(
                f"{directory} holds no journal, but {self.group}-{self.replica_id} took part before and may "
                "have acknowledged what only it held: put the directory back, or give that up and start the "
                "tier once with --set accept.loss=true"
            )

    async def stop(self) -> None:
        """Hand leadership on if there is somebody to take it, then close links and disk."""
        if self._stopped or self._loop is None:
            return
        raft = self.raft
        if raft is not None and raft.is_leader and len(self.nodes) > 1:
            raft.transfer()
            deadline = self._loop.time() + 0.5
            while raft.is_leader and self._loop.time() < deadline:
                await asyncio.sleep(0.005)
        self._stopped = True
        for timer in (self._timer, self._disk_timer):
            if timer is not None:
                timer.cancel()
        if raft is not None:
            raft.close()
        if self._transport is not None:
            await self._transport.close()

    def health(self) -> dict[str, Any]:
        """What the statuses of partition replicas and controllers have in common, once Raft is up."""
        raft = self.raft
        assert raft is not None
        peers = raft.status()
        return {
            "role": peers["role"],
            "problem": peers["failure"],
            "term": raft.term,
            "last_index": raft.last_index,
            "commit_index": raft.commit_index,
            "applied_index": raft.applied_index,
            "lag": {self.nodes[int(peer)]: each["lag"] for peer, each in peers.get("peers", {}).items()},
        }

    @property
    def leader_replica(self) -> int | None:
        leader_id = None if self.raft is None else self.raft.leader_id
        return None if leader_id is None else int(leader_id)

    @property
    def leader_node(self) -> int | None:
        leader = self.leader_replica
        return None if leader is None else self.nodes[leader]

    def wake(self) -> None:
        """Ask for a turn at the end of this loop iteration."""
        if not self._turn_is_due and not self._stopped and self._loop is not None:
            self._turn_is_due = True
            self._loop.call_soon(self._turn)

    def _wake_from_thread(self) -> None:
        """A sync has ended, in its thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.wake)

    def _look_at_disk(self) -> None:
        """Leave, to be started anew by Ray, once a disk that was full has room for a segment again.

        Only a full disk passes: what a disk still holds after it failed to sync is not known, so that such
        a replica waits for the operator. What was acknowledged is in the journal, and nothing else counts.
        """
        assert self._loop is not None
        assert self.raft is not None
        failure = self.raft.status()["failure"] or ""
        was_full = any(f"[Errno {number}]" in failure for number in FULL_DISK_ERRNOS)
        if was_full and "sync failed" not in failure:
            free_bytes = shutil.disk_usage(self.spec.data_dir).free
            if free_bytes > self.spec.raft.journal_segment_bytes:
                log.critical("%s-%s: there is space again, starting anew", self.group, self.replica_id)
                os._exit(EXIT_RESTART)
        self._disk_timer = self._loop.call_later(DISK_LOOK_INTERVAL_S, self._look_at_disk)

    def _turn(self) -> None:
        self._turn_is_due = False
        raft, replica = self.raft, self.replica
        if self._stopped or raft is None:
            return
        try:
            replica.run_timers(self.now_ms())
            replica.flush()
            raft.tick()
            replica.flush()
            self._on_turn()
        except Exception:
            # A replica that failed to apply must not go on answering: Ray starts a new one, which replays.
            log.critical("%s-%s: fatal, leaving", self.group, self.replica_id, exc_info=True)
            os._exit(EXIT_RESTART)
        self._arm()

    def _arm(self) -> None:
        assert self._loop is not None
        assert self.raft is not None
        at = self.raft.next_tick_at
        deadline_ms = self.replica.next_deadline_ms
        if deadline_ms is not None:
            in_ms = max(deadline_ms - self.now_ms() + TURN_LATE_MS, TURN_LATE_MS)
            at = min(at, self._loop.time() + in_ms / 1000)
        if at <= self._loop.time():
            self.wake()
            return
        if at == NOT_AT_ALL or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.wake()
