"""Keep a tier's actors and replicas as they should be: the controller's leader runs this once a second.

Ray restarts an actor whose process dies. The rest is done here: actors that are missing are made, failed
starts are tried again, members of Raft groups become those of the placement, replicas whose files are damaged
begin anew, replicas that are lost get a successor on another node, nodes that were added get their share and
nodes that leave give up what they have, and leaders return to their preferred nodes. Two controllers may step
at once for a moment: a name is given once, a change of the placement names what it changes, and a leader that
has just gone cannot be asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from actors import runtime
from actors.ground.spec import Copy, TierSpec
from actors.metadata.commands import NEW_REPLICA, ForgetReplica, PlaceGroup
from actors.metadata.replicas import groups_of, is_founding
from actors.runtime import ActorCallError
from cluster import repair
from cluster.formed_groups import FormedGroups
from cluster.leader_news import LeaderNews
from cluster.leaders_return import return_leaders
from cluster.placement import Place, best_place
from cluster.rebalancing import follow_moves, forget_lost, nodes_in, rebalance
from cluster.replica_directory import remove, set_aside, set_founder_aside
from cluster.sight import (
    NO_NODE,
    Sight,
    actor_names,
    call,
    end,
    look_at,
    silent_nodes,
    stray_brokers,
    strays,
)
from cluster.splits import Splits
from cluster.tier_actors import TierActor, actors_of, create_actor, make_run_dir, on_node, replica_actor

LOOK_EVERY_STEPS = 5
"""How many steps lie between two looks while all is well: being asked costs each actor a millisecond."""
LOOK_AT_STEP = 3
"""The step of the first look, which comes soon after the first leaders, because chance elected them."""
CALM_STEPS = 60
"""After how many steps at which nothing was amiss the tier is left in peace: then steps are farther apart."""
TRY_AGAIN_S = 10.0
NEVER = float("-inf")
DAMAGED = ("JournalDamaged", "SnapshotDamaged")

Submit = Callable[[Any], Awaitable[Any]]
"""A function that has a metadata command decided and committed. Raises NotController, TimeoutError."""
Outcome = tuple[str, str]
"""What became of a request: "done", "later" (ask again) or "refused", and what there is to say."""


class Reconciler:
    """The reconciler that each new leader of the controller makes; `spec` is what that controller was made
    with."""

    def __init__(
        self,
        spec: TierSpec,
        submit: Submit,
        kinds: Mapping[str, str] = runtime.KINDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._formed = FormedGroups(spec)
        self._submit = submit
        self._kinds = kinds
        self._clock = clock
        self._steps = 0
        self._is_busy = False
        """Whether something is under way, so that every step looks."""
        self._calm_steps = 0
        """How many steps have passed since something was amiss."""
        self._absent_since: dict[str, float] = {}
        """Actor's name -> when its replica was first found absent, on the clock."""
        self._tried_at: dict[str, float] = {}
        """Actor's name -> when its failed start was last tried again, on the clock."""
        self._silent: set[int] = set()
        """The nodes whose machines did not answer at this step."""
        self._news = LeaderNews(submit)
        self._one_at_a_time = asyncio.Lock()
        self._splits = Splits(submit)

    async def step(self, spec: TierSpec) -> list[str]:
        """Do what is due for the tier as it should be now. Return what was done, in words.

        Raises TimeoutError if Ray hangs, and what `submit` raises.
        """
        async with self._one_at_a_time:
            is_new = _shape(spec) != _shape(self._spec)
            self._spec = spec
            names = await actor_names(spec)
            done = self._splits.step(spec)
            done += await self._make_missing(names)
            done += await follow_moves(spec, self._silent, self._submit)
            self._steps += 1
            is_time = self._steps % LOOK_EVERY_STEPS == LOOK_AT_STEP
            if is_time or is_new or done or self._is_busy:
                self._is_busy = is_new or bool(done)
                done += await self._look(names)
            amiss = done or self._is_busy or self._absent_since or self._silent
            self._calm_steps = 0 if amiss else self._calm_steps + 1
            return done

    @property
    def is_calm(self) -> bool:
        """Return whether nothing has been amiss for long."""
        return self._calm_steps >= CALM_STEPS

    async def replace(self, spec: TierSpec, group: str, replica_id: int) -> Outcome:
        """Let a replica begin anew, with what its peers give it. Return the outcome."""
        async with self._one_at_a_time:
            self._spec = spec
            if group not in groups_of(spec):
                return "refused", f"there is no group {group}"
            copies = dict(spec.copies(group))
            if replica_id not in copies:
                has = ", ".join(map(str, copies))
                return "refused", f"{group} has no replica {replica_id}: it has {has}"
            actors = [replica_actor(group, *copy) for copy in copies.items()]
            sight = await look_at(spec, actors)
            leader = sight.leader(group)
            if leader is None:
                return "later", f"{group} has no leader: nobody could give a new replica what it needs"
            if not repair.can_spare(leader, sight.statuses(group), replica_id):
                members = len(repair.voters_of(leader))
                return "refused", (
                    f"without replica {replica_id} {group} would have no majority of its {members} members "
                    "up; `groupd replicas resize` gives it more"
                )
            actor = replica_actor(group, replica_id, copies[replica_id])
            if leader["replica"] == replica_id:
                await call(sight.looks[actor.name].handle, "transfer")
                return "later", f"replica {replica_id} of {group} hands its leadership over first"
            self._is_busy = True
            if not await self._rebuild(actor, sight):
                return "later", f"{actor.name} does not end"
            return "done", f"{actor.name} begins anew"

    async def may_split(self, spec: TierSpec) -> str | None:
        """Return why the tier's partitions cannot be split now, in words; None if they can: each group needs
        a majority that is up."""
        actors = [actor for actor in actors_of(spec) if actor.group is not None]
        sight = await look_at(spec, actors)
        for group in groups_of(spec):
            leader = sight.leader(group)
            if leader is None:
                return f"{group} has no leader: a split needs a majority of every group"
            if not repair.has_majority(leader, sight.statuses(group)):
                return f"less than a majority of {group} answers: a split needs one of every group"
        return None

    # Actors.

    async def _make_missing(self, names: set[str]) -> list[str]:
        missing = [actor for actor in actors_of(self._spec) if actor.name not in names]
        self._silent = await silent_nodes(self._spec)
        await self._formed.learn(self._spec, missing, names)
        done = []
        for actor in missing:
            if actor.node_id not in self._silent and await asyncio.to_thread(self._create, actor):
                done.append(f"{actor.name} was missing: made again")
        return done

    def _create(self, actor: TierActor) -> bool:
        """Make an actor. Return False if it exists: another controller was faster."""
        try:
            if actor.group is None:  # a node that has just been added may be its machine's first
                make_run_dir(self._spec, actor.node_id)
            is_formed = self._formed.has(self._spec, actor.group)
            create_actor(self._spec._replace(formed=is_formed), actor, self._kinds)
        except (ValueError, ActorCallError, TimeoutError):
            return False  # or its machine has gone silent
        return True

    def _start_again(self, actor: TierActor, handle: runtime.Handle) -> None:
        """Construct an actor anew, on a machine whose temporary directory may have been emptied."""
        try:
            make_run_dir(self._spec, actor.node_id)
        except (ActorCallError, TimeoutError):
            return  # the machine is gone, and with it the actor
        runtime.kill(handle, no_restart=False)

    async def _rebuild(self, actor: TierActor, sight: Sight) -> bool:
        """Set a replica's directory aside and make its actor anew, as a newcomer. Its group's majority must
        not need it. Return False if that is not possible now."""
        return await self._begin_anew(actor, sight, formed=True)

    async def _begin_anew(self, actor: TierActor, sight: Sight, *, formed: bool) -> bool:
        assert actor.group is not None
        spec = self._spec
        if not await end(spec, actor, sight):
            return False
        directory = spec.directory(actor.group, actor.replica_id, actor.node_id)
        began = spec.began(actor.group, actor.replica_id)
        put_aside = set_aside if formed else set_founder_aside
        try:
            await asyncio.to_thread(on_node, spec, actor.node_id, put_aside, directory, began)
        except (ActorCallError, TimeoutError, OSError):
            return False  # the next step makes the actor again, which says what is wrong
        await asyncio.to_thread(create_actor, spec._replace(formed=formed), actor, self._kinds)
        return True

    # Looking at all actors.

    async def _look(self, names: set[str]) -> list[str]:
        """Ask every actor how it is, and mend what can be mended from outside."""
        spec = self._spec
        actors = actors_of(spec)
        extra = names.difference(actor.name for actor in actors)
        astray = strays(extra)
        sight = await look_at(spec, [actor for actor in (*actors, *astray) if actor.name in names])
        self._note_absent(actors, sight)
        await self._news.tell(sight)
        tried = await self._start_failed_again(actors, sight)
        done = await self._rebuild_damaged(actors, sight)
        for group in groups_of(spec):
            done += await self._found_again(group, sight)
        for group in groups_of(spec):
            done += await self._lead_to_placement(group, sight)
        for actor in (*(replica_actor(group, *copy) for group, copy in spec.leaving), *astray):
            done += await self._dismiss(actor, sight)
        for broker in stray_brokers(extra):
            if await end(spec, broker, sight):
                done.append(f"{broker.name} is stopped: its node was removed")
        # One thing is done after the other: a replica that has just come back may lead, or be needed no more.
        if not done:
            done += await self._replace_lost(actors, sight)
        is_quiet = not done and not self._is_busy
        done += await rebalance(sight, self._submit, is_quiet=is_quiet)
        done += await forget_lost(spec, self._submit)
        if not done and not self._is_busy:
            done += await return_leaders(sight, most=1)
        self._is_busy = self._is_busy or bool(done)
        return tried + done

    def _note_absent(self, actors: Sequence[TierActor], sight: Sight) -> None:
        """Note since when replicas are absent. One that starts again and again is absent all the time."""
        now = self._clock()
        before = self._absent_since
        self._absent_since = {}
        for actor in actors:
            look = sight.looks.get(actor.name)
            is_up = look is not None and look.status.get("member_id")
            is_starting = look is not None and not look.status.get("problem")
            if actor.group is not None and not is_up and (actor.name in before or not is_starting):
                self._absent_since[actor.name] = before.get(actor.name, now)

    async def _start_failed_again(self, actors: Sequence[TierActor], sight: Sight) -> list[str]:
        """Try failed starts again, and no other replica's: one that runs and complains keeps its memory."""
        done = []
        for actor in actors:
            if not sight.start_failed(actor) or self._is_damaged(actor, sight):
                continue
            if self._clock() - self._tried_at.get(actor.name, NEVER) >= TRY_AGAIN_S:
                self._tried_at[actor.name] = self._clock()
                handle, status = sight.looks[actor.name]
                await asyncio.to_thread(self._start_again, actor, handle)
                done.append(f"{actor.name} could not start ({status['problem']}): tried again")
        return done

    async def _found_again(self, group: str, sight: Sight) -> list[str]:
        """Let all replicas of a group that a split has made begin anew, if so many of them have lost what
        they had that nobody can lead. It has nothing yet that its parent has not."""
        spec = self._spec
        statuses = sight.statuses(group)
        up = [status for status in statuses.values() if status.get("member_id")]
        if not is_founding(spec, group) or len(up) < len(spec.copies(group)) or repair.can_lead(up):
            return []
        # Newcomers last: no founder that begins anew may meet one that remembers the first founding.
        copies = sorted(spec.copies(group), key=lambda copy: repair.is_newcomer(statuses[copy.replica_id]))
        for actor in [replica_actor(group, *copy) for copy in copies]:
            if not await self._begin_anew(actor, sight, formed=False):
                break
        return [f"{group} could not be led by anybody: it begins anew"]

    def _is_damaged(self, actor: TierActor, sight: Sight) -> bool:
        return actor.group is not None and sight.looks[actor.name].status.get("problem_kind") in DAMAGED

    def _damage_of(self, actor: TierActor, sight: Sight) -> str | None:
        """Return in words why a replica has to begin anew; None if it has not."""
        look = sight.looks.get(actor.name)
        if actor.group is None or look is None:
            return None
        if sight.start_failed(actor) and self._is_damaged(actor, sight):
            return f"is damaged ({look.status['problem']})"
        leader = sight.leader(actor.group)
        if leader is not None and repair.has_lost(leader, look.status):
            return "lacks what it had acknowledged"
        return None

    async def _rebuild_damaged(self, actors: Sequence[TierActor], sight: Sight) -> list[str]:
        done = []
        for actor in actors:
            damage = self._damage_of(actor, sight)
            if damage is None or actor.group is None:
                continue
            leader = sight.leader(actor.group)
            spare = leader and repair.can_spare(leader, sight.statuses(actor.group), actor.replica_id)
            if spare and await self._rebuild(actor, sight):
                done.append(f"{actor.name} {damage}: it is built anew from its peers")
        return done

    # Members.

    async def _lead_to_placement(self, group: str, sight: Sight) -> list[str]:
        """Tell a group's leader who should belong to it. It takes one step at a time and forgets when it
        falls: it is told at every look until all is done."""
        leader = sight.leader(group)
        if leader is None:
            return []
        target = repair.target_of(self._spec.copies(group), leader, sight.statuses(group))
        if target is None:
            return []
        self._is_busy = True
        actor = replica_actor(group, leader["replica"], leader["node_id"])
        await call(sight.looks[actor.name].handle, "set_members", target)
        now = ", ".join(sorted(repair.voters_of(leader)))
        return [f"{group}: its voters {now} are to become {', '.join(sorted(target))}"]

    async def _dismiss(self, actor: TierActor, sight: Sight) -> list[str]:
        """Stop a replica that its group has let go, and remove what it has on disk."""
        group = actor.group
        assert group is not None
        self._is_busy = True
        leader = sight.leader(group)
        if leader is None or not repair.has_left(leader, actor.replica_id):
            return []
        look = sight.looks.get(actor.name)
        # A stray's node is known to the stray alone.
        node_id = actor.node_id if look is None else look.status["node_id"]
        if not await end(self._spec, actor, sight):
            return []
        directory = self._spec.directory(group, actor.replica_id, node_id)
        what = "its directory is removed"
        try:
            if node_id in self._silent:
                what = f"its directory {directory} stays: its machine does not answer"
            elif node_id != NO_NODE:
                await asyncio.to_thread(on_node, self._spec, node_id, remove, directory)
        except (ActorCallError, TimeoutError) as error:
            what = f"its directory {directory} stays: {error}"
        await self._submit(ForgetReplica(group, actor.replica_id))
        return [f"{actor.name} has left its group: it is stopped, {what}"]

    async def _replace_lost(self, actors: Sequence[TierActor], sight: Sight) -> list[str]:
        """Give one replica that has been away for too long a successor, on a living node that has no other
        replica of its group: two on one node would only look safer."""
        spec = self._spec
        timeout_s = spec.replica_lost_timeout_ms / 1000
        now = self._clock()
        lost = [actor for actor in actors if now - self._absent_since.get(actor.name, now) > timeout_s]
        places = [Place(node.node_id, node.rack) for node in spec.nodes]
        for actor in lost if timeout_s else ():
            assert actor.group is not None
            copies = spec.copies(actor.group)
            kept = tuple(copy for copy in copies if copy.replica_id != actor.replica_id)
            used = {copy.node_id for copy in copies}
            open_ids = nodes_in(sight).open_ids - used
            free = [place for place in places if place.node_id in open_ids]
            if len(kept) == len(copies) or not free or sight.leader(actor.group) is None:
                continue
            place = best_place(kept, (*spec.placement, spec.controllers), free, places)
            successor = Copy(NEW_REPLICA, place.node_id)
            row = tuple(copy if copy in kept else successor for copy in copies)
            outcome = await self._submit(PlaceGroup(actor.group, copies, row))
            if not outcome.error_code:
                return [f"{actor.name} is gone for {timeout_s:g} s: node {place.node_id} gets its successor"]
        return []


def _shape(spec: TierSpec) -> tuple[object, ...]:
    """Return what a change of nodes or replicas changes."""
    return spec.placement, spec.controllers, spec.nodes, spec.draining, spec.lost
