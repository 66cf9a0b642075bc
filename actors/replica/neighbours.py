"""What a replica needs of its neighbours: the log below it, and what watches it from above."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from actors.ground.contract import Key, Request, Result, Value


class Log(Protocol):
    """What a replica needs of Raft."""

    @property
    def is_leader(self) -> bool: ...
    @property
    def term(self) -> int: ...
    @property
    def pending_bytes(self) -> int: ...
    def propose(self, command: bytes) -> int: ...
    def has_lease(self) -> bool: ...


class Watcher(Protocol):
    """What wants to know what happens to a serving replica's shard, and has its part of each turn."""

    @property
    def next_deadline_ms(self) -> int | None: ...
    def happened(self, result: Result) -> None: ...
    def image_changed(self) -> None: ...
    def run(self, now_ms: int) -> None: ...
    def refuse_all(self) -> None: ...


class Repeats(Protocol):
    """What repeats answers that a serving replica gave, and forgets them when it is told of anything that may
    change them."""

    def asked(self, request: Request) -> None: ...
    def written(self, records: Iterable[tuple[Key, Value | None]]) -> None: ...
    def told(self, events: Sequence[Any]) -> None: ...
    def everything(self) -> None: ...


class NothingRepeats:
    """What stands in where no answer is repeated."""

    def asked(self, request: Request) -> None:
        return

    def written(self, records: Iterable[tuple[Key, Value | None]]) -> None:
        return

    def told(self, events: Sequence[Any]) -> None:
        return

    def everything(self) -> None:
        return


class DecidedTogether(Protocol):
    """What was decided of several requests at once, and is applied: `coordinator.offsets.together`."""

    @property
    def records(self) -> list[bytes]: ...
    @property
    def undo(self) -> list[tuple[Key, Value | None]]: ...
    @property
    def groups(self) -> list[str]: ...
    @property
    def left(self) -> list[int]: ...


class Feed(Protocol):
    """What is told what a serving replica commits."""

    def committed(self, command: bytes) -> None: ...
    def end(self) -> None: ...
