"""Regular expressions of subscriptions (M24): checked on receipt, matched against whole topic names.

Kafka promises the syntax of RE2, so what Python's `re` knows beyond it (look-around, back-references,
possessive and atomic groups) is refused here with the same error a broker gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from actors.protocol.errors import GroupError

NONE = ""
"""The regex of a member that has none; it matches nothing."""

_NOT_RE2 = re.compile(
    r"""
    \\[1-9]              # a back-reference
    | \(\?(?:[=!>(#]|<[=!]|P=)   # look-around, atomic group, condition, comment, named back-reference
    | (?:[*+?]|\{\d+(?:,\d*)?\})\+     # a possessive quantifier
    """,
    re.VERBOSE,
)
_ESCAPED_OR_CLASS = re.compile(r"\\[^1-9]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


def check(regex: str) -> re.Pattern[str] | None:
    """The compiled pattern; None for "". Raises GroupError(invalid_regular_expression) with the reason."""
    if regex == NONE:
        return None
    plain = _ESCAPED_OR_CLASS.sub("_", regex)
    foreign = _NOT_RE2.search(plain)
    if foreign is not None:
        raise _invalid(regex, f"`{foreign.group()}` is not supported")
    try:
        return re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        raise _invalid(regex, str(error)) from error


def matching(regex: str, topics: Iterable[str]) -> tuple[str, ...]:
    """The names of `topics` that `regex` matches in full, sorted. A stored regex that no longer compiles
    matches nothing: it was checked when it came in."""
    try:
        pattern = check(regex)
    except GroupError:
        return ()
    if pattern is None:
        return ()
    return tuple(sorted(topic for topic in topics if pattern.fullmatch(topic)))


def _invalid(regex: str, reason: str) -> GroupError:
    return GroupError(
        ErrorCode.invalid_regular_expression,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.",
    )
