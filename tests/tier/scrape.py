"""What the only node of a tier tells over HTTP, as Prometheus reads it."""

from __future__ import annotations

import urllib.request
from functools import cache

from prometheus_client.parser import text_string_to_metric_families

from actors.metrics.families import PREFIX
from bench.ground.throwaway import Tier

ONE_NODE = ("--nodes", "1", "--replicas", "1", "--partitions", "2", "--set", "metrics.port=0")


def scraped(tier: Tier) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the tier's metrics as {(name without prefix, label values): value}."""
    with urllib.request.urlopen(_url(tier), timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name.removeprefix(PREFIX), tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@cache
def _url(tier: Tier) -> str:
    (broker,) = tier.brokers()
    return f"http://127.0.0.1:{broker['metrics_port']}/metrics"
