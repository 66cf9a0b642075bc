"""How far the upgrade of a running tier is: which release each actor has, and which level all can serve."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors import runtime
from actors.ground.features import GROUPD_VERSION, UPGRADE
from actors.ground.release import levels_of
from actors.ground.spec import TierSpec
from actors.metadata.commands import FeatureUpdate, UpdateFeatures
from actors.runtime import ActorCallError
from cluster.replica_changes import ReplicaChanges
from cluster.tier import gather_status
from cluster.tier_actors import TierActor, actors_of
from cluster.tier_file import TierError, TierFile, hint

DONE_WAIT_S: Final = 15.0
"""How long, in seconds, nodes may take to hear of a level that was finalized."""
LOOK_INTERVAL_S: Final = 0.2
OLDER: Final = "older"
"""What stands for the release of an actor that does not say which it has."""


class ActorRelease(NamedTuple):
    """What an actor runs."""

    actor: str
    node_id: int
    release: str | None
    """The actor's release; None: it does not answer."""
    low: int = 0
    high: int = 0
    """The lowest and the highest level that it can serve."""
    level: int | None = None
    """The finalized level, as far as the actor knows; replicas of partitions do not say."""
    problem: str | None = None


class UpgradeState(NamedTuple):
    """How far the upgrade of a tier is."""

    actors: tuple[ActorRelease, ...]
    machines: Mapping[str, str | None]
    """Machine -> the release of its agent; None: it does not answer. There are none if the
    tier lives in one Ray or is asked over its port."""

    @property
    def level(self) -> int:
        """Return the finalized level, as the newest news have it. Raises TierError if nobody knows it."""
        known = [each.level for each in self.actors if each.level is not None]
        if not known:
            raise TierError("neither a controller nor a broker says which level is finalized: try again")
        return max(known)

    @property
    def possible(self) -> int:
        """Return the highest level that every actor can serve which answers."""
        return min((each.high for each in self.actors if each.release is not None), default=0)

    @property
    def highest(self) -> int:
        """Return the highest level that any actor can serve."""
        return max((each.high for each in self.actors if each.release is not None), default=0)

    @property
    def silent(self) -> list[str]:
        return [each.actor for each in self.actors if each.release is None]

    @property
    def holding_back(self) -> list[ActorRelease]:
        """Return the actors that cannot serve what others can."""
        return [each for each in self.actors if each.release is not None and each.high < self.highest]


def state_of(spec: TierSpec) -> UpgradeState:
    """Ask every actor of a tier what it runs. Raises TierError."""
    actors = actors_of(spec)
    statuses = gather_status(spec.namespace, [actor.name for actor in actors])
    return UpgradeState(tuple(releases(actors, statuses)), _machines())


def releases(actors: Iterable[TierActor], statuses: Mapping[str, Mapping[str, Any]]) -> list[ActorRelease]:
    """Return what actors run, as their statuses say."""
    return [_release(actor, statuses[actor.name]) for actor in actors]


def _release(actor: TierActor, status: Mapping[str, Any]) -> ActorRelease:
    if "dead" in status:
        return ActorRelease(actor.name, actor.node_id, None, problem=status["dead"])
    release, problem = status.get("release", OLDER), status.get("problem")
    # An actor that could not start knows nothing of the tier yet.
    level = None if problem else status.get("level")
    return ActorRelease(actor.name, actor.node_id, release, *levels_of(status), level, problem)


def _machines() -> dict[str, str | None]:
    asked = runtime.machines()
    if asked is None:
        return {}
    try:
        return {
            machine: None if said is None else said.get("release", OLDER)
            for machine, said in asked.releases().items()
        }
    except (ActorCallError, TimeoutError) as error:
        raise TierError(f"the machines cannot be asked: {error or 'no answer'}") from None


def finalize(tier: TierFile, spec: TierSpec, data_dir: Path, level: int | None) -> tuple[int, int]:
    """Raise the level to `level`, or to the highest that every actor can serve. Return the level of before
    and that of now. Raises TierError, and nothing is changed then."""
    state = state_of(spec)
    if state.silent:
        raise TierError(
            f"{', '.join(state.silent[:5])} {'does' if len(state.silent) == 1 else 'do'} not answer: what "
            f"they can serve is not known; {hint('upgrade status', data_dir)} shows more"
        )
    before, wanted = state.level, state.possible if level is None else level
    older = [each for each in state.actors if each.high < wanted]
    if older:
        first = older[0]
        raise TierError(
            f"{first.actor} on node {first.node_id} has groupd {first.release}, which serves levels "
            f"{first.low} to {first.high}: level {wanted} needs a newer release there"
        )
    if wanted == before:
        return before, before
    ReplicaChanges(tier, data_dir).submit(UpdateFeatures((FeatureUpdate(GROUPD_VERSION, wanted, UPGRADE),)))
    deadline = time.monotonic() + DONE_WAIT_S
    while any(each.level != wanted for each in state.actors if each.level is not None):
        if time.monotonic() > deadline:
            raise TierError(f"level {wanted} is finalized, and not every node has heard of it yet")
        time.sleep(LOOK_INTERVAL_S)
        state = state_of(spec)
    return before, wanted
