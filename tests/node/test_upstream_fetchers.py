"""It is remembered which brokers fetch our logs, in bounds."""

from __future__ import annotations

from actors.node.upstream_fetchers import FETCHERS_MAX, SILENT_MS, UpstreamFetchers


def test_brokers_are_remembered_as_long_as_they_fetch() -> None:
    now_ms = 0
    fetchers = UpstreamFetchers(lambda: now_ms)
    fetchers.fetched(0, (1, 10), 5)
    fetchers.fetched(1, (2, 20), 6)
    now_ms = SILENT_MS
    fetchers.fetched(0, (3, 30), 7)
    assert fetchers.of(0) == {1: (10, 5), 3: (30, 7)}
    now_ms += 1
    assert fetchers.of(0) == {3: (30, 7)}
    assert fetchers.of(1) == {}


def test_of_very_many_the_newest_are_remembered() -> None:
    """Any client may say that it is a broker, if nobody asks for rights."""
    now_ms = 0
    fetchers = UpstreamFetchers(lambda: now_ms)
    for broker_id in range(FETCHERS_MAX + 5):
        now_ms += 1
        fetchers.fetched(0, (broker_id, 1), 1)
        fetchers.fetched(0, (0, 1), now_ms)
    found = fetchers.of(0)
    assert len(found) == FETCHERS_MAX
    assert found[0] == (1, now_ms)
    assert FETCHERS_MAX + 4 in found
