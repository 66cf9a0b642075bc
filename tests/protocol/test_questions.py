"""Questions to a tier survive their way as bytes, within bounds; what is none is refused."""

from __future__ import annotations

from random import Random

import pytest

from actors.catalog.headers import parse_header
from actors.protocol.errors import MalformedRequest
from actors.protocol.questions import (
    ANSWER_BYTES_MAX,
    NOT_ALLOWED,
    QUESTIONS_MAX,
    REQUEST_BYTES_MAX,
    TIER_QUESTIONS,
    TIMEOUT_MS_MAX,
    VERSION,
    Question,
    Told,
    pack_answer,
    pack_request,
    unpack_answer,
    unpack_request,
)

LENGTH_BYTES = 4
ASKED = Question("partition-0-1", "explain", ("billing", 0, None, b"\0"), 1_500)
GARBAGE = [
    b"",
    b"\xc0",
    b"\x92\x02\x90",
    b"\x92\x01\x90",
    b"\x92\x01\x91\x91\xa1a",
    b"\x92\x01\x91\x94\xa1a\x01\x90\x01",
    b"\xdd\xff\xff\xff\xff",
    b"\x91" * 2_000,
]


def test_questions_are_read_as_they_were_asked() -> None:
    frame = pack_request(7, "groupd-cli", [ASKED, ASKED._replace(args=())])[LENGTH_BYTES:]
    header, body_offset = parse_header(frame)
    assert header == (TIER_QUESTIONS, VERSION, 7, "groupd-cli")
    assert unpack_request(frame[body_offset:]) == [ASKED, ASKED._replace(args=())]


def test_answers_are_read_as_they_were_told() -> None:
    told = Told("", "", (("ok", {1: {"lag": (None, 2.5)}, "a": b"\xff"}), ("gone", "it is gone")))
    assert unpack_answer(pack_answer(7, told)[LENGTH_BYTES:]) == told
    refused = Told(NOT_ALLOWED, "ALTER")
    assert unpack_answer(pack_answer(7, refused)[LENGTH_BYTES:]) == refused


def test_nobody_waits_for_longer_than_allowed() -> None:
    frame = pack_request(7, "", [ASKED._replace(timeout_ms=10**12)])[LENGTH_BYTES:]
    [question] = unpack_request(frame[parse_header(frame)[1] :])
    assert question.timeout_ms == TIMEOUT_MS_MAX


@pytest.mark.parametrize("body", GARBAGE, ids=range(len(GARBAGE)))
def test_what_is_no_question_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        unpack_request(body)


def test_a_question_with_flipped_bits_is_a_question_or_refused() -> None:
    chance = Random(7)
    frame = pack_request(7, "groupd-cli", [ASKED])[LENGTH_BYTES:]
    body = frame[parse_header(frame)[1] :]
    for _ in range(3_000):
        spoilt = bytearray(body)
        for _ in range(chance.randint(1, 4)):
            spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
        try:
            unpack_request(bytes(spoilt))
        except MalformedRequest:
            continue


def test_too_many_or_too_large_questions_are_refused() -> None:
    many = pack_request(7, "", [ASKED._replace(args=())] * (QUESTIONS_MAX + 1))[LENGTH_BYTES:]
    with pytest.raises(MalformedRequest):
        unpack_request(many[parse_header(many)[1] :])
    with pytest.raises(ValueError, match="more than a question may have"):
        pack_request(7, "", [ASKED._replace(args=(bytes(REQUEST_BYTES_MAX),))])
    with pytest.raises(MalformedRequest):
        unpack_request(bytes(REQUEST_BYTES_MAX + 1))


def test_only_plain_values_within_bounds_are_told() -> None:
    with pytest.raises(ValueError, match="serialize"):
        pack_answer(7, Told("", "", (("ok", object()),)))
    with pytest.raises(ValueError, match="are allowed"):
        pack_answer(7, Told("", "", (("ok", bytes(ANSWER_BYTES_MAX)),)))
