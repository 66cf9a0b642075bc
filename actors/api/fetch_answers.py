"""Build the answers to Fetch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.api.partition_leaders import current_leader, leaders_endpoints
from actors.catalog import codec
from actors.protocol.api_keys import FETCH
from actors.topics.fetch_sessions import Followed, Told, Topic
from actors.topics.transactions import AbortedTransaction

NO_RECORDS = b""
_NO_OFFSET = -1
_CURRENT_LEADER_SINCE = 12


class Read(NamedTuple):
    """What one partition gives now."""

    error_code: ErrorCode
    records: bytes = NO_RECORDS
    high_watermark: int = _NO_OFFSET
    last_stable_offset: int = _NO_OFFSET
    log_start_offset: int = _NO_OFFSET
    aborted: tuple[AbortedTransaction, ...] | None = None
    """The aborted transactions among the records; None for a consumer that reads uncommitted records."""
    diverging: tuple[int, int] | None = None
    """Epoch and end offset up to which the log may be what the client has read; None: it is so far."""
    name: str | None = None
    """The topic's name, told only of a partition that was not read."""

    @property
    def told(self) -> Told:
        failed = self.error_code != ErrorCode.none or self.diverging is not None
        return Told(self.high_watermark, self.log_start_offset, len(self.records), failed)


def answer_entity(
    context: BrokerContext,
    version: int,
    session_id: int,
    reads: Iterable[tuple[Followed, Read]],
    error_code: ErrorCode = ErrorCode.none,
) -> Any:
    """Return the answer with these partitions, or the refusal of the whole request."""
    topics: dict[Topic, list[Any]] = {}
    for followed, read in reads:
        topic, index = followed.place
        topics.setdefault(topic, []).append(_partition(context, version, index, read))
    topic_class = codec.nested(FETCH, version, "FetchableTopicResponse")
    return codec.build(
        codec.response_class(FETCH, version),
        error_code=error_code,
        session_id=session_id,
        responses=tuple(
            codec.build(topic_class, topic=topic, topic_id=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
        **leaders_endpoints(context, FETCH, version, topics.values()),
    )


def _partition(context: BrokerContext, version: int, index: int, read: Read) -> Any:
    fields: dict[str, Any] = {}
    if version >= _CURRENT_LEADER_SINCE:
        if read.error_code == ErrorCode.not_leader_or_follower:
            fields = current_leader(context, FETCH, version, (read.name, index))
        if read.diverging is not None:
            epoch, end_offset = read.diverging
            end_class = codec.nested(FETCH, version, "EpochEndOffset")
            fields["diverging_epoch"] = codec.build(end_class, epoch=epoch, end_offset=end_offset)
    return codec.build(
        codec.nested(FETCH, version, "PartitionData"),
        partition_index=index,
        error_code=read.error_code,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=_aborted(version, read),
        records=read.records,
        **fields,
    )


def _aborted(version: int, read: Read) -> Any:
    if read.aborted is None:
        return None
    aborted_class = codec.nested(FETCH, version, "AbortedTransaction")
    return tuple(
        codec.build(aborted_class, producer_id=each.producer_id, first_offset=each.first_offset)
        for each in read.aborted
    )
