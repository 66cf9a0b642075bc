"""What topics ask of the records that are produced to them: keys and times (W39)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tests.oracle.logs import changed, log_topic, of_producer, produced
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.topics.batches import GZIP, batch

COMPACTED = {"cleanup.policy": "compact"}
YOUNG = {"message.timestamp.before.max.ms": "86400000"}
APPENDED = {"message.timestamp.type": "LogAppendTime"}
APPEND_TIME = 0x08
NOW_MS = int(time.time() * 1_000)
DAY_MS = 86_400_000
LATER_MS = NOW_MS + DAY_MS
LONG_AGO_MS = 1_000


def told(play: Play, client: Client, what: str, topic: str, records: bytes, version: int = 9) -> None:
    """Produce one batch, and record what came of it and which of its records are named."""
    asked = produced(play, topic, {0: records})
    answer = client.quietly("produce", version, topic_data=asked).responses[0].partition_responses[0]
    code = answer.error_code
    error = "none" if code.value == 0 else f"{code.value} {code.name}"
    named = [each.batch_index for each in getattr(answer, "record_errors", ())]
    play.note(what, [error, answer.base_offset, named])


def keyed(*keys: bytes | None, **fields: Any) -> bytes:
    fields.setdefault("timestamps", [NOW_MS] * len(keys))
    return batch(*[b"v"] * len(keys), keys=keys, **fields)


def timed(*timestamps: int, **fields: Any) -> bytes:
    return keyed(*[b"k"] * len(timestamps), timestamps=timestamps, **fields)


RECORDS: dict[str, tuple[Mapping[str, str], bytes]] = {
    "without keys": (COMPACTED, keyed(None, b"k", None)),
    "without keys in two policies": ({"cleanup.policy": "compact,delete"}, keyed(None)),
    "with keys": (COMPACTED, keyed(b"a", b"")),
    "with keys and compressed": (COMPACTED, keyed(b"a" * 99, b"", compression=GZIP)),
    "fewer than are counted": (COMPACTED, changed(keyed(b"a", None), record_count=3, last_offset_delta=2)),
    "more than are counted": (COMPACTED, changed(keyed(b"a", None), record_count=1, last_offset_delta=0)),
    "from tomorrow": ({}, timed(NOW_MS, LATER_MS, NOW_MS)),
    "from tomorrow and compressed": ({}, keyed(b"k" * 200, timestamps=[LATER_MS], compression=GZIP)),
    "from tomorrow where that is allowed": (
        {"message.timestamp.after.max.ms": str(2 * DAY_MS)},
        timed(LATER_MS),
    ),
    "from tomorrow where the broker sets the time": (APPENDED, timed(LATER_MS)),
    "old": ({}, timed(LONG_AGO_MS)),
    "too old": (YOUNG, timed(NOW_MS, LONG_AGO_MS, NOW_MS)),
    "all too old": (YOUNG, timed(LONG_AGO_MS, LONG_AGO_MS)),
    "without a time": (YOUNG, timed(-1, -1)),
    "with a negative time": ({}, timed(-5)),
    "with the append time of a producer": (APPENDED, changed(timed(NOW_MS, NOW_MS), attributes=APPEND_TIME)),
    "with the append time of a producer and compressed": (
        APPENDED,
        changed(timed(*[NOW_MS] * 9, compression=GZIP), attributes=APPEND_TIME | GZIP),
    ),
    "with an append time that is the producer's": ({}, changed(timed(NOW_MS), attributes=APPEND_TIME)),
    "without keys and from tomorrow": (COMPACTED, keyed(None, b"k", timestamps=[NOW_MS, LATER_MS])),
    "without keys and with the producer's append time": (
        {**COMPACTED, **APPENDED},
        changed(keyed(b"k", None), attributes=APPEND_TIME),
    ),
}


@transcript(rows=("W39",), cases=RECORDS)
def records(play: Play, case: tuple[Mapping[str, str], bytes]) -> None:
    configs, brought = case
    topic, a = log_topic(play, configs=configs), play.connect("a")
    told(play, a, "answer", topic, brought)


@transcript(rows=("W39",), cases={f"v{version}": version for version in (3, 5, 7, 8, 10, 12, 13)})
def records_that_each_version_names(play: Play, version: int) -> None:
    topic, a = log_topic(play, configs=COMPACTED), play.connect("a")
    told(play, a, "answer", topic, keyed(b"k", None), version)
    told(play, a, "the next", topic, keyed(b"k"), version)


@transcript(rows=("W39",))
def records_before_sequences(play: Play) -> None:
    """Keys are looked at before the sequence is, also of a batch that was taken already."""
    topic, a = log_topic(play, configs=COMPACTED), play.connect("a")
    producer = 2**40 + 7
    told(play, a, "first", topic, keyed(b"k", producer_id=producer, epoch=0, sequence=0))
    told(play, a, "again", topic, keyed(b"k", producer_id=producer, epoch=0, sequence=0))
    told(play, a, "again without a key", topic, of_producer(producer, 0))
    told(play, a, "out of order without a key", topic, of_producer(producer, 7))
