"""Mistakes of known commits: something is remembered of them that has to be asked each time.

That a known commit is served of a group that has moved is in tests/simulation/split/mutants.py. That commits
which the lane takes are decided without asking the group, or by an older image, was met by no seed that was
tried: tests/leader/test_lane_commits.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.coordinator.offsets.known import DecidedBefore, made
from actors.coordinator.offsets.together import Steady, Together
from actors.coordinator.shard import CoordinatorShard
from actors.ground.contract import Request, Result
from actors.replica.entry import Batch
from actors.replica.neighbours import DecidedTogether
from actors.replica.replica import Replica


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


class OverlooksWhoElseCommitted(CoordinatorShard):
    """That no offset goes back is known as long as the group has what it had then."""

    def commit_together(self, commits: Sequence[Steady], packed: bytes, now_ms: int) -> Together:
        for steady in commits:
            offsets = self.state.offsets.get(steady.column.key[1])
            steady.column.blocks = None if offsets is None else offsets.blocks
        return super().commit_together(commits, packed, now_ms)


class ForgetsToUndoWhatCameTogether(Replica):
    """What was decided together is undone like anything else."""

    def take_together(self, decide: Callable[[], DecidedTogether], batch: Batch) -> list[int] | None:
        before = sum(len(entry.undo) for entry in self._uncommitted)
        left = super().take_together(decide, batch)
        after = sum(len(entry.undo) for entry in self._uncommitted)
        if after > before:
            del self._uncommitted[-1].undo[before - after :]
        return left


def decided_of(request: Request) -> DecidedBefore | None:
    """Return what is remembered of a request."""
    known = getattr(request.body, "known", None)
    decided: DecidedBefore | None = None if known is None else known.decided
    return decided
