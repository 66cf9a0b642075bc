"""Histories told in a few words: the tests' way to write down what clients saw."""

from __future__ import annotations

from typing import Any

from storage.history.calls import (
    ANSWERED,
    CLOSED,
    CONSUMER,
    READER,
    Call,
    Fault,
    Gone,
    History,
    Offset,
    Topic,
    history_of,
)

GROUP = "billing"


class Telling:
    """Times are given in milliseconds. Each method adds one call; `until=None`: its answer was lost."""

    def __init__(self) -> None:
        self._rows: list[Any] = []
        self._correlation_id = 0

    def history(self, end_ms: int | None = None, *, is_whole: bool = True) -> History:
        found = history_of(self._rows, is_whole=is_whole)
        return found if end_ms is None else found._replace(ended_us=end_ms * 1_000)

    def commit(self, at: int, until: int | None, offset: int, error: int = 0) -> None:
        offsets = (Offset("orders", 0, offset, error),)
        self._call("OffsetCommit", "m1", at, until, offsets=offsets, error_code=error, epoch=1)

    def read(self, at: int, until: int | None, offset: int) -> None:
        self._call("OffsetFetch", "reader", at, until, offsets=(Offset("orders", 0, offset),))

    def read_at_end(self, at: int, until: int | None, offset: int) -> None:
        self._call("OffsetFetch", READER, at, until, offsets=(Offset("orders", 0, offset),))

    def delete(self, at: int, until: int | None) -> None:
        self._call("DeleteGroups", "admin", at, until)

    def join(
        self, client: str, at: int, until: int | None, generation: int, error: int = 0, **fields: Any
    ) -> None:
        """Tell of a JoinGroup of the classic protocol."""
        fields = {"told_epoch": generation, "error_code": error, **fields}
        self._call("JoinGroup", client, at, until, **fields)

    def sync(
        self, client: str, at: int, until: int | None, generation: int, *numbers: int, **fields: Any
    ) -> None:
        subscribed, assigned = ("orders",), (("orders", numbers),)
        fields = {"epoch": generation, "assigned": assigned, "subscribed": subscribed, **fields}
        self._call("SyncGroup", client, at, until, **fields)

    def beat(
        self, client: str, at: int, until: int | None, generation: int, error: int = 0, **fields: Any
    ) -> None:
        """Tell of a heartbeat of the classic protocol."""
        self._call("Heartbeat", client, at, until, epoch=generation, error_code=error, **fields)

    def consumer_beat(
        self, client: str, at: int, until: int | None, epochs: tuple[int, int], **fields: Any
    ) -> None:
        """`epochs`: sent and told. `owned`, `assigned`: numbers of partitions."""
        for name in ("owned", "assigned"):
            if name in fields:
                fields[name] = (("orders", tuple(fields[name])),)
        epoch, told_epoch = epochs
        fields = {"epoch": epoch, "told_epoch": told_epoch, "subscribed": ("orders",), **fields}
        self._call("ConsumerGroupHeartbeat", client, at, until, protocol=CONSUMER, **fields)

    def fault(self, at: int, until: int, *, silences: bool = False) -> None:
        self._rows.append(Fault("SIGSTOP of a leader", "partition 0", at * 1_000, until * 1_000, silences))

    def sleep(self, name: str, at: int, until: int) -> None:
        """A client's own fault: it processes for so long."""
        self._rows.append(Fault("sleep", name, at * 1_000, until * 1_000))

    def gone(self, client: str, at: int) -> None:
        self._rows.append(Gone(client, at * 1_000))

    def topic(self, partitions: int, at: int = 0) -> None:
        self._rows.append(Topic("orders", partitions, at * 1_000))

    def call(self, **fields: Any) -> None:
        """Tell of a call of any other API."""
        self._rows.append(Call(**{"connection": "c1", "api": "Heartbeat", "group_id": GROUP, **fields}))

    def _call(self, api: str, client: str, at: int, until: int | None, **fields: Any) -> None:
        self._correlation_id += 1
        ends = {"outcome": CLOSED, "ended_us": at * 1_000 + 500}
        if until is not None:
            ends = {"outcome": ANSWERED, "ended_us": until * 1_000}
        fields = {
            "member_id": client,
            "connection": f"of {client}",
            "group_id": GROUP,
            "correlation_id": self._correlation_id,
            **ends,
            **fields,
        }
        self._rows.append(Call(client, api=api, sent_us=at * 1_000, **fields))
