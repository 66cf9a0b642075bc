"""The REST interface of Kafka Connect's workers, of which some may be starting, busy or dead."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

TIMEOUT_S = 30.0
FINE = (200, 201)


class Workers:
    """The workers' REST servers, by their ports; whichever answers first answers."""

    def __init__(self, ports: Iterable[int]) -> None:
        self.ports = list(ports)

    def put(self, connector: str, config: Mapping[str, str]) -> bool:
        """Create a connector or change it; False: no worker could yet."""
        return self._asked("PUT", f"/connectors/{connector}/config", config) is not None

    def running(self) -> Counter[int]:
        """How many connectors and tasks run on each worker, by its port; empty while any of them does not."""
        connectors = self._asked("GET", "/connectors?expand=status") or {}
        parts = [
            part
            for known in connectors.values()
            for part in (known["status"]["connector"], *known["status"]["tasks"])
        ]
        if any(part["state"] != "RUNNING" for part in parts):
            return Counter()
        return Counter(int(part["worker_id"].rpartition(":")[2]) for part in parts)

    def _asked(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """The answer of the first worker that has one; None: none has."""
        for port in self.ports:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
            try:
                content = None if body is None else json.dumps(body)
                connection.request(method, path, content, {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
                if response.status in FINE:
                    return json.loads(answer)
            except OSError:
                continue
            finally:
                connection.close()
        return None
