"""The user that a client is by its certificate's distinguished name: `ssl.principal.mapping.rules`, with
Kafka's grammar.

Rules stand in a list with commas between them. The first one whose pattern is the whole name's says the user:
`RULE:^CN=(.*?),OU=.*$/$1/L` makes "CN=Alice,OU=billing" the user alice; DEFAULT takes the name as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from actors.ground.identity import ANONYMOUS

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(?:.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)", re.DOTALL)
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


class NoRule(Exception):
    """Raised for a name that no rule is for; who has it is refused."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """What a name has to be as a whole; None: any, and it stays as it is."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        return _CASES[self.case](self.pattern.sub(self._replaced, name))

    def _replaced(self, found: re.Match[str]) -> str:
        def put_in(reference: re.Match[str]) -> str:
            escaped, number = reference.groups()
            if number is None:
                return escaped
            # A number without a group is text, as with Kafka.
            return found[int(number)] or "" if int(number) <= found.re.groups else reference[0]

        return _REFERENCE.sub(put_in, self.replacement)


class PrincipalRules:
    """The rules of one tier. Raises ValueError, in words, for what are none."""

    def __init__(self, text: str) -> None:
        self._rules = [_parsed(rule) for rule in _split(text)]

    def principal(self, name: str | None) -> str:
        """Return the principal of a client whose certificate has this distinguished name; None: it has shown
        none. Raises NoRule."""
        if name is None:
            return ANONYMOUS
        for rule in self._rules:
            user = rule.apply(name)
            if user is not None:
                return f"User:{user}"
        raise NoRule(f"no rule of ssl.principal.mapping.rules is for {name!r}")


def _split(text: str) -> list[str]:
    """Return the rules of a list; a comma inside a rule ends none."""
    return [found[1] for found in _SPLITTER.finditer(text.strip()) if found[1]]


def _parsed(rule: str) -> _Rule:
    found = _PARSER.match(rule)
    if found is None or found.end() < len(rule):
        raise ValueError(f"{rule!r} is no rule")
    if found[1] is not None:
        return _Rule(None)
    try:
        return _Rule(re.compile(found[2]), found[3], found[4])
    except re.error as error:
        raise ValueError(f"{rule!r}: {error}") from None
