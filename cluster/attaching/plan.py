"""The plan of standing in front of a Kafka cluster: what would move, what stands in the way, how long it
takes. PURE.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from actors.ground.features import METADATA_VERSION
from actors.upstream.levels import feature_levels, metadata_version_name
from cluster.attaching.facts import OFFSETS_PARTITIONS, Facts, Wishes
from cluster.attaching.obstacles import BLOCKS, Obstacle, counted, obstacles, shortened

STEP_S_LEAST: Final = 0.15
"""How long, in seconds, one offsets partition takes besides the fetching of its records: the tier's replicas
join, one reassignment makes the first of them the leader. Four partitions took 0.57 s (Kafka 4.3.1, three
brokers, two busy cores), and STEP_S_MOST times four when nothing was warm yet."""
STEP_S_MOST: Final = 0.6
ASSUMED_BYTES_PER_S: Final = 10_000_000
"""How fast records are fetched if that could not be measured."""
MEASURED_BYTES_MIN: Final = 100_000
"""Less than this says nothing about how fast a longer log is fetched."""


class Estimate(NamedTuple):
    """How long the take-over will take, one partition after the other."""

    least_s: float
    most_s: float
    how: str
    """How that was reckoned, in words."""


class Plan(NamedTuple):
    """What `groupd attach --plan` says."""

    facts: Facts
    wishes: Wishes
    obstacles: tuple[Obstacle, ...]
    estimate: Estimate

    @property
    def is_blocked(self) -> bool:
        return any(each.severity == BLOCKS for each in self.obstacles)


def planned(facts: Facts, wishes: Wishes) -> Plan:
    return Plan(facts, wishes, obstacles(facts, wishes), estimated(facts))


def estimated(facts: Facts) -> Estimate:
    """Return how long the take-over will take."""
    count = partition_count(facts) or 0
    size_bytes, sample = facts.size_bytes, facts.sample
    steps = f"{STEP_S_LEAST:g} to {STEP_S_MOST:g} s each (a trial with Kafka 4.3)"
    each = f"{count} partitions, one after the other, {steps}"
    if size_bytes is None:
        return Estimate(
            count * STEP_S_LEAST,
            count * STEP_S_MOST,
            f"{each}; their records come on top: no broker told their size",
        )
    if sample is not None and sample.size_bytes >= MEASURED_BYTES_MIN and sample.seconds > 0:
        bytes_per_s, measured = sample.size_bytes / sample.seconds, "measured now"
    else:
        bytes_per_s, measured = (
            float(ASSUMED_BYTES_PER_S),
            "assumed: too little could be fetched to measure it",
        )
    fetching_s = size_bytes / bytes_per_s
    return Estimate(
        count * STEP_S_LEAST + fetching_s,
        count * STEP_S_MOST + fetching_s,
        f"{each}, and {sized(size_bytes)} of records at {sized(bytes_per_s)}/s ({measured})",
    )


def partition_count(facts: Facts) -> int | None:
    """Return how many offsets partitions there are, or will be when they are made; None if nobody says."""
    if facts.partitions is not None:
        return len(facts.partitions)
    configured = facts.config_values(OFFSETS_PARTITIONS)
    return int(next(iter(configured))) if len(configured) == 1 else None


def moving(plan: Plan) -> list[tuple[str, str]]:
    """Return what would move, as (what, how much)."""
    facts = plan.facts
    rows = [("offsets partitions", _partitions(facts)), ("groups", _groups(facts))]
    found = facts.counted
    of_groups = f"{found.offsets:,} of {counted(found.groups, 'group')}"
    if found.problem is None:
        rows.append(("committed offsets", of_groups))
    else:
        rows.append(("committed offsets", f"at least {of_groups}: {found.problem}"))
    estimate = plan.estimate
    if not facts.is_topic_seen:
        rows.append(("roughly", "not known"))
    elif facts.partitions is None:
        rows.append(("roughly", "a few seconds: there is nothing to fetch"))
    else:
        rows.append(("roughly", f"{_span(estimate.least_s, estimate.most_s)}: {estimate.how}"))
    return rows


def _partitions(facts: Facts) -> str:
    count = partition_count(facts)
    if not facts.is_topic_seen:
        return "not known: the user may not see __consumer_offsets"
    if facts.partitions is None:
        made = "as many as the brokers are configured for" if count is None else f"{count}"
        return f"none yet: the tier will make __consumer_offsets with {made}"
    size_bytes = facts.size_bytes
    size = "of unknown size" if size_bytes is None else f"with {sized(size_bytes)} to fetch"
    return f"{count} of __consumer_offsets, {size}"


def _groups(facts: Facts) -> str:
    """Return how many groups there are of each type, and in which states."""
    states: dict[str, Counter[str]] = {}
    for row in facts.groups:
        states.setdefault(row.type, Counter())[row.state or "Unknown"] += 1
    silent = sum(not broker.answers for broker in facts.brokers)
    unseen = f", and those of {counted(silent, 'broker')} without an answer" if silent else ""
    if not states:
        return f"none{unseen}"
    kinds = (
        f"{sum(found.values()):,} {kind.lower()} "
        f"({', '.join(f'{count:,} {state}' for state, count in sorted(found.items()))})"
        for kind, found in sorted(states.items())
    )
    return "; ".join(kinds) + unseen


def features(facts: Facts) -> list[tuple[str, str]]:
    """Return which level each feature has and which the tier understands, as (feature, in words)."""
    if not facts.is_kraft:
        return []
    levels = feature_levels(facts.features, facts.supported or None)
    return [(each.name, each.in_words()) for each in levels]


def asked(facts: Facts) -> list[tuple[str, str]]:
    """Return who was asked, as (what, who)."""
    level = facts.features.get(METADATA_VERSION)
    rows = [
        ("cluster", facts.cluster_id),
        ("metadata.version", metadata_version_name(level) if level else "none"),
    ]
    if facts.brokers:
        rows.append(("brokers", shortened(broker.broker_id for broker in facts.brokers)))
    if facts.quorum is not None:
        others = len(facts.quorum.ids) - 1
        of_how_many = f", of {others + 1} that vote" if others else ""
        rows.append(
            ("controller", f"{facts.quorum.active_id} is active at {facts.quorum.address}{of_how_many}")
        )
    return rows


def verdict(plan: Plan) -> str:
    """Return what it comes to, in a sentence."""
    blocking = sum(each.severity == BLOCKS for each in plan.obstacles)
    warning = len(plan.obstacles) - blocking
    warned = f" {counted(warning, 'thing')} to know." if warning else ""
    if not blocking:
        return f"Nothing blocks.{warned}"
    return f"{counted(blocking, 'thing')} {'blocks' if blocking == 1 else 'block'}.{warned}"


def plain(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain values, for --json."""
    facts, estimate = plan.facts, plan.estimate
    return {
        "cluster_id": facts.cluster_id,
        "features": dict(facts.features),
        "understood": [each._asdict() for each in feature_levels(facts.features, facts.supported or None)],
        "brokers": [broker.broker_id for broker in facts.brokers],
        "active_controller": None if facts.quorum is None else facts.quorum.active_id,
        "offsets_partitions": None if facts.partitions is None else len(facts.partitions),
        "offsets_bytes": facts.size_bytes,
        "groups": [row._asdict() for row in facts.groups],
        "committed_offsets": facts.counted._asdict(),
        "estimate": estimate._asdict(),
        "blocked": plan.is_blocked,
        "obstacles": [each._asdict() for each in plan.obstacles],
    }


def sized(size_bytes: float) -> str:
    """Return a size in words, in the largest unit that it fills."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes:.0f} bytes"


def _span(least_s: float, most_s: float) -> str:
    if most_s < 120:
        return f"{max(1, round(least_s))} to {max(2, round(most_s))} s"
    return f"{least_s / 60:.0f} to {most_s / 60:.0f} min"
