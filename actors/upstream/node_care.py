"""Heartbeats that the reconcile of leaders sends for nodes of the tier: it fences the dead and switches
cordons.

Whoever knows a broker's epoch may send its heartbeat. A node's own heartbeats leave the cordon as it is.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from actors.upstream.partitions import BrokerState, Facts
from actors.upstream.reports import NodeFenced
from actors.upstream.requests import BrokerHeartbeat, HeartbeatAnswer
from actors.upstream.sent import SHOWN_MS, Moment, Sent

STALE: Final = frozenset({"stale_broker_epoch", "broker_id_not_registered", "not_controller"})
"""Errors that say that the metadata is newer than what was known."""


class NodeCare:
    """What was asked for each node of the tier."""

    def __init__(self) -> None:
        self._sent: dict[int, Sent] = {}
        self._switched: dict[int, tuple[bool, int]] = {}
        """Node -> whether it is cordoned by a heartbeat that was granted, and until when that is believed
        if the metadata says otherwise."""
        self._told: list[NodeFenced] = []

    def is_cordoned(self, broker_id: int, broker: BrokerState, moment: Moment) -> bool:
        """Return whether a broker's directories are cordoned, as far as is known."""
        shown = bool(broker.cordoned_log_dirs)
        switched = self._switched.get(broker_id)
        if switched is None:
            return shown
        value, believed_until_ms = switched
        if value == shown or moment.now_ms >= believed_until_ms:
            del self._switched[broker_id]
            return shown
        return value

    def may_be_cordoned(self, broker_id: int, brokers: Mapping[int, BrokerState], moment: Moment) -> bool:
        """Return whether a broker's directories are cordoned, or may be by a heartbeat that is under way."""
        sent, broker = self._sent.get(broker_id), brokers.get(broker_id)
        is_asked = sent is not None and sent.is_asked
        return broker is not None and (is_asked or self.is_cordoned(broker_id, broker, moment))

    def told(self) -> list[NodeFenced]:
        """Return what has happened since the last call."""
        told, self._told = self._told, []
        return told

    def heartbeats(self, facts: Facts, needed: AbstractSet[int], moment: Moment) -> Iterator[BrokerHeartbeat]:
        """Yield the heartbeats to send now. The nodes that are `needed` are to be uncordoned, all others
        cordoned."""
        for broker_id in sorted(facts.tier & facts.brokers.keys()):
            broker = facts.brokers[broker_id]
            sent = self._sent.setdefault(broker_id, Sent())
            is_asked_to_go = broker.in_controlled_shutdown and broker_id not in facts.dead
            if broker.fenced or is_asked_to_go or not sent.is_free(_version(broker), moment):
                continue
            heartbeat = BrokerHeartbeat(broker_id, broker.broker_epoch, moment.metadata_offset)
            if broker_id in facts.dead:
                self._told.append(NodeFenced(broker_id, broker.broker_epoch))
                heartbeat = heartbeat._replace(want_fence=True)
            elif not facts.can_cordon or self.is_cordoned(broker_id, broker, moment) != (broker_id in needed):
                continue
            else:
                cordoned = () if broker_id in needed else broker.log_dirs
                heartbeat = heartbeat._replace(cordoned_log_dirs=cordoned)
            sent.ask(_version(broker))
            yield heartbeat

    def answered(self, heartbeat: BrokerHeartbeat, answer: HeartbeatAnswer, moment: Moment) -> None:
        """Take note of the answer to a heartbeat."""
        sent = self._sent[heartbeat.broker_id]
        error = answer.error_code.name
        if error != "none":
            sent.refused(moment, is_stale=error in STALE)
            return
        sent.granted(moment)
        if heartbeat.cordoned_log_dirs is not None:
            until_ms = moment.now_ms + SHOWN_MS
            self._switched[heartbeat.broker_id] = (bool(heartbeat.cordoned_log_dirs), until_ms)

    def lost(self, heartbeat: BrokerHeartbeat, moment: Moment) -> None:
        """Take note that a heartbeat has no answer."""
        self._sent[heartbeat.broker_id].lost(moment)

    def disbelieve(self) -> None:
        """Forget what was switched: the controller says otherwise."""
        self._switched.clear()


def _version(broker: BrokerState) -> object:
    return broker.broker_epoch, broker.fenced, broker.cordoned_log_dirs
