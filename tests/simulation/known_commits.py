"""The known commits of one simulated process: a twin of `actors.leader.known_requests`, and its judge.

In the place of bytes it compares commits without their offsets. Whatever is decided of a known commit has to
be what is decided of the same one, unknown, at this very moment. Here what is known outlives connections and
images, as far as the shard lets it, and clients share it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from actors.coordinator.offsets.known import Known
from actors.ground.contract import Request, Result
from actors.protocol.api_keys import OFFSET_COMMIT
from actors.protocol.offset_rows import CommittedRows, packed
from tests.simulation.checkers import Violation
from tests.simulation.parts import Process


class KnownCommits:
    def __init__(self, process: Process, replica: Any) -> None:
        self._process = process
        self._replica = replica
        self._known: dict[Hashable, Known] = {}
        """What is the same in commits -> what is remembered of them."""

    def recognised(self, request: Request) -> Request:
        """Return the request as the replica is to get it: a commit as it is decoded, and with what is known
        of it."""
        if request.api_key != OFFSET_COMMIT:
            return request
        topics = tuple((topic, _as_decoded(rows)) for topic, rows in request.body.topics)
        request = request._replace(body=request.body._replace(topics=topics))
        if any(row[3] for _, rows in topics for row in rows):
            return request
        places = tuple((topic, tuple(row[0] for row in rows)) for topic, rows in topics)
        alike = (request.api_version, request.body._replace(topics=places))
        known = self._known.setdefault(alike, Known())
        found = request._replace(body=request.body._replace(known=known))
        if known.decided is not None:
            self._judge(request, found)
        return found

    def _judge(self, unknown: Request, known: Request) -> None:
        """Decide the request both ways, and leave no trace of that. Raises Violation."""
        if not self._replica.serving:
            return
        before = known.body.known.decided
        expected = self.decided(unknown)
        found = self.decided(known)
        known.body.known.decided = before
        if found != expected:
            raise Violation(
                f"known commits: {self._process.name} decides {found} of {known}, and unknown {expected}"
            )

    def decided(self, request: Request) -> Any:
        """Decide a request, and leave no trace of that. Return records, replies and events."""
        shard = self._replica.shard
        counts, tallies = dict(shard.state.offset_counts), shard.state.commit_tallies
        shard.state.commit_tallies = {group_id: list(tally) for group_id, tally in tallies.items()}
        result: Result = shard.handle(request, self._process.now_ms())
        shard.state.offset_counts.update(counts)
        shard.state.commit_tallies = tallies
        return tuple(map(tuple, result[:3]))


def _as_decoded(rows: Any) -> Any:
    """Return rows as they are read from bytes: packed, if they are several without metadata."""
    is_packed = len(rows) > 1 and not any(row[3] for row in rows)
    return CommittedRows(packed(rows)) if is_packed else tuple(map(tuple, rows))
