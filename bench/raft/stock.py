"""A replica of stock pysyncobj, used as its manual shows: a battery's methods, with its own thread and
sockets.

This process must not import groupd's storage, which replaces parts of pysyncobj.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.batteries import ReplDict

from bench.raft.engine import ELECTION_MAX_S, ELECTION_MIN_S, HEARTBEAT_S, Done, Options, some_records

LEADER: Final = 2
SUCCESS: Final = 0
TUNED: Final[dict[str, Any]] = {
    "autoTickPeriod": 0.01,
    # Without batches a command is sent when it comes instead of with the next heartbeat.
    "appendEntriesUseBatch": False,
    "appendEntriesPeriod": HEARTBEAT_S,
    "raftMinTimeout": ELECTION_MIN_S,
    "raftMaxTimeout": ELECTION_MAX_S,
    "leaderFallbackTimeout": ELECTION_MAX_S,
    "connectionTimeout": ELECTION_MAX_S,
    "connectionRetryTime": 0.05,
    "appendEntriesBatchSizeBytes": 2**20,
    "sendBufferSize": 2**20,
    "recvBufferSize": 2**20,
}
GROWS: Final[dict[str, Any]] = {"logCompactionMinEntries": 2**60, "logCompactionMinTime": 2**60}


class Stock:
    """The engine of stock pysyncobj, as bench.raft.engine.Engine says. Proposals may come from any thread;
    results come in pysyncobj's."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._machine = ReplDict()
        self._ended = threading.Event()
        self._opened_s = 0.0
        self._records = some_records()
        self._due: deque[Callable[[], None]] = deque()
        self._acts: list[Callable[[], None]] = []

    def run(self, ready: Callable[[], None]) -> None:
        began = time.monotonic()
        addresses = [f"127.0.0.1:{port}" for port in self._options.ports]
        own = addresses.pop(self._options.number)
        self._raft = SyncObj(own, addresses, self._settings(), consumers=[self._machine])
        self._raft.addOnTickCallback(self._run_due)
        self._opened_s = time.monotonic() - began
        ready()
        self._ended.wait()

    def _settings(self) -> Any:
        options = self._options
        # A journal without a dump file forgets what was compacted: a restarted replica would stay empty.
        names = {"journalFile": "journal", "fullDumpFile": "dump"} if options.durable else {}
        files = {setting: os.path.join(options.directory, name) for setting, name in names.items()}
        tuned = TUNED if options.tuned else {}
        grows = {} if options.compacts else GROWS
        return SyncObjConf(onStateChanged=self._role_changed, **files, **tuned, **grows)

    def stop(self) -> None:
        self._ended.set()

    def call(self, work: Callable[[], None]) -> None:
        """Run `work` in pysyncobj's thread, before it next waits for its sockets."""
        self._due.append(work)

    def _run_due(self) -> None:
        while self._due:
            self._due.popleft()()

    def submit(self, records: int, done: Done) -> None:
        if self._options.grouped:
            self._machine.set(0, self._records[:records], callback=_outcome(records, done))
            return
        outcome = _outcome(1, done)
        for record in self._records[:records]:
            self._machine.set(0, record, callback=outcome)

    def status(self) -> dict[str, Any]:
        raft = self._raft
        leads = raft._isLeader()
        journal = os.path.join(self._options.directory, "journal")
        return {
            "leads": leads,
            "serving": leads and raft.raftLastApplied == raft.raftCommitIndex > 1,
            "follows": raft._getLeader() is not None,
            "applied": raft.raftLastApplied,
            "journal_bytes": os.path.getsize(journal) if self._options.durable else 0,
            "opened_s": self._opened_s,
        }

    def transfer(self) -> bool:
        outcome: list[int] = []
        self._raft.transferLeadership(None, lambda _, error: outcome.append(error))
        return outcome == [SUCCESS]

    def when_leading(self, act: Callable[[], None]) -> None:
        self._acts.append(act)
        if self._raft._isLeader():
            self._act()

    def _role_changed(self, old: int, new: int) -> None:
        if new == LEADER:
            self._act()

    def _act(self) -> None:
        acts, self._acts = self._acts, []
        for act in acts:
            act()


def _outcome(records: int, done: Done) -> Callable[[Any, int], None]:
    def told(_: Any, error: int) -> None:
        done(records if error == SUCCESS else 0)

    return told
