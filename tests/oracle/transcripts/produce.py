"""Produce: its versions, what a request may bring, and idempotent producers (W31 to W33)."""

from __future__ import annotations

import struct

from tests.oracle.logs import (
    NOBODYS_TOPIC,
    append,
    changed,
    filled,
    log_topic,
    of_producer,
    produced,
)
from tests.oracle.play import Client, Play, framed
from tests.oracle.registry import transcript
from tests.topics.batches import batch

VERSIONS = {f"v{version}": version for version in (3, 5, 7, 8, 9, 10, 11, 12, 13)}
LATE = {f"v{version}": version for version in (9, 13)}
SEQUENCE_MAX = 2**31 - 1


@transcript(rows=("W31",), cases={f"v{version}": version for version in range(3)})
def version_that_is_told_and_not_served(play: Play, version: int) -> None:
    a = play.connect("a")
    told = a.quietly("api_versions", 0).api_keys
    play.note("told of Produce", [[each.min_version, each.max_version] for each in told if each.api_key == 0])
    records = batch(b"v")
    body = struct.pack(">hiih", -1, 1_000, 1, 1) + b"t" + struct.pack(">iii", 1, 0, len(records)) + records
    a.ask_bytes(framed(struct.pack(">hhih", 0, version, 7, -1) + body))


@transcript(rows=("W31",), cases=VERSIONS)
def records_and_places_that_there_are_not(play: Play, version: int) -> None:
    topic, a = log_topic(play, partitions=2), play.connect("a")
    for records in ({0: batch(b"a", b"b")}, {0: batch(b"c"), 1: batch(b"d")}, {7: batch(b"e")}):
        a.ask(
            "produce", version, topic_data=produced(play, topic, records), unordered=("partition_responses",)
        )
    gone = [{"name": play.unique("none"), "topic_id": NOBODYS_TOPIC}]
    for topic_data in (gone[0] | {"partition_data": [{"index": 0, "records": batch(b"f")}]},):
        a.ask("produce", version, topic_data=[topic_data])
        a.ask("produce", version, topic_data=[topic_data], acks=2)
    a.ask("produce", version, topic_data=produced(play, topic, {0: batch(b"g")}), acks=2)
    a.ask("produce", version, topic_data=[])


@transcript(rows=("W31",), cases=LATE)
def partition_that_stands_in_a_request_twice(play: Play, version: int) -> None:
    topic, a = log_topic(play, partitions=2), play.connect("a")
    asked = [
        *produced(play, topic, {0: batch(b"a")}),
        *produced(play, topic, {1: batch(b"b"), 0: batch(b"c")}),
    ]
    a.ask("produce", version, topic_data=asked, unordered=("partition_responses",))


@transcript(rows=("W31",), cases={f"v{version}": version for version in (9, 13)})
def without_acks(play: Play, version: int) -> None:
    """Nobody is told of a success; a failure closes the connection."""
    topic = log_topic(play)
    for what, index in (("right", 0), ("no such partition", 7)):
        a = play.connect(what)
        a.post("produce", version, {"acks": 0, "topic_data": produced(play, topic, {index: batch(b"a")})})
        if what == "right":
            a.ask("find_coordinator", 0, key="k")
        else:
            a.expect_closed()


_GOOD = batch(b"a", b"b")
BATCHES = {
    "right": _GOOD,
    "none": b"",
    "two": _GOOD + _GOOD,
    "cut in its header": _GOOD[:30],
    "cut in its length": _GOOD[:10],
    "cut at its end": _GOOD[:-1],
    "with a few bytes behind it": _GOOD + b"xyz",
    "with half a batch behind it": _GOOD + _GOOD[:30],
    "with zeros behind it": _GOOD + bytes(20),
    "longer than it is": _GOOD[:8] + struct.pack(">i", len(_GOOD) - 11) + _GOOD[12:],
    "shorter than it is": _GOOD[:8] + struct.pack(">i", len(_GOOD) - 13) + _GOOD[12:],
    "of length 0": _GOOD[:8] + struct.pack(">i", 0) + _GOOD[12:],
    "of length 49": _GOOD[:8] + struct.pack(">i", 49) + _GOOD[12:],
    "of length -1": _GOOD[:8] + struct.pack(">i", -1) + _GOOD[12:],
    "damaged": _GOOD[:-1] + b"x",
    "of magic 1": _GOOD[:16] + b"\1" + _GOOD[17:],
    "of magic 3": _GOOD[:16] + b"\3" + _GOOD[17:],
    "with a base offset": struct.pack(">q", 7) + _GOOD[8:],
    "with a leader epoch": _GOOD[:12] + struct.pack(">i", 9) + _GOOD[16:],
    "of no record": changed(_GOOD, record_count=0),
    "with a last offset that is none": changed(_GOOD, last_offset_delta=5),
    "of another count": changed(_GOOD, record_count=3),
    "of control records": changed(_GOOD, attributes=0x20),
    "of a codec that there is not": changed(_GOOD, attributes=5),
    "with bits that mean nothing": changed(_GOOD, attributes=0x7F80),
    "with its append time": changed(_GOOD, attributes=0x08),
    "of a producer without a sequence": changed(_GOOD, producer_id=7, producer_epoch=0),
    "of a producer without an epoch": changed(_GOOD, producer_id=7, base_sequence=3),
    "too large": batch(b"x" * 1_100_000),
}


@transcript(rows=("W32",), cases=BATCHES)
def batch_that_is(play: Play, records: bytes) -> None:
    """The log's start tells apart who refuses: it is in the answer once a log has looked at the batch."""
    topic, a = log_topic(play), play.connect("a")
    a.quietly("api_versions", 0)  # who has said nothing yet may not begin with a large frame
    filled(play, topic, {0: batch(b"before", b"too")})
    play.admin.quietly(
        "delete_records", 2, topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    )
    append(play, a, "answer", topic, records)
    append(play, a, "the next", topic, _GOOD)


@transcript(rows=("W32",))
def zstd_of_an_old_producer(play: Play) -> None:
    topic, a = log_topic(play), play.connect("a")
    append(play, a, "answer", topic, changed(_GOOD, attributes=4), version=6)


@transcript(rows=("W32",), cases={f"v{version}": version for version in (3, 6, 7)})
def unknown_codec_of_an_old_producer(play: Play, version: int) -> None:
    """It fails the whole request below version 7, where the codec is looked at to refuse zstd; what is wrong
    before that, or not there, is not looked at."""
    topic, a = log_topic(play, partitions=2), play.connect("a")
    strange = changed(_GOOD, attributes=5)
    unordered = ("partition_responses", "responses")
    for records in ({0: strange}, {0: _GOOD, 1: strange}, {0: strange, 7: _GOOD}):
        a.ask("produce", version, topic_data=produced(play, topic, records), unordered=unordered)
    both = produced(play, topic, {0: _GOOD, 1: strange})
    a.ask("produce", version, topic_data=both, acks=7, unordered=unordered)
    for records in ({0: _GOOD, 7: strange}, {0: _GOOD, 1: strange[:-1]}, {0: _GOOD, 1: strange + strange}):
        a.ask("produce", version, topic_data=produced(play, topic, records), unordered=unordered)


@transcript(rows=("W33",))
def sequences_of_a_producer(play: Play) -> None:
    """A batch that is one of the last five is answered as it was; any other one out of order is refused."""
    topic, a = log_topic(play), play.connect("a")
    producer = producer_id(a)
    for first, count in ((0, 2), (2, 1), (2, 1), (0, 2), (0, 1), (1, 1), (4, 1)):
        append(play, a, f"{count} from {first}", topic, of_producer(producer, first, count))
    for first in range(3, 9):
        append(play, a, f"1 from {first}", topic, of_producer(producer, first))
    for first, count in ((0, 2), (3, 1), (4, 1), (8, 1), (8, 2), (7, 2)):
        append(play, a, f"again {count} from {first}", topic, of_producer(producer, first, count))


@transcript(rows=("W33",))
def epochs_of_a_producer(play: Play) -> None:
    topic, a = log_topic(play), play.connect("a")
    producer = producer_id(a)
    for epoch, first in ((0, 0), (1, 1), (1, 0), (0, 1), (0, 0), (1, 0), (1, 1), (32_767, 0), (2, 0), (1, 2)):
        append(play, a, f"epoch {epoch}, {first}", topic, of_producer(producer, first, epoch=epoch))


@transcript(rows=("W33",))
def sequences_that_wrap_around(play: Play) -> None:
    topic, a = log_topic(play), play.connect("a")
    at_the_edge, inside, beyond = producer_id(a), producer_id(a), producer_id(a)
    for first in (SEQUENCE_MAX - 1, SEQUENCE_MAX, 0, 1, SEQUENCE_MAX, 0):
        append(play, a, f"one from {first}", topic, of_producer(at_the_edge, first))
    for first, count in ((SEQUENCE_MAX, 3), (2, 1), (SEQUENCE_MAX, 3), (2, 1)):
        append(play, a, f"{count} from {first}", topic, of_producer(inside, first, count))
    for first in (SEQUENCE_MAX, 1):
        append(play, a, f"one from {first}", topic, of_producer(beyond, first))


@transcript(rows=("W33",))
def producers_that_a_log_does_not_know(play: Play) -> None:
    """They may begin with any sequence and any epoch, and an id that nobody was given is as good as any."""
    topic, a = log_topic(play), play.connect("a")
    known, strange = producer_id(a), 2**40 + 1
    for first, epoch in ((5, 3), (6, 3), (8, 3), (0, 4)):
        append(play, a, f"epoch {epoch}, {first}", topic, of_producer(known, first, epoch=epoch))
    for first in (7, 8, 7):
        append(play, a, f"nobody's, {first}", topic, of_producer(strange, first))


@transcript(rows=("W33",))
def producer_whose_records_are_deleted(play: Play) -> None:
    """The log goes on to know it."""
    topic, a = log_topic(play), play.connect("a")
    producer = producer_id(a)
    for first in range(3):
        append(play, a, f"{first}", topic, of_producer(producer, first))
    a.ask("delete_records", 2, topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}])
    for first in (1, 5, 3, 3):
        append(play, a, f"then {first}", topic, of_producer(producer, first))


def producer_id(client: Client) -> int:
    """A new idempotent producer's."""
    answer = client.ask_until(lambda told: told.error_code.value == 0, "init_producer_id", 4)
    found: int = answer.producer_id
    return found
