"""Control records of the metadata log: who leads, who votes, where a snapshot begins and ends."""

from __future__ import annotations

from uuid import UUID

from kio.schema.k_raft_version_record.v0 import data as kraft_version
from kio.schema.leader_change_message.v0 import data as leader_change0
from kio.schema.leader_change_message.v1 import data as leader_change
from kio.schema.snapshot_footer_record.v0 import data as snapshot_footer
from kio.schema.snapshot_header_record.v0 import data as snapshot_header
from kio.schema.voters_record.v0 import data as voters
from kio.static.primitive import i16, i32, i64, u16

from actors.network.wire import from_plain
from actors.upstream.control_records import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    Voter,
)
from actors.upstream.image import ClusterImage, Unknown
from tests.upstream.log import Log, apply_all, batch, control_batch, record, topic_id


def test_the_last_leader_is_known() -> None:
    log = Log()
    directory = UUID(int=9)
    voter = leader_change.Voter(voter_id=i32(7), voter_directory_id=directory)
    told = {"version": 1, "leader_id": 7, "voters": (), "granting_voters": ()}
    message = leader_change.LeaderChangeMessage(**told | {"voters": (voter,)})
    assert log.apply(control_batch(0, LEADER_CHANGE, message)).leader_id == 7
    older = leader_change0.LeaderChangeMessage(**told | {"version": 0, "leader_id": 8})
    assert log.apply(control_batch(1, LEADER_CHANGE, older, epoch=2)).leader_id == 8
    assert (log.image.offset, log.image.epoch) == (1, 2)


def test_the_voters_of_a_quorum_that_can_change() -> None:
    log = Log()
    level = kraft_version.KRaftVersionRecord(version=i16(0), k_raft_version=i16(1))
    log.apply(control_batch(0, KRAFT_VERSION, level))
    assert log.image.features == {"kraft.version": 1}
    endpoint = {"name": "CONTROLLER", "host": "c", "port": u16(9093)}
    voter = {
        "voter_id": 3,
        "voter_directory_id": UUID(int=3),
        "endpoints": [endpoint],
        "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    }
    told = from_plain(voters.VotersRecord, {"version": 0, "voters": [voter]})
    log.apply(control_batch(1, KRAFT_VOTERS, told))
    assert log.image.voters == {3: Voter(3, UUID(int=3).bytes, (("CONTROLLER", "c", 9093),))}


def test_a_snapshot_ends_with_a_footer() -> None:
    header = snapshot_header.SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(5))
    footer = control_batch(2, SNAPSHOT_FOOTER, snapshot_footer.SnapshotFooterRecord(version=i16(0)))
    topic = batch(1, record("topic", name="a", topic_id=topic_id(1)))
    begun = control_batch(0, SNAPSHOT_HEADER, header) + topic
    image = ClusterImage()
    assert not apply_all(image, begun)
    assert apply_all(image, footer)
    assert list(image.topic_ids) == ["a"]


def test_a_control_record_of_an_unknown_type_is_counted() -> None:
    log = Log()
    footer = snapshot_footer.SnapshotFooterRecord(version=i16(0))
    newer = snapshot_footer.SnapshotFooterRecord(version=i16(3))
    log.apply(control_batch(0, 77, footer))
    log.apply(control_batch(1, SNAPSHOT_FOOTER, newer))
    assert set(log.image.unknown) == {
        Unknown("control record of type 77; the type is not known here", 0),
        Unknown("SnapshotFooterRecord version 3, which is not read here", 0),
    }
