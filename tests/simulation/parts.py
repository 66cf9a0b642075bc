"""What the parts of a world know of the whole: of the world itself, of its hosts and of their processes.

`world.World`, `hosts.Host` and `hosts.Process` are these things. A part names what it uses of them here, so
that no file imports the file that is made of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from storage.raft.members import Members


class World(Protocol):
    """Time, chance, whoever is there, and those who look on."""

    now: float
    """The seconds since the run began."""
    chance: random.Random
    code: Any
    config: Any
    kind: Any
    trace: Any
    founders: tuple[int, ...]
    hosts: dict[int, Any]
    is_healed: bool
    is_over: bool
    one_machine: bool
    sync: bool
    quiet_until: float
    image_version: int
    answers: Any
    bounds: Any
    checks: Any
    evidence: Any
    holds: Any
    seed: int
    home: Any
    group_settings: Any
    links: Any
    placement: Any
    plug_in_calls: Any
    promises: Any
    releases: Any
    rests: Any
    rules: Any
    state: Any
    votes: Any

    def at(self, when: float, work: Callable[[], None]) -> None: ...
    def after(self, seconds: float, work: Callable[[], None]) -> None: ...
    def note(self, name: str, what: str) -> None: ...
    def processes(self) -> list[Any]: ...
    def members(self) -> list[Any]: ...
    def leader(self) -> Any: ...
    def add_host(self) -> Any: ...
    def change_topics(self) -> None: ...
    def image(self) -> Any: ...
    def on_event(self, process: Any, event: Any) -> None: ...
    def new_id(self) -> str: ...
    def reaches(self, process: Any) -> bool: ...
    def cut_clients(self, number: int, seconds: float) -> None: ...


class Process(Protocol):
    """One life of a replica, on its host."""

    host: Any
    world: Any
    name: str
    number: int
    member_id: str
    directory: int
    connections: Any
    journal: Any
    machine: Any
    plug_ins: Any
    raft: Any
    snapshots: Any
    transport: Any
    watch: Any
    applied_index: int
    looked_index: int
    looked_last: tuple[int, int]

    @property
    def is_alive(self) -> bool: ...
    @property
    def members(self) -> Members: ...
    def now_ms(self) -> int: ...
    def later(self, delay: float, work: Callable[[], None]) -> None: ...
    def on_metadata(self, image: Any) -> None: ...
    def submit(self, asked: Any) -> None: ...
    def closed(self, asked: Any) -> None: ...
    def connected(self, peer_id: str) -> None: ...
    def disconnected(self, peer_id: str, *, closed_by_host: bool) -> None: ...
    def receive(self, sender_id: str, message: Any) -> None: ...
    def release(self, token: int, body: Any) -> None: ...
    def wake(self) -> None: ...
