"""The control records of the metadata log, which the controllers' Raft writes about itself (KIP-595, KIP-630,
KIP-853). PURE.
"""

import struct
from typing import Any, Final, NamedTuple

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage as LeaderChangeMessage0
from kio.schema.leader_change_message.v1.data import LeaderChangeMessage as LeaderChangeMessage1
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.voters_record.v0.data import VotersRecord

from actors.protocol.entity_reading import entity_reader
from actors.protocol.errors import MalformedRequest
from actors.topics.batch_contents import control_type
from actors.upstream.records import id_bytes

LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 2, 3, 4, 5, 6
"""The types of control records, as org.apache.kafka ControlRecordType numbers them."""
_NAMES: Final = {
    LEADER_CHANGE: "LeaderChangeMessage",
    SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    KRAFT_VERSION: "KRaftVersionRecord",
    KRAFT_VOTERS: "VotersRecord",
}
_CLASSES: Final[dict[tuple[int, int], Any]] = {
    (LEADER_CHANGE, 0): LeaderChangeMessage0,
    (LEADER_CHANGE, 1): LeaderChangeMessage1,
    (SNAPSHOT_HEADER, 0): SnapshotHeaderRecord,
    (SNAPSHOT_FOOTER, 0): SnapshotFooterRecord,
    (KRAFT_VERSION, 0): KRaftVersionRecord,
    (KRAFT_VOTERS, 0): VotersRecord,
}
_VERSION: Final = struct.Struct(">h")


class LeaderChange(NamedTuple):
    """A controller became the active one."""

    leader_id: int


class SnapshotHeader(NamedTuple):
    """A snapshot begins."""

    last_contained_log_timestamp_ms: int


class SnapshotFooter(NamedTuple):
    """A snapshot is whole."""


class KRaftVersion(NamedTuple):
    """The level of kraft.version. It has no record among the other features."""

    level: int


class Voter(NamedTuple):
    """A controller that votes, with where it is reached: (listener, host, port)."""

    controller_id: int
    directory_id: bytes
    endpoints: tuple[tuple[str, str, int], ...]


class Voters(NamedTuple):
    """Who votes from now on, in a quorum that can change (kraft.version 1)."""

    voters: tuple[Voter, ...]


Control = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | Voters


def decode_control(key: bytes | None, value: bytes | None) -> Control | str:
    """Read a control record; return words about one that cannot be read."""
    kind = control_type(key)
    if kind not in _NAMES or value is None or len(value) < _VERSION.size:
        return f"control record of type {kind}; the type is not known here"
    (version,) = _VERSION.unpack_from(value)
    found = _CLASSES.get((kind, version))
    if found is None:
        return f"{_NAMES[kind]} version {version}, which is not read here"
    try:
        fields, _ = entity_reader(found)(value, 0)
    except (IndexError, struct.error, MalformedRequest, UnicodeDecodeError):
        return f"a damaged {_NAMES[kind]}"
    return _control(kind, fields)


def _control(kind: int, fields: Any) -> Control:
    match kind:
        case 2:
            return LeaderChange(fields.leader_id)
        case 3:
            return SnapshotHeader(fields.last_contained_log_timestamp)
        case 4:
            return SnapshotFooter()
        case 5:
            return KRaftVersion(fields.k_raft_version)
    voters = (
        Voter(
            voter.voter_id,
            id_bytes(voter.voter_directory_id),
            tuple((each.name, each.host, each.port) for each in voter.endpoints),
        )
        for voter in fields.voters
    )
    return Voters(tuple(voters))
