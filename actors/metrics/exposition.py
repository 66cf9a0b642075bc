"""Write merged numbers in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.metrics.families import FAMILIES, PREFIX, QUANTILES, Family
from actors.metrics.histogram import quantile_ns
from actors.metrics.numbers import Numbers

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Once(Collector):
    """The collector of one scrape's numbers."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def collect(self) -> Iterable[Metric]:
        by_name: dict[str, list[tuple[tuple[str, ...], Any]]] = {}
        for (name, labels), value in sorted(self._numbers.items()):
            by_name.setdefault(name, []).append((labels, value))
        for name, rows in by_name.items():
            yield _metric(FAMILIES[name], rows)


def exposition(numbers: Numbers) -> bytes:
    """Return what a scrape gets."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(numbers))
    return generate_latest(registry)


def _metric(family: Family, rows: list[tuple[tuple[str, ...], Any]]) -> Metric:
    name = PREFIX + family.name
    if family.kind == "summary":
        summary = Metric(name, family.meaning, "summary")
        for labels, value in rows:
            for suffix, quantile, number in summary_samples(value):
                given = dict(zip(family.labels, labels, strict=True)) | quantile
                summary.add_sample(name + suffix, given, number)
        return summary
    cls = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = cls(name, family.meaning, labels=family.labels)
    for labels, value in rows:
        metric.add_metric(labels, value)
    return metric


def summary_samples(value: tuple[int, dict[int, int]]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield (suffix, labels, number in seconds) of a merged histogram."""
    sum_ns, counts = value
    for quantile in QUANTILES:
        yield "", {"quantile": f"{quantile:g}"}, quantile_ns(counts, quantile) / 1e9
    yield "_count", {}, sum(counts.values())
    yield "_sum", {}, sum_ns / 1e9
