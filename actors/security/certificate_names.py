"""Who a certificate says that its owner is, in the words of Java's, and until when it holds.

A distinguished name is written as `X500Principal.getName` of Java does (RFC 2253), because ACLs and the rules
of `ssl.principal.mapping.rules` are written for that text. Only what is asked for here is read of a
certificate: OpenSSL has parsed and checked it before.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final, NamedTuple

_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_OID: Final = 0x06
_UTC_TIME: Final = 0x17
_LONG_FORM: Final = 0x80
_CHARACTERS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "latin-1",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""The tag of a kind of text -> its encoding."""
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class Certificate(NamedTuple):
    """What is read of a certificate."""

    subject: str
    """The distinguished name of its owner: "CN=alice,OU=billing,O=shop"."""
    not_after_s: float
    """The moment after which it holds no more, in seconds since the epoch."""


class _Element(NamedTuple):
    """An element of DER: its tag, its content, and both with the length between them."""

    tag: int
    content: bytes
    whole: bytes


def certificate_of(der: bytes) -> Certificate:
    """Return what a certificate in DER says. Raises ValueError for bytes that are none."""
    try:
        signed = next(_elements(next(_elements(der)).content))
        # version (if it is not 1), serial number, algorithm, issuer, validity, subject, ...
        fields = [each for each in _elements(signed.content) if each.tag != _VERSION]
        validity, subject = fields[3], fields[4]
        _, not_after = _elements(validity.content)
        names = [_relative_name(each) for each in _elements(subject.content)]
        return Certificate(",".join(reversed(names)), _seconds(not_after))
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise ValueError(f"no certificate: {error}") from error


def _elements(der: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(der):
        length, begin = der[at + 1], at + 2
        if length >= _LONG_FORM:
            begin += length - _LONG_FORM
            length = int.from_bytes(der[at + 2 : begin], "big")
        end = begin + length
        if end > len(der):
            raise IndexError("it ends too early")
        yield _Element(der[at], der[begin:end], der[at:end])
        at = end


def _relative_name(element: _Element) -> str:
    """Return one part of a distinguished name, which may itself have several."""
    pairs = (tuple(_elements(pair.content)) for pair in _elements(element.content))
    return "+".join(_pair(_oid(oid.content), value) for oid, value in pairs)


def _pair(oid: str, value: _Element) -> str:
    keyword, encoding = _KEYWORDS.get(oid), _CHARACTERS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode(encoding))}"


def _escaped(text: str) -> str:
    lead = len(text) - len(text.lstrip(" \r"))
    trail = len(text.rstrip(" \r"))
    return "".join(
        f"\\{character}" if character in _ESCAPED or not lead <= place < trail else _printed(character)
        for place, character in enumerate(text)
    )


def _printed(character: str) -> str:
    return "\\00" if character == "\0" else character


def _oid(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < _LONG_FORM:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _seconds(time: _Element) -> float:
    """Return a time of a certificate, which is in UTC, in seconds since the epoch."""
    text = time.content.decode("ascii")
    if time.tag == _UTC_TIME:
        text = ("20" if text[:2] < "50" else "19") + text
    moment = datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=datetime.UTC)
    return moment.timestamp()
