"""The command that says what shall become of the groups of the Kafka cluster upstream."""

from __future__ import annotations

from typing import NamedTuple


class SetUpstreamGoal(NamedTuple):
    """The order to have a goal of `actors.ground.upstream_goal`. It is refused if the present one does not
    lead there, or is not `expected` any more."""

    goal: int
    expected: int | None = None
    """The goal that it takes the place of; None: whichever there is."""
