"""Client quotas where there are none: how they are looked for, and which changes cannot be (W42).

What Kafka would store the tier refuses; that stands in `tests/api/test_quotas.py`.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.access import alice
from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript

EXACT, DEFAULT, SPECIFIED = range(3)
FILTERS: dict[str, list[tuple[str, int, str | None]]] = {
    "everything": [],
    "a user": [("user", EXACT, "nobody")],
    "any user, default client": [("user", SPECIFIED, None), ("client-id", DEFAULT, None)],
    "an address": [("ip", EXACT, "1.2.3.4")],
    "no address": [("ip", EXACT, "x y")],
    "exact without a name": [("user", EXACT, None)],
    "default with a name": [("user", DEFAULT, "x")],
    "specified with a name": [("user", SPECIFIED, "x")],
    "unknown match": [("user", 3, None)],
    "negative match": [("user", -1, None)],
    "unknown type": [("no.such", SPECIFIED, None)],
    "empty type": [("", SPECIFIED, None)],
    "unknown type and match": [("no.such", 5, None)],
    "unknown type, exact without a name": [("no.such", EXACT, None)],
    "empty type, default with a name": [("", DEFAULT, "x")],
    "one type twice": [("user", SPECIFIED, None), ("user", DEFAULT, None)],
    "one type twice, the second wrong": [("user", SPECIFIED, None), ("user", 9, None)],
    "address and user": [("ip", SPECIFIED, None), ("user", SPECIFIED, None)],
    "address and client": [("client-id", SPECIFIED, None), ("ip", SPECIFIED, None)],
    "unknown type after address and user": [
        ("ip", SPECIFIED, None),
        ("user", SPECIFIED, None),
        ("no.such", SPECIFIED, None),
    ],
}


@transcript(rows=("W42",), cases=FILTERS)
def looked_for(play: Play, components: list[tuple[str, int, str | None]]) -> None:
    a = play.connect()
    asked = [
        {"entity_type": kind, "match_type": match_type, "match": match}
        for kind, match_type, match in components
    ]
    for version, strict in ((0, False), (1, False), (1, True)):
        a.ask("describe_client_quotas", version, components=asked, strict=strict)


def alter(client: Client, *entries: tuple[Any, ...], version: int = 1, **fields: Any) -> None:
    """Each entry: ([(type, name), ...], (quota, value), ...); without a value the quota is removed."""
    asked = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in who],
            "ops": [
                {"key": key, "value": value or 0.0, "remove": value is None} for key, value in operations
            ],
        }
        for who, *operations in entries
    ]
    client.ask("alter_client_quotas", version, entries=asked, **fields, unordered=("entries", "entity"))


USER = [("user", "u")]
ADDRESS = [("ip", "1.2.3.4")]
RATE = ("producer_byte_rate", 1000.0)
CHANGES: dict[str, tuple[Any, ...]] = {
    "nothing": (),
    "removed": ((USER, ("producer_byte_rate", None)),),
    "removed by an unknown name": ((USER, ("no.such", None)),),
    "no operation": ((USER,),),
    "two entries": ((USER,), ([("client-id", None)], ("request_percentage", None))),
    "nobody": (([], RATE),),
    "unknown type": (([("no.such", "u")], RATE),),
    "empty type": (([("", None)], RATE),),
    "empty name": (([("user", "")], RATE),),
    "address and user": (([("ip", "1.2.3.4"), ("user", "u")], RATE),),
    "address and client": (([("ip", None), ("client-id", None)],),),
    "no address": (([("ip", "no address")], RATE),),
    "a client's quota of an address": ((ADDRESS, RATE),),
    "an address's quota of a user": ((USER, ("connection_creation_rate", 5.0)),),
    "unknown quota": ((USER, ("no.such", 1.0)),),
    "negative": ((USER, ("producer_byte_rate", -1.0)),),
    "fraction": ((USER, ("consumer_byte_rate", 1.5)),),
    "fraction of connections": ((ADDRESS, ("connection_creation_rate", 5.5)),),
    "too large": ((USER, ("producer_byte_rate", 1e30)),),
    "too large a number of connections": ((ADDRESS, ("connection_creation_rate", 3e9)),),
    "negative percentage": ((USER, ("request_percentage", -0.5)),),
    "one quota twice": ((USER, RATE, ("producer_byte_rate", 2.0)),),
    "one user twice": ((USER, RATE), (USER, RATE)),
    "one wrong, one right": (([("user", "")], RATE), (USER, ("producer_byte_rate", None))),
}


@transcript(rows=("W42",), cases=CHANGES)
def changed(play: Play, entries: tuple[Any, ...]) -> None:
    a = play.connect()
    alter(a, *entries, version=0)
    alter(a, *entries, validate_only=True)


@transcript(rows=("W42", "W10"), profile="security")
def quotas_need_rights_on_the_cluster(play: Play) -> None:
    client = alice(play)
    client.ask("describe_client_quotas", 1, components=[])
    alter(client, (USER, RATE), ([("user", "v")],))
