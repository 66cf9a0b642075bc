"""What replicas of one Raft group say to each other, and the check of what arrives.

Every message begins with its kind and its sender's term. Times are seconds of the sender's own clock and
only ever come back to it. Entries travel as they lie in the log: (command, index, term).
"""

from typing import Any, Final, NamedTuple

from msgpack import UnpackException

from storage.raft.errors import BadMessage
from storage.raft.members import unpack
from storage.raft.records import Entry
from storage.raft.skeleton import MEMBERS

PRE_VOTE: Final = 1
PRE_VOTE_ANSWER: Final = 2
VOTE: Final = 3
VOTE_ANSWER: Final = 4
APPEND: Final = 5
APPEND_ANSWER: Final = 6
CHUNK: Final = 7
CHUNK_ANSWER: Final = 8
TIMEOUT_NOW: Final = 9
REST: Final = 10

REST_S_MAX: Final = 10.0
"""The longest silence, in seconds, that a leader may announce."""


class PreVote(NamedTuple):
    """The question whether a member would vote for the sender in `term + 1`. It changes nothing on either
    side."""

    kind: int
    term: int
    last_index: int
    last_term: int


class PreVoteAnswer(NamedTuple):
    kind: int
    term: int
    asked_term: int
    granted: bool


class Vote(NamedTuple):
    """The request to vote for the sender in `term`."""

    kind: int
    term: int
    last_index: int
    last_term: int
    transfer: bool
    """Whether the leader itself asked for this election, and serves no more reads in its term."""


class VoteAnswer(NamedTuple):
    kind: int
    term: int
    granted: bool


class Append(NamedTuple):
    """Entries that follow `previous_index`, perhaps none (heartbeat or probe)."""

    kind: int
    term: int
    sent_at: float
    commit_index: int
    previous_index: int
    previous_term: int
    entries: tuple[Entry, ...]


class AppendAnswer(NamedTuple):
    """The answer to Append. `success` says that the log agrees with the leader's at `previous_index`; if not,
    `last_index` and `commit_index` say where to try next. `match_index` is verified in this term AND
    durable."""

    kind: int
    term: int
    sent_at: float
    success: bool
    previous_index: int
    match_index: int
    last_index: int
    commit_index: int


class Chunk(NamedTuple):
    """The bytes at `offset` of the snapshot (snapshot_index, snapshot_term, size, crc). `members` is the
    packed membership after the snapshot's last entry."""

    kind: int
    term: int
    sent_at: float
    snapshot_index: int
    snapshot_term: int
    size: int
    crc: int
    members: bytes
    offset: int
    data: bytes


class ChunkAnswer(NamedTuple):
    """The answer to Chunk: the leader is to send `next_offset` of the snapshot at `snapshot_index` next.
    `covered` says that all the snapshot's entries are here."""

    kind: int
    term: int
    sent_at: float
    snapshot_index: int
    next_offset: int
    covered: bool


class TimeoutNow(NamedTuple):
    """The request to campaign at once: the leader hands its leadership over."""

    kind: int
    term: int


class Rest(NamedTuple):
    """A heartbeat of a leader that has nothing to do: it may be silent for `rest_s` longer than usual. It is
    answered by AppendAnswer. Only replicas that know it get it (`Raft.may_rest`)."""

    kind: int
    term: int
    sent_at: float
    commit_index: int
    previous_index: int
    previous_term: int
    rest_s: float

    @property
    def heartbeat(self) -> Append:
        """Return the heartbeat that this is besides."""
        return Append(APPEND, *self[1:6], ())


Message = (
    PreVote
    | PreVoteAnswer
    | Vote
    | VoteAnswer
    | Append
    | AppendAnswer
    | Chunk
    | ChunkAnswer
    | TimeoutNow
    | Rest
)

_SHAPES: Final[dict[int, tuple[type[Any], tuple[type, ...]]]] = {
    PRE_VOTE: (PreVote, (int, int, int, int)),
    PRE_VOTE_ANSWER: (PreVoteAnswer, (int, int, int, bool)),
    VOTE: (Vote, (int, int, int, int, bool)),
    VOTE_ANSWER: (VoteAnswer, (int, int, bool)),
    APPEND: (Append, (int, int, float, int, int, int, tuple)),
    APPEND_ANSWER: (AppendAnswer, (int, int, float, bool, int, int, int, int)),
    CHUNK: (Chunk, (int, int, float, int, int, int, int, bytes, int, bytes)),
    CHUNK_ANSWER: (ChunkAnswer, (int, int, float, int, int, bool)),
    TIMEOUT_NOW: (TimeoutNow, (int, int)),
    REST: (Rest, (int, int, float, int, int, int, float)),
}
new_tuple: Any = tuple.__new__
"""The constructor of tuples, which costs a third of the class's own `_make`; every message of every follower
comes through here."""


def decode(fields: Any) -> Message:
    """Make a message of what a frame held. Raises BadMessage."""
    if type(fields) is not tuple or not fields or type(fields[0]) is not int:
        raise BadMessage("a message begins with its kind")
    kind = fields[0]
    shape = _SHAPES.get(kind)
    if shape is None or tuple(map(type, fields)) != shape[1]:
        raise BadMessage(f"message kind {kind} is unknown or has wrong fields")
    message: Message = new_tuple(shape[0], fields)
    if kind == APPEND:
        if fields[6]:
            _check_entries(fields[4], fields[6])
    elif kind == CHUNK:
        _check_members(fields[7])
    elif kind == REST and not 0 <= fields[6] <= REST_S_MAX:
        raise BadMessage(f"a rest of {fields[6]} s, at most {REST_S_MAX:g} are allowed")
    return message


def _check_entries(previous_index: int, entries: tuple[Any, ...]) -> None:
    index = previous_index
    for entry in entries:
        index += 1
        if type(entry) is not tuple or len(entry) != 3:
            raise BadMessage("an entry is (command, index, term)")
        command, entry_index, term = entry
        if type(command) is not bytes or not command or entry_index != index or type(term) is not int:
            raise BadMessage(f"entry {entry_index!r} where entry {index} belongs")
        if command[:1] == MEMBERS:
            _check_members(command[1:])


def _check_members(packed: bytes) -> None:
    try:
        unpack(packed)
    except (ValueError, UnpackException) as error:
        raise BadMessage(f"a membership that cannot be read: {error}") from None
