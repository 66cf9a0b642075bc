"""Describes what a replay is going to do, in lines for people. PURE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.swarm.planning.plan import CRASH, GROW, LEAVE, START
from bench.swarm.replay.counts import Counts, together
from bench.swarm.replay.planning import Replay
from bench.swarm.replay.told import Recording


def summary(recording: Recording, replayed: Replay, then: Sequence[Counts]) -> list[str]:
    """The description, in Markdown that reads well as plain text."""
    plan, timeline = replayed.plan, replayed.timeline
    counts = Counter(action.kind for action in plan.actions)
    seen = together(then)
    groups = len({member.group_id for member in plan.members})
    return [
        f"# Replay of {recording.span}",
        "",
        f"Recorded: {seen.groups:,} groups, {seen.joins:,} joins, {seen.leaves:,} leaves,"
        f" {seen.expired:,} removed by a timeout, {seen.rebalances:,} rebalances,"
        f" {seen.commits:,.0f} commits.",
        f"Planned: {groups:,} groups, {len(plan.members):,} members,"
        f" {sum(topic.partitions for topic in plan.topics):,} partitions of {len(plan.topics):,} topics;"
        f" {counts[START]:,} starts, {counts[LEAVE]:,} leaves, {counts[CRASH]:,} crashes,"
        f" {counts[GROW]:,} topics grow.",
        f"Takes {timeline.duration_s:,.0f} s: {timeline.lead_s:g} s to settle, {timeline.length_s:g} s of"
        f" recorded time, {timeline.calm_s:g} s of calm.",
        "",
        *(f"* {word}" for word in replayed.words),
    ]
