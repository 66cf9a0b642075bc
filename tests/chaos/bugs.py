"""Replicas with one broken rule each, for tiers that a full run must catch. See also
tests/simulation/mutants_replica.py; a docstring states the rule."""

from __future__ import annotations

from typing import Any

from actors.ground.contract import Reply
from actors.ground.records import GROUP_METADATA, OFFSET_BATCH, OFFSET_COMMIT
from actors.protocol.messages import SyncGroupResponse
from actors.replica.replica import Replica
from tests.simulation.mutants_replica import AnswersBeforeCommit

__all__ = ("AnswersBeforeCommit", "ForgetsGenerations", "GivesAllTheSame", "LosesCommits")

ONE_IN = 20


class LosesCommits(Replica):
    """A commit that is acknowledged is written down."""

    _commits = 0

    def _decide(self, records: Any) -> None:
        if records[0][0][0] in (OFFSET_COMMIT, OFFSET_BATCH):
            self._commits += 1
            if self._commits % ONE_IN == 0:
                return
        super()._decide(records)


class GivesAllTheSame(Replica):
    """Each member of a classic group is given what its leader chose for it."""

    _given: dict[Any, bytes]

    def _send(self, reply: Reply) -> None:
        body = reply.body
        if isinstance(body, SyncGroupResponse) and body.assignment:
            self._given = getattr(self, "_given", {})
            same = self._given.setdefault(reply.group_id, body.assignment)
            reply = reply._replace(body=body._replace(assignment=same))
        super()._send(reply)


class ForgetsGenerations(Replica):
    """A generation outlives the leader under which it began."""

    def _decide(self, records: Any) -> None:
        super()._decide(
            [
                (key, value._replace(generation=1))
                if key[0] == GROUP_METADATA and value is not None
                else (key, value)
                for key, value in records
            ]
        )
