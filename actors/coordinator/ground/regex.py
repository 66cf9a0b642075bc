"""Regular expressions of subscriptions (M24, A17): RE2's syntax, checked on receipt, matched against whole
topic names. Matching takes time in proportion to the name's length, whatever the pattern is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kio.schema.errors import ErrorCode

from actors.protocol.errors import GroupError

NONE = ""
"""The regex of a member that has none; it matches nothing."""

Matches = Callable[[str], object]
"""Given a topic's name, something true if the regex matches all of it."""


def compiled(regex: str) -> Matches:
    """Compile a regex. Raises GroupError(invalid_regular_expression) with the reason."""
    re2, options = _re2()
    try:
        pattern = re2.compile(regex, options)
    except re2.error as error:
        raise _invalid(regex, error.args[0].decode(errors="replace")) from None
    except UnicodeEncodeError:
        raise _invalid(regex, "it is no UTF-8") from None
    matches: Matches = pattern.fullmatch
    return matches


def matches_of(regex: str) -> Matches:
    """Compile a regex that was checked when it came in; one that no longer compiles matches nothing."""
    try:
        return compiled(regex)
    except GroupError:
        return _never


@cache
def _re2() -> tuple[Any, Any]:
    """Return RE2 and the options that we use it with. It is loaded here, because most replicas never see a
    regex, and RE2 is a library of 3 MB."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2, options


def _never(topic: str) -> bool:
    return False


def _invalid(regex: str, reason: str) -> GroupError:
    return GroupError(
        ErrorCode.invalid_regular_expression,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.",
    )
