"""The metrics of one node: its broker's own and those of the replicas that live on it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from actors import runtime
from actors.ground.spec import TierSpec, partition_name, replica_of_slot
from actors.metrics.counts import RequestCounts
from actors.metrics.endpoint import MetricsEndpoint
from actors.metrics.loop_lag import LoopLag
from actors.metrics.numbers import Row, merged, process_rows, request_rows
from actors.network.certificates import Certificates
from actors.network.quota import ConnectionQuota

log = logging.getLogger("groupd.metrics")

CALL_TIMEOUT_S = 2.0
OFF = -1


class NodeMetrics:
    """The metrics of node `node_id`. Its broker tells which replicas are linked to it."""

    def __init__(
        self, spec: TierSpec, node_id: int, quota: ConnectionQuota, certificates: Certificates | None = None
    ) -> None:
        self.requests = RequestCounts()
        """The answers that the broker itself gave, by API and error code."""
        self._namespace = spec.namespace
        self._node_id = node_id
        self._quota = quota
        self._certificates = certificates
        self._slots: set[int] = set()
        self._lag = LoopLag()
        self._endpoint: MetricsEndpoint | None = None
        port = spec.broker.metrics_port
        if port != OFF:
            own_port = port + node_id - 1 if port else 0
            self._endpoint = MetricsEndpoint(spec.broker.metrics_host, own_port, self.text)

    async def start(self) -> None:
        """Open the HTTP endpoint, if the node has one. Raises OSError naming the setting if its port cannot
        be had."""
        self._lag.start()
        if self._endpoint is not None:
            await self._endpoint.start()

    def close(self) -> None:
        self._lag.close()
        if self._endpoint is not None:
            self._endpoint.close()

    @property
    def port(self) -> int | None:
        """Return the port of the HTTP endpoint; None if there is none."""
        return None if self._endpoint is None else self._endpoint.port

    def on_link(self, slot: int, connected: bool) -> None:
        (self._slots.add if connected else self._slots.discard)(slot)

    def rows(self) -> list[Row]:
        """Return the broker's own rows."""
        return [
            *process_rows("broker"),
            *self._certificate_rows(),
            *request_rows(self.requests),
            ("connections", (), self._quota.total),
            ("connections_refused", (), self._quota.refused_total),
            ("event_queue_time_seconds", (), self._lag.late.packed()),
        ]

    def _certificate_rows(self) -> list[Row]:
        if self._certificates is None:
            return []
        not_after_s = self._certificates.contexts.certificate.not_after_s
        return [
            ("certificate_expiry_timestamp_seconds", (str(self._node_id),), not_after_s),
            ("tls_handshakes_failed", (), self._certificates.handshakes_failed_total),
        ]

    async def text(self) -> tuple[bytes, str]:
        """Return what a scrape gets, and its content type. A replica that does not answer in time is counted
        as failed in `num_partitions`."""
        from actors.metrics.exposition import CONTENT_TYPE, exposition  # only a node that is scraped pays

        answers = await asyncio.gather(*(self._ask(slot) for slot in sorted(self._slots)))
        return exposition(merged((*self.rows(), *(row for rows in answers for row in rows)))), CONTENT_TYPE

    async def _ask(self, slot: int) -> list[Any]:
        name = partition_name(*replica_of_slot(slot))
        try:
            handle = await runtime.look_up(name, self._namespace)
            if handle is not None:
                rows: list[Any] = await runtime.call(handle, "metrics", timeout_s=CALL_TIMEOUT_S)
                return rows
        except (runtime.ActorCallError, TimeoutError) as error:
            log.info("%s tells no metrics: %s", name, error)
        return [("num_partitions", ("failed",), 1)]
