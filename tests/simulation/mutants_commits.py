"""Mistakes of known commits: something is remembered of them that has to be asked each time.

That a known commit is served of a group that has moved is in tests/simulation/split/mutants.py.
"""

from __future__ import annotations

from actors.coordinator.offsets.known import DecidedBefore, made
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Request, Result


class TakesKnownCommitsUnasked(CoordinatorShard):
    """Whether its group takes a commit is asked each time, also of one that is known."""

    def handle(self, request: Request, now_ms: int) -> Result:
        decided = decided_of(request)
        result = super().handle(request, now_ms)
        if decided is None or decided.image is not self.state.image or result.records:
            return result
        return made(self.state, request, decided, now_ms)


class KnowsWhatOlderImagesSaid(CoordinatorShard):
    """What is known of a commit goes with the image: a topic may be gone, or made anew."""

    def handle(self, request: Request, now_ms: int) -> Result:
        decided = decided_of(request)
        if decided is not None:
            request.body.known.decided = decided._replace(image=self.state.image)
        return super().handle(request, now_ms)


def decided_of(request: Request) -> DecidedBefore | None:
    """Return what is remembered of a request."""
    known = getattr(request.body, "known", None)
    decided: DecidedBefore | None = None if known is None else known.decided
    return decided
