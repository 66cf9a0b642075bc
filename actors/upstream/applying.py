"""Apply the upstream cluster's metadata log to the followed image, one batch after the other. PURE.

`apply_batch` is the only way to change an image. Brokers do the same in org.apache.kafka.image (ClusterDelta,
TopicsDelta and the others). A record about something that is not there changes nothing: the log of a cluster
that works has none.

A transaction of the metadata log (KIP-868) stands between two records and may take many batches. Its records
are kept as bytes until the log says how it ended, and then count all together or not at all.
"""

from collections.abc import Callable
from typing import Any, Final

from actors.ground.features import METADATA_VERSION
from actors.ground.limits import METADATA_TRANSACTION_BYTES_MAX
from actors.topics.batch import BatchHeader
from actors.topics.batch_contents import Record, contents
from actors.upstream import cluster_records, topic_records, user_records
from actors.upstream.control_records import KRaftVersion, LeaderChange, SnapshotFooter, Voters, decode_control
from actors.upstream.image import UNKNOWN_KINDS_MAX, ClusterImage, OpenTransaction, Unknown
from actors.upstream.levels import KRAFT_VERSION
from actors.upstream.records import UnknownRecord, decode

BEGIN_TRANSACTION: Final = "begin_transaction"
END_TRANSACTION: Final = "end_transaction"
ABORT_TRANSACTION: Final = "abort_transaction"
TRANSACTIONS: Final = frozenset({BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION})
APPLY: Final[dict[str, Callable[[ClusterImage, Any], None]]] = {
    **cluster_records.APPLY,
    **topic_records.APPLY,
    **user_records.APPLY,
}
"""The name of a record -> what it changes, for all but those of TRANSACTIONS."""
NO_OP: Final = "no_op"
_OTHERS: Final = "records of further kinds"


class TransactionTooLarge(Exception):
    """Raised if an open transaction of the metadata log has more bytes than are kept."""


def apply_batch(image: ClusterImage, header: BatchHeader, batch: bytes) -> bool:
    """Apply one batch that is committed. Return whether it had the footer of a snapshot.

    Raises LogError if the bytes are no batch (the image is as before, or has a part of it: it is of no use
    any more), and TransactionTooLarge.
    """
    if header.is_control:
        found = [_apply_control(image, record) for record in contents(batch, header)]
        if image.open_transaction is None:
            stand_at(image, header.last_offset, header.leader_epoch)
        return any(found)
    for record in contents(batch, header):
        _apply_record(image, record, header.leader_epoch)
    if image.open_transaction is None:
        stand_at(image, header.last_offset, header.leader_epoch)
    return False


def stand_at(image: ClusterImage, offset: int, epoch: int) -> None:
    """Note up to where the image has the log."""
    image.offset, image.epoch = offset, epoch


def _apply_record(image: ClusterImage, record: Record, epoch: int) -> None:
    read = decode(record.value)
    if not isinstance(read, UnknownRecord) and read.name in TRANSACTIONS:
        ended = image.open_transaction
        image.open_transaction = None
        if read.name == BEGIN_TRANSACTION:
            # One that nobody ended counts as aborted: its controller is gone.
            image.open_transaction = OpenTransaction()
            if ended is None:
                stand_at(image, record.offset - 1, epoch)
        elif read.name == END_TRANSACTION and ended is not None:
            for value in ended.values:
                _apply_value(image, value)
    elif (transaction := image.open_transaction) is not None:
        transaction.values.append(record.value)
        transaction.size_bytes += len(record.value or b"")
        if transaction.size_bytes > METADATA_TRANSACTION_BYTES_MAX:
            raise TransactionTooLarge(
                f"a transaction of the metadata log has more than {METADATA_TRANSACTION_BYTES_MAX} bytes"
            )
    else:
        _apply_read(image, read)


def _apply_value(image: ClusterImage, value: bytes | None) -> None:
    _apply_read(image, decode(value))


def _apply_read(image: ClusterImage, read: Any) -> None:
    if isinstance(read, UnknownRecord):
        count_unknown(image, read.what)
    else:
        APPLY[read.name](image, read.fields)
        image.changes += read.name != NO_OP


def _apply_control(image: ClusterImage, record: Record) -> bool:
    """Apply a control record. Return whether it is a snapshot's footer."""
    control = decode_control(record.key, record.value)
    match control:
        case LeaderChange(leader_id):
            image.leader_id = leader_id
        case KRaftVersion(level):
            if level:
                image.features[KRAFT_VERSION] = level
        case Voters(voters):
            image.voters = {voter.controller_id: voter for voter in voters}
        case str(what):
            count_unknown(image, what)
    return isinstance(control, SnapshotFooter)


def count_unknown(image: ClusterImage, what: str) -> None:
    """Count a record that cannot be read, with the level of metadata.version that is in force."""
    kind = Unknown(what, image.features.get(METADATA_VERSION, 0))
    if kind not in image.unknown and len(image.unknown) >= UNKNOWN_KINDS_MAX:
        kind = Unknown(_OTHERS, 0)
    image.unknown[kind] += 1
