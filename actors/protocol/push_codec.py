"""Bytes of groups whose coordinator pushes (D3 to D5).

RegisterConsumer is a request like all others. What the coordinator sends to a consumer is a frame of its own
kind on the same connection, and so is the consumer's answer: **its first int32, where answers have their
correlation id, is negative**. No answer to a client's request begins so, as long as clients number theirs
from 0 upwards, and no request of a client does, as no API has a negative key.

    from the coordinator: correlation id (int32, negative) | api key (int16) | version (int16) | tags | body
    from the consumer:    the same correlation id | tags | body

The bodies are in `own_schemas/`, all of them in version 0, which is flexible (KIP-482). They are read and
packed by hand, since a ping is as frequent as a heartbeat.
"""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any, Final

from actors.protocol import api_keys
from actors.protocol.entities import build, response_class
from actors.protocol.errors import MalformedRequest
from actors.protocol.push_messages import (
    SAID_NOTHING,
    BrokerPlace,
    ConsumedOffsets,
    Owned,
    PingRequest,
    Pushed,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    Said,
    StartFetcherRequest,
    StartPosition,
    StopFetcherRequest,
    TopicCount,
)
from actors.protocol.wire import (
    CUT_SHORT,
    array_reader,
    compact_count,
    compact_string,
    skip_tags,
    string_reader,
)

FIRST_ID: Final = -(2**31)
"""The first correlation id of a connection. The next ones follow upwards, and after -1 comes this one
again."""
VERSION: Final = 0
_MILLISECOND: Final = timedelta(milliseconds=1)
_HEAD: Final = struct.Struct(">iihhB")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_POSITION: Final = struct.Struct(">iq")
_ANSWER: Final = struct.Struct(">ii")
_read_string: Final = string_reader(flexible=True, nullable=False)
_NO_TAGS: Final = b"\0"


def is_of_coordinator(frame: bytes) -> bool:
    """Whether a frame (without its length) belongs to a request of the coordinator."""
    return bool(frame) and frame[0] >= 0x80


# RegisterConsumer.


def register_consumer(entity: Any) -> RegisterConsumerRequest:
    return RegisterConsumerRequest(
        entity.group_id,
        entity.consumer_id,
        tuple(TopicCount(each.topic, each.wildcard, each.streams) for each in entity.topic_counts),
        entity.auto_commit,
        entity.auto_offset_reset,
        entity.session_timeout // _MILLISECOND,
    )


def register_consumer_answer(api_version: int, body: RegisterConsumerResponse) -> Any:
    return build(response_class(api_keys.REGISTER_CONSUMER, api_version), **body._asdict())


# What the coordinator sends, and a consumer reads.


def written_push(correlation_id: int, pushed: Pushed) -> bytes:
    """Return the whole frame of a request to a consumer, length prefix included."""
    request = pushed.request
    pieces = [compact_string(request.group_id), compact_string(request.consumer_id)]
    if isinstance(request, PingRequest):
        pieces.append(_INT32.pack(request.retries))
    elif isinstance(request, StartFetcherRequest):
        pieces += (_INT32.pack(request.generation_id), compact_count(len(request.ownership)))
        for owned in request.ownership:
            pieces += (compact_string(owned.thread_id), compact_count(len(owned.partitions)))
            for topic, partition, offset in owned.partitions:
                pieces += (compact_string(topic), _POSITION.pack(partition, offset), _NO_TAGS)
            pieces.append(_NO_TAGS)
        pieces.append(compact_count(len(request.brokers)))
        for broker_id, host, port in request.brokers:
            pieces += (_INT32.pack(broker_id), compact_string(host), _INT32.pack(port), _NO_TAGS)
    pieces.append(_NO_TAGS)
    body = b"".join(pieces)
    return _HEAD.pack(_HEAD.size - 4 + len(body), correlation_id, pushed.api_key, VERSION, 0) + body


_Request = PingRequest | StopFetcherRequest | StartFetcherRequest


def read_push(frame: bytes) -> tuple[int, int, _Request]:
    """Return correlation id, API key and request of a frame (without its length) of a coordinator. Raises
    MalformedRequest."""
    try:
        correlation_id, api_key, version = struct.unpack_from(">ihh", frame)
        at = skip_tags(frame, 8)
        if version != VERSION or api_key not in _READERS:
            raise MalformedRequest(f"a coordinator's request of API {api_key} version {version}")
        group_id, at = _read_string(frame, at)
        consumer_id, at = _read_string(frame, at)
        return correlation_id, api_key, _READERS[api_key](group_id, consumer_id, frame, at)
    except CUT_SHORT as error:
        raise MalformedRequest("a coordinator's request that is cut short") from error


def _ping(group_id: str, consumer_id: str, frame: bytes, at: int) -> PingRequest:
    return PingRequest(group_id, consumer_id, _INT32.unpack_from(frame, at)[0])


def _stop(group_id: str, consumer_id: str, frame: bytes, at: int) -> StopFetcherRequest:
    return StopFetcherRequest(group_id, consumer_id)


def _start(group_id: str, consumer_id: str, frame: bytes, at: int) -> StartFetcherRequest:
    generation_id = _INT32.unpack_from(frame, at)[0]
    ownership, at = _read_ownership(frame, at + 4)
    brokers, _ = _read_brokers(frame, at)
    return StartFetcherRequest(group_id, consumer_id, generation_id, ownership, brokers)


def _read_position(frame: bytes, at: int) -> tuple[StartPosition, int]:
    topic, at = _read_string(frame, at)
    partition, offset = _POSITION.unpack_from(frame, at)
    return StartPosition(topic, partition, offset), skip_tags(frame, at + _POSITION.size)


_read_positions: Final = array_reader(_read_position, flexible=True, nullable=False)


def _read_owned(frame: bytes, at: int) -> tuple[Owned, int]:
    thread_id, at = _read_string(frame, at)
    partitions, at = _read_positions(frame, at)
    return Owned(thread_id, partitions), skip_tags(frame, at)


def _read_broker(frame: bytes, at: int) -> tuple[BrokerPlace, int]:
    broker_id = _INT32.unpack_from(frame, at)[0]
    host, at = _read_string(frame, at + 4)
    port = _INT32.unpack_from(frame, at)[0]
    return BrokerPlace(broker_id, host, port), skip_tags(frame, at + 4)


_read_ownership: Final = array_reader(_read_owned, flexible=True, nullable=False)
_read_brokers: Final = array_reader(_read_broker, flexible=True, nullable=False)
_READERS: Final[dict[int, Any]] = {
    api_keys.PING: _ping,
    api_keys.STOP_FETCHER: _stop,
    api_keys.START_FETCHER: _start,
}


# What a consumer answers, and the coordinator reads.


def answer_id(frame: bytes) -> int:
    """Return the correlation id of a consumer's answer (without its length)."""
    return int(_INT32.unpack_from(frame)[0])


def read_answer(api_key: int, frame: bytes) -> tuple[int, str, ConsumedOffsets, bool]:
    """Return error code, consumer id, offsets and whether the consumer shuts down, of an answer to a request
    of this API. What follows is accepted. Raises MalformedRequest."""
    offsets: ConsumedOffsets = ()
    is_shutting_down = False
    try:
        at = skip_tags(frame, 4)
        error_code = _INT16.unpack_from(frame, at)[0]
        consumer_id, at = _read_string(frame, at + 2)
        if api_key != api_keys.START_FETCHER:
            offsets, at = _read_offsets(frame, at)
        if api_key == api_keys.PING:
            is_shutting_down, at = bool(frame[at]), at + 1
        skip_tags(frame, at)
    except CUT_SHORT as error:
        raise MalformedRequest("a consumer's answer that is cut short") from error
    except MalformedRequest as error:
        raise MalformedRequest(f"a consumer's answer: {error}") from error
    return error_code, consumer_id, offsets, is_shutting_down


def _read_offset(frame: bytes, at: int) -> tuple[tuple[int, int], int]:
    return _POSITION.unpack_from(frame, at), skip_tags(frame, at + _POSITION.size)


_read_partitions: Final = array_reader(_read_offset, flexible=True, nullable=False)


def _read_topic(frame: bytes, at: int) -> tuple[tuple[str, tuple[tuple[int, int], ...]], int]:
    topic, at = _read_string(frame, at)
    partitions, at = _read_partitions(frame, at)
    return (topic, partitions), skip_tags(frame, at)


_read_offsets: Final = array_reader(_read_topic, flexible=True, nullable=False)


def written_answer(correlation_id: int, api_key: int, consumer_id: str, said: Said = SAID_NOTHING) -> bytes:
    """Return the whole frame of a consumer's answer, length prefix included."""
    error_code, offsets, is_shutting_down = said
    pieces = [_NO_TAGS, _INT16.pack(error_code), compact_string(consumer_id)]
    if api_key != api_keys.START_FETCHER:
        pieces.append(compact_count(len(offsets)))
        for topic, partitions in offsets:
            pieces += (compact_string(topic), compact_count(len(partitions)))
            for partition, offset in partitions:
                pieces += (_POSITION.pack(partition, offset), _NO_TAGS)
            pieces.append(_NO_TAGS)
    if api_key == api_keys.PING:
        pieces.append(bytes((is_shutting_down,)))
    pieces.append(_NO_TAGS)
    body = b"".join(pieces)
    return _ANSWER.pack(4 + len(body), correlation_id) + body
