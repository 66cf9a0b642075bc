"""What is kept of pysyncobj 0.3.17, under readable names, and nothing of what is replaced.

What is kept is the object's life (construction, destruction), role, term, vote, leader, log, commit and
applied positions, the election deadline, the node and transport interfaces. raft.py replaces every message
handler, the tick, elections, replication and snapshots. No command, message or snapshot is ever pickled.

pysyncobj keeps its state in private members, so the version is pinned and checked at import.
"""

from __future__ import annotations

import _socket
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from pysyncobj import syncobj
from pysyncobj.config import SyncObjConf
from pysyncobj.version import VERSION

from storage.raft.journal import Journal
from storage.raft.members import Members

# Importing pysyncobj replaces this function, for the whole process, by one that works on Windows only.
vars(socket)["inet_ntop"] = _socket.inet_ntop

SUPPORTED_VERSION: Final = "0.3.17"
if VERSION != SUPPORTED_VERSION:
    raise ImportError(f"pysyncobj {SUPPORTED_VERSION} is needed and {VERSION} is installed")

FOLLOWER: Final = 0
CANDIDATE: Final = 1
LEADER: Final = 2
ROLE_NAMES: Final = ("follower", "candidate", "leader")

REGULAR: Final = b"\x00"
NO_OP: Final = b"\x01"
MEMBERS: Final = b"\x02"
"""The first byte of a command with a membership, as in pysyncobj's _COMMAND_TYPE. A command is for the state
machine, for nobody, or the group's membership from this entry on."""

if TYPE_CHECKING:

    class Node:
        """A replica as a transport knows it."""

        id: str

        def __init__(self, node_id: str, /) -> None: ...

    class Transport:
        """pysyncobj's interface of a transport; `_arrived`, `_connected` and `_disconnected` tell Raft."""

        def __init__(self, sync_obj: Any, self_node: Any, other_nodes: Any) -> None: ...
        def _arrived(self, node: Node, message: Any) -> object: ...
        def _connected(self, node: Node) -> None: ...
        def _disconnected(self, node: Node) -> None: ...
        def send(self, node: Node, message: Any) -> bool: ...
        def destroy(self) -> None: ...
        def setOnMessageReceivedCallback(  # noqa: N802 (pysyncobj's name)
            self, callback: Callable[[Node, Any], object], /
        ) -> None: ...

    class SyncObj:
        def __init__(self, own: Node, others: list[Node], conf: Any, *, transport: Transport) -> None: ...
        def destroy(self) -> None: ...

else:
    from pysyncobj.node import Node as _Node
    from pysyncobj.syncobj import SyncObj
    from pysyncobj.transport import Transport as _Transport

    class Node(_Node):
        """A node whose id is found without a call: every message that leaves or arrives looks it up."""

        id = None

        def __init__(self, node_id: str) -> None:
            super().__init__(node_id)
            vars(self)["id"] = node_id

    class Transport(_Transport):
        def setOnMessageReceivedCallback(self, callback: Any) -> None:  # noqa: N802 (pysyncobj's name)
            super().setOnMessageReceivedCallback(callback)
            self._arrived = callback  # pysyncobj's way there costs a call for each message

        _connected = _Transport._onNodeConnected
        _disconnected = _Transport._onNodeDisconnected


class RaftTransport(Transport):
    """A transport that can also tell a connection closed by the peer's host from one that was cut.

    `_arrived` gives Raft a message, and returns True if Raft needs no tick for its sake."""

    on_peer_lost: Callable[[str], None] | None = None
    """A function that is called with the peer's id after `_disconnected` when its host closed the connection:
    its process is gone or hung up on us. A cut link must not be reported here (Raft relies on it: see
    votes.py)."""

    def set_members(self, members: Members) -> None:
        """Keep links to these members, ourselves excepted. This is called when Raft is made and whenever its
        membership changes. Proven senders that are not among them are heard all the same: whoever lags behind
        may not know its leader yet."""
        raise TypeError(f"{type(self).__name__} keeps no links")


_create_journal = syncobj.createJournal


def _given_journal(journal: Any) -> Any:
    return journal if isinstance(journal, _Log) else _create_journal(journal)


syncobj.createJournal = _given_journal  # this is the one way to hand pysyncobj a journal of our own


class _Log:
    """Our journal as pysyncobj's constructor reads it. The entry at the base stands for what is compacted,
    so that the log is never empty (pysyncobj would add an entry of its own)."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __len__(self) -> int:
        return 1 + self._journal.last_index - self._journal.base_index

    def __getitem__(self, position: int) -> tuple[bytes, int, int]:
        assert position in (0, -1), "pysyncobj only looks at the ends"
        if position == 0:
            return b"", self._journal.base_index, self._journal.base_term
        return b"", self._journal.last_index, self._journal.last_term

    def _destroy(self) -> None:
        self._journal.close()


for _name, _reader in {
    "getCurrentTerm": lambda log: log._journal.term,
    "getVotedForNodeId": lambda log: log._journal.vote,
    # A commit index that outlives the process is never trusted beyond the snapshot.
    "getRaftCommitIndex": lambda log: log._journal.base_index,
}.items():
    setattr(_Log, _name, _reader)


class State(Protocol):
    """What pysyncobj's constructor sets from the log, and Raft keeps (core.py)."""

    role: int
    term: int
    voted_for: str | None
    leader: Node | None
    commit_index: int
    applied_index: int
    election_deadline: float

    def election_timeout(self) -> float: ...


def _kept_as(name: str) -> Any:
    """Return a property for a private member of pysyncobj that now is `name` of the state."""
    return property(
        lambda self: getattr(self._state, name), lambda self, value: setattr(self._state, name, value)
    )


def _replaced_by(name: str) -> Any:
    """Return a stand-in for a private method of pysyncobj that now is our method `name`."""
    return lambda self, *arguments: getattr(self, name)(*arguments)


class Skeleton(SyncObj):
    """pysyncobj's SyncObj without its behaviour."""

    _message_arrived: Callable[[Node, Any], bool]

    _SyncObj__raftState = _kept_as("role")
    _SyncObj__raftCurrentTerm = _kept_as("term")
    _SyncObj__votedForNodeId = _kept_as("voted_for")
    _SyncObj__raftLeader = _kept_as("leader")
    _SyncObj__raftCommitIndex = _kept_as("commit_index")
    _SyncObj__raftLastApplied = _kept_as("applied_index")
    _SyncObj__raftElectionDeadline = _kept_as("election_deadline")

    _SyncObj__onNodeConnected = _replaced_by("_peer_connected")
    _SyncObj__onNodeDisconnected = _replaced_by("_peer_disconnected")
    _tell_lost = _replaced_by("peer_lost")

    def __init__(self, own: Node, state: State, journal: Journal, transport: RaftTransport) -> None:
        self._state = state
        conf = SyncObjConf(
            autoTick=False,
            journalFile=_Log(journal),
            fullDumpFile=None,
            useFork=False,
            pollerType="select",  # nothing is polled; the other pollers would hold a descriptor for nothing
            commandsWaitLeader=False,
            dynamicMembershipChange=False,
        )
        super().__init__(own, [], conf, transport=transport)
        # Messages do not pass through pysyncobj, which would cost a call for each.
        transport.setOnMessageReceivedCallback(self._message_arrived)
        transport.on_peer_lost = self._tell_lost

    def _SyncObj__generateRaftTimeout(self) -> float:  # noqa: N802 (pysyncobj's name)
        return self._state.election_timeout()
