"""The list of faults: what each says of itself."""

from __future__ import annotations

import re

from bench.chaos.faults import KINDS
from bench.chaos.targets.fault import OUTAGE, SAFE

NEEDS = {"replicas", "own", "ray-nodes", "machines", "proxy", "injection", "tmpfs", "upstream"}
TARGETS = ("leader", "follower", "replica", "majority", "all", "broker", "controller")
OF_KAFKA = ("kafka-broker", "kafka-controller", "kafka")


def test_every_kind_says_what_it_does_and_needs() -> None:
    for name, kind in KINDS.items():
        assert name == kind.name
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name), "it is typed on a command line"
        assert kind.about.endswith("."), name
        assert kind.reach in (SAFE, OUTAGE), name
        assert kind.needs <= NEEDS, name


def test_every_signal_goes_to_every_target() -> None:
    assert {
        f"{deed}-{target}" for deed in ("kill", "term", "freeze") for target in (*TARGETS, *OF_KAFKA)
    } <= set(KINDS)


def test_what_takes_a_majority_away_is_no_safe_fault() -> None:
    outages = {name for name, kind in KINDS.items() if kind.reach == OUTAGE}
    assert {name for name in KINDS if name.endswith(("-all", "-majority"))} - outages == {"disk-slow-all"}
