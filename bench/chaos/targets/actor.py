"""One actor of a tier, as a fault sees it."""

from __future__ import annotations

from typing import NamedTuple


class Actor(NamedTuple):
    """One actor that answered."""

    name: str
    group: str | None
    """The Raft group that the actor belongs to; None: it is a broker."""
    replica_id: int
    """The number of the replica; of a broker, that of its node."""
    node_id: int
    pid: int
    leads: bool
    is_up: bool
    """Whether the actor takes part in its group; of a broker, whether it complains of nothing."""

    @property
    def label(self) -> str:
        """The name that reports use."""
        return f"{self.name} (leader)" if self.leads else self.name
