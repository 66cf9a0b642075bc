"""Whatever stands in a record, it is taken or refused by name, and what was taken can be served."""

from __future__ import annotations

import random

import pytest
from kio.schema.errors import ErrorCode

from actors.upstream.offsets_log.reading import pieces
from tests.coordinator.take_over.taker import Taker
from tests.kafka_records.golden import LINES, parts
from tests.upstream.offsets_log.logs import KafkaLog, Pair

RECORDS = [parts(line) for line in LINES]
"""Records of every type and version, as a real Kafka has written them."""


def damaged(chance: random.Random, content: bytes) -> bytes:
    """Return the bytes with some of them changed, added, or taken away."""
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0:
                del changed[at:]
            case 1:
                changed[at:at] = chance.randbytes(chance.randrange(1, 9))
            case _:
                changed[at : at + 1] = bytes(
                    (chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))),)
                )
    return bytes(changed)


def a_pair(chance: random.Random) -> Pair:
    key, value = chance.choice(RECORDS)
    if value is not None and chance.random() < 0.8:
        return key, damaged(chance, value)
    return damaged(chance, key), value


@pytest.mark.parametrize("seed", range(200))
def test_damaged_records_do_no_harm(seed: int) -> None:
    chance = random.Random(seed)
    log, taker = KafkaLog(), Taker()
    log.append(RECORDS)
    taker.take(log.raw())
    for _ in range(20):
        tried = KafkaLog()
        tried.batches = [log.batches[0]._replace(records=(), end=taker.next_offset)]
        tried.append([a_pair(chance)])
        before = taker.records()
        [*_, piece] = pieces(tried.raw(), taker.next_offset)
        answer = taker.take_piece(piece)
        if answer.error_code:
            assert answer.error_code == ErrorCode.invalid_record, answer
            assert taker.records() == before
    taker.check_snapshot()
    assert taker.serve().error_code == 0
    group_ids = [group.group_id for group in taker.list_groups()]
    described = {"groups": group_ids, "include_authorized_operations": False}
    taker.serve_raw("describe_groups", 6, **described)
    taker.serve_raw("consumer_group_describe", 1, group_ids=group_ids, include_authorized_operations=False)
    taker.advance(100_000)
    taker.commit()
    taker.fail_over()
