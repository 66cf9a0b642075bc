"""Which operations a seed plays: drawn before anything is asked, so that any of them can be left out."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.oracle.generator.choosing_data import DATA_WEIGHTS
from tests.oracle.generator.operation import Draw, Operation, any_slot

_GROUPS = ("classic", "static", "consumer", "consumer_static", "mixed", "offsets", "transactions", "silent")
KINDS = (*_GROUPS, *DATA_WEIGHTS)


UNKNOWN_TOPICS = ("unknown", "zero")
"""Topics that nobody has: the name and the id of the first are nobody's, the id of the second is the zero
id."""
REGEXES = ("t[^-]*", "t|u", "[tu]", "^u$", "nothing.+", ".")
"""A prefix, alternatives, a class, anchors, nothing, all names of a letter: the topics of sequences alone, on
servers where other tests leave theirs too."""
BAD_REGEXES = ("", "(", "a{2,1}")
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
SESSION_TIMEOUT = "consumer.session.timeout.ms"
SET, DELETE, APPEND = range(3)
GROUP_CONFIGS: Mapping[str, tuple[str | None, ...]] = {
    HEARTBEAT_INTERVAL: ("100", "500", "2000", "2000", "15000", "99", "15001", "x", None),
    SESSION_TIMEOUT: ("15000", "20000", "60000", "999", "60001", "", None),
    "no.such": ("1", None),
}
"""Values that are possible and that are not. No session ends within a sequence."""


def operations(seed: int, count: int, kinds: tuple[str, ...] = KINDS) -> tuple[str, list[Operation]]:
    """The kind of group of this seed, and its operations."""
    rng = random.Random(seed)
    kind = kinds[seed % len(kinds)]
    draws, weights = zip(*_WEIGHTS[kind], strict=True)
    return kind, [rng.choices(draws, weights)[0](rng) for _ in range(count)]


def _member(rng: random.Random) -> dict[str, Any]:
    """Draw whose member id a request names: mostly none is drawn, and the slot's own id is taken."""
    return {"member": rng.choice(("other", "made-up", "empty"))} if rng.random() < 0.15 else {}


def _generation(rng: random.Random) -> dict[str, Any]:
    return {"off": rng.choice((1, -1, 100, -100))} if rng.random() < 0.15 else {}


def _instance(rng: random.Random) -> dict[str, Any]:
    return {"instance": rng.choice(("none", "other", "unknown"))} if rng.random() < 0.1 else {}


def natural_classic(rng: random.Random) -> Operation:
    return Operation("natural_classic", any_slot(rng))


def natural_consumer(rng: random.Random) -> Operation:
    return Operation("natural_consumer", any_slot(rng))


def join(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9)), **_member(rng)}
    args |= _instance(rng)
    if rng.random() < 0.2:
        args["protocols"] = rng.choice(
            ((), ("sticky",), ("roundrobin", "range"), ("sticky", "roundrobin", "range"))
        )
    if rng.random() < 0.2:
        args["topics"] = rng.choice((("t",), ("t", "u"), ("u",)))
    if rng.random() < 0.06:
        args["protocol_type"] = rng.choice(("connect", ""))
    if rng.random() < 0.04:
        args["session_timeout"] = rng.choice((0, -1, 99, 1_800_001))
    return Operation("join", any_slot(rng), args)


def sync(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.choice((0, 1, 2, 3, 4, 5, 5, 5)), **_member(rng)}
    args |= _generation(rng) | _instance(rng)
    if rng.random() < 0.1:
        args["protocol"] = rng.choice(("sticky", None))
    return Operation("sync", any_slot(rng), args)


def heartbeat(rng: random.Random) -> Operation:
    args = {"version": rng.randrange(5), **_member(rng), **_generation(rng), **_instance(rng)}
    return Operation("heartbeat", any_slot(rng), args)


def leave(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.choice((0, 1, 2, 3, 4, 5, 5)), **_member(rng)}
    args["by"] = rng.choice(("id", "id", "both", "instance"))
    if rng.random() < 0.2:
        args["also"] = rng.choice(("same", "made-up", "other"))
    return Operation("leave", any_slot(rng), args)


def commit(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.choice((2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 10, 10, 10))}
    args |= _member(rng)
    args |= _generation(rng) | _instance(rng)
    args["offset"] = rng.randrange(1_000)
    args["partition"] = rng.choice(("owned", 0, 1, 2, 11, 12, -1))
    args["topic"] = rng.choice(("t", "t", "t", "t", "u", *UNKNOWN_TOPICS))
    if rng.random() < 0.2:
        args["also"] = rng.choice(("t", "u", *UNKNOWN_TOPICS))
    if rng.random() < 0.1:
        args["metadata"] = rng.choice(("x" * 4_096, "x" * 4_097, "ä" * 4_000, None))
    return Operation("commit", any_slot(rng), args)


def simple_commit(rng: random.Random) -> Operation:
    operation = commit(rng)
    outside = {"member": rng.choice(("empty", "empty", "made-up")), "simple": rng.choice((-1, -1, -1, 0, 1))}
    return operation._replace(args={**operation.args, **outside})


def fetch(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.choice((*range(1, 10), 10, 10, 10)), "all": rng.random() < 0.4}
    args["stable"] = rng.random() < 0.3
    args["unknown"] = rng.choice(UNKNOWN_TOPICS)
    if rng.random() < 0.3:
        args |= {"as_member": True, **_member(rng), **_generation(rng)}
    return Operation("fetch", any_slot(rng), args)


def beat(rng: random.Random) -> Operation:
    args: dict[str, Any] = {"version": rng.choice((0, 1, 1, 1)), **_member(rng), **_instance(rng)}
    roll = rng.random()
    if roll < 0.3:
        args["epoch"] = rng.choice(("zero", "previous", "next", "far", "minus three"))
    args["owned"] = rng.choice(("null", "null", "assigned", "some", "none", "foreign"))
    args["full"] = rng.random() < 0.3
    if rng.random() < 0.25:
        args["topics"] = rng.choice((("t",), ("t", "u"), ("u",), (), ("unknown",), ("t", "t")))
    if rng.random() < 0.15:
        args |= {"regex": rng.choice(REGEXES * 2 + BAD_REGEXES), "version": 1}
    if rng.random() < 0.1:
        args["assignor"] = rng.choice(("uniform", "range", "", "nope"))
    if rng.random() < 0.05:
        args["rack"] = rng.choice(("", " ", "r"))
    if rng.random() < 0.05:
        args["rebalance_timeout"] = rng.choice((-1, 60_000))
    return Operation("beat", any_slot(rng), args)


def beat_out(rng: random.Random) -> Operation:
    args = {"epoch": rng.choice(("leave", "leave", "leave static")), "owned": "null", **_member(rng)}
    return Operation("beat", any_slot(rng), {"version": 1, **args, **_instance(rng)})


def alter_configs(rng: random.Random) -> Operation:
    chosen = rng.choices(tuple(GROUP_CONFIGS), (6, 3, 1), k=rng.choice((1, 1, 1, 2)))
    changes = [(name, *_change(rng, rng.choice(GROUP_CONFIGS[name]))) for name in chosen]
    args = {"changes": changes, "version": rng.randrange(2), "validate_only": rng.random() < 0.1}
    return Operation("alter_configs", any_slot(rng), args)


def _change(rng: random.Random, value: str | None) -> tuple[int, str | None]:
    """The operation and its value; None is mostly a deletion."""
    if value is None and rng.random() < 0.9:
        return DELETE, None
    return APPEND if rng.random() < 0.03 else SET, value


def describe_configs(rng: random.Random) -> Operation:
    names = rng.choice((None, [HEARTBEAT_INTERVAL], [SESSION_TIMEOUT, HEARTBEAT_INTERVAL], ["no.such"]))
    args = {"names": names, "version": rng.randrange(1, 5), "synonyms": rng.random() < 0.5}
    return Operation("describe_configs", any_slot(rng), args)


def describe(rng: random.Random) -> Operation:
    api = rng.choice(("describe_groups", "describe_groups", "consumer_group_describe"))
    version = rng.randrange(2) if api == "consumer_group_describe" else rng.randrange(7)
    return Operation("describe", any_slot(rng), {"api": api, "version": version})


def list_groups(rng: random.Random) -> Operation:
    states = rng.choice(
        ((), ("Stable",), ("empty", "PREPARINGREBALANCE"), ("Assigning", "Reconciling"), ("x",))
    )
    types = rng.choice(((), ("classic",), ("Consumer",), ("share", "y")))
    return Operation("list_groups", 0, {"version": rng.randrange(6), "states": states, "types": types})


def delete(rng: random.Random) -> Operation:
    return Operation("delete", any_slot(rng), {"version": rng.randrange(4), "twice": rng.random() < 0.2})


def delete_offsets(rng: random.Random) -> Operation:
    args = {
        "topics": rng.choice((("t",), ("u",), ("t", "u"), ("unknown", "t"))),
        "partition": rng.choice((0, 1, 12)),
    }
    return Operation("delete_offsets", any_slot(rng), args)


def find(rng: random.Random) -> Operation:
    return Operation("find", any_slot(rng), {"version": rng.randrange(7)})


def natural_transaction(rng: random.Random) -> Operation:
    return Operation("natural_transaction", rng.randrange(2), {"turn": rng.randrange(5)})


def transaction(rng: random.Random) -> Operation:
    what = rng.choice(("init_producer", "add_offsets", "txn_commit", "txn_commit", "end_txn"))
    args: dict[str, Any] = {"commits": rng.random() < 0.6, "offset": rng.randrange(1_000)}
    args["version"] = rng.choice((0, 1, 2, 3, 3, 3))
    args["by_id"] = rng.random() < 0.3
    if rng.random() < 0.2:
        args["producer_epoch"] = rng.choice((1, -1))
    if rng.random() < 0.05:
        args["producer_id"] = 1
    return Operation(what, rng.randrange(2), args)


def pass_time(rng: random.Random) -> Operation:
    return Operation("pass_time", 0)


_ADMIN: list[tuple[Draw, float]] = [(describe, 3), (list_groups, 1), (find, 0.3)]
_OFFSETS: list[tuple[Draw, float]] = [(commit, 2), (fetch, 2), (delete_offsets, 0.5), (delete, 0.4)]
_CONFIGS: list[tuple[Draw, float]] = [(alter_configs, 1.2), (describe_configs, 0.5)]
_CLASSIC: list[tuple[Draw, float]] = [
    (natural_classic, 12),
    (join, 3),
    (sync, 2),
    (heartbeat, 2),
    (leave, 1.5),
]
_CONSUMER: list[tuple[Draw, float]] = [(natural_consumer, 12), (beat, 6), (beat_out, 1.5)]
_WEIGHTS: Mapping[str, list[tuple[Draw, float]]] = {
    **DATA_WEIGHTS,
    "classic": _CLASSIC + _ADMIN + _OFFSETS,
    "static": _CLASSIC + _ADMIN + _OFFSETS,
    "consumer": [*_CONSUMER, *_CONFIGS, *_ADMIN, *_OFFSETS, (leave, 0.3), (heartbeat, 0.3), (sync, 0.3)],
    "consumer_static": [*_CONSUMER, *_CONFIGS, *_ADMIN, *_OFFSETS, (leave, 0.3)],
    "mixed": [*_CONSUMER, *_CLASSIC, *_CONFIGS, *_ADMIN, *_OFFSETS],
    "offsets": [
        *_ADMIN,
        (simple_commit, 8),
        (fetch, 6),
        (delete_offsets, 2),
        (delete, 1),
        (natural_classic, 1),
    ],
    "silent": [*_CLASSIC, *_ADMIN, (commit, 1), (pass_time, 1.2)],
    "transactions": [
        (natural_transaction, 10),
        (transaction, 4),
        (fetch, 5),
        (simple_commit, 2),
        (describe, 1),
        (delete, 0.5),
        (delete_offsets, 0.5),
    ],
}
