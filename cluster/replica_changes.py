"""Change a running tier's replicas, from outside the tier.

The controller decides, and its leader's reconciler carries the change out. Whoever asked for it may wait for
that here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors import runtime
from actors.ground.image import ACTIVE
from actors.ground.spec import (
    CONTROLLER_GROUP,
    Copies,
    Copy,
    NodeSpec,
    broker_name,
    controller_of,
    partition_group,
)
from actors.metadata.commands import NEW_REPLICA, PlaceGroup, pack, unpack
from actors.metadata.records import GroupPlacementValue
from actors.metadata.replicas import in_words
from actors.runtime import ActorCallError
from cluster import placement, tier_file
from cluster.placement import Place
from cluster.repair import Status, is_in_place, leader_of, note_of
from cluster.tier import gather_status
from cluster.tier_actors import replica_actor
from cluster.tier_file import DATA_DIR_DEFAULT, TierError, TierFile, hint

ANSWER_WAIT_S: Final = 15.0
"""How long, in seconds, the controller is waited for: longer than any election, so that a controller without
a leader has lost its majority."""
CALL_TIMEOUT_S: Final = 15.0
"""How long, in seconds, a replica may take that is stopped and begins anew."""
DONE_WAIT_S: Final = 600.0
"""How long, in seconds, a replica may take to get all that its group knows."""
LOOK_INTERVAL_S: Final = 0.2

Progress = Callable[[str], None]
"""A function that is called with what is being waited for, in words."""
Placements = dict[str, GroupPlacementValue]


class KnownNode(NamedTuple):
    """A node as the controller knows it."""

    spec: NodeSpec
    duty: int
    """ACTIVE or another duty of `actors.ground.image`."""
    alive: bool
    leads: int
    """How many offsets partitions the node leads, as the controller last heard."""

    @property
    def node_id(self) -> int:
        return self.spec.node_id

    @property
    def rack(self) -> str | None:
        return self.spec.rack

    @classmethod
    def of(cls, fields: dict[str, Any]) -> KnownNode:
        own = dict(fields)
        known = [own.pop(name) for name in ("duty", "alive", "leads")]
        return cls(NodeSpec(**own), *known)


class ReplicaChanges:
    """Changes of the replicas of `tier`, which runs and to whose Ray this process is attached. Every method
    raises TierError, in words."""

    def __init__(self, tier: TierFile, data_dir: Path = DATA_DIR_DEFAULT) -> None:
        """Change the replicas of `tier`. `data_dir` is the directory that hints name."""
        self._tier = tier
        self._hint = hint("status", data_dir)
        self._namespace = tier.namespace

    def placements(self) -> Placements:
        """Return group -> its placement, as the controller has decided."""
        found = self.controller("placement")
        if not found:
            raise TierError("the controller does not know its replicas yet: try again")
        return {group: GroupPlacementValue.of(fields) for group, fields in found.items()}

    def present(self) -> TierFile:
        """Return the tier with its nodes of now, and its replicas where they should be now."""
        nodes = tuple(node.spec for node in self.nodes())
        return tier_file.placed(tier_file.at(self._tier, nodes), self.placements())

    def note(self, data_dir: Path) -> None:
        """Write down the nodes of now for the commands that are given here: on several machines nobody else
        does, and those that the tier began with may all leave."""
        tier = tier_file.read(data_dir)
        if tier is not None and tier.spans_machines:
            nodes = tuple(node.spec for node in self.nodes())
            tier_file.write(data_dir, tier_file.placed(tier_file.at(tier, nodes), self.placements()))

    def nodes(self) -> list[KnownNode]:
        """Return the tier's nodes, as the controller has decided."""
        return list(map(KnownNode.of, self.controller("nodes")["nodes"]))

    def submit(self, command: Any) -> None:
        """Have the controller decide a command."""
        outcome = unpack(self.controller("submit", pack(command)))
        if outcome.error_code:
            raise TierError(outcome.error_message or f"the controller refused: error {outcome.error_code}")

    def group_named(self, name: str) -> str:
        """Return the name of the group of a partition's number, or of "controller"."""
        last = len(self._tier.placement) - 1
        if name == CONTROLLER_GROUP:
            return name
        if not name.isdecimal() or int(name) > last:
            raise TierError(f"{name}: there are the partitions 0 to {last}, and controller")
        return partition_group(int(name))

    def replace(self, group: str, replica_id: int, progress: Progress) -> None:
        """Have a replica begin anew, on its node."""
        deadline = time.monotonic() + ANSWER_WAIT_S
        while True:
            state, words = self.controller("replace_replica", group, replica_id)
            if state == "done":
                return
            if state == "refused" or time.monotonic() > deadline:
                raise TierError(words)
            progress(words)
            time.sleep(LOOK_INTERVAL_S)

    def move(self, group: str, replica_id: int, node_id: int) -> None:
        """Have a new replica on another node take the place of one."""
        copies = self.placements()[group].copies
        if replica_id not in dict(copies):
            raise TierError(f"{group} has no replica {replica_id}: it has {in_words(copies)}")
        if dict(copies)[replica_id] == node_id:
            raise TierError(f"replica {replica_id} of {group} is on node {node_id} already")
        known = {node.node_id for node in self.nodes()}
        if node_id in known and node_id not in self._living():
            raise TierError(f"node {node_id} does not answer: nothing can be moved there now")
        successor = Copy(NEW_REPLICA, node_id)
        self._place(group, copies, tuple(successor if c.replica_id == replica_id else c for c in copies))

    def resize(self, group: str, count: int) -> None:
        """Give a group so many replicas: new ones go to the best nodes; of too many the leader stays."""
        placements = self.placements()
        copies = placements[group].copies
        statuses = self._statuses(group, placements[group])
        leader = leader_of(statuses.values())
        if leader is None:
            raise TierError(f"{group} has no leader now: try again; {self._hint} shows more")
        members = [member["id"] for member in leader["members"] if member["votes"]]
        voting = [number for number, status in statuses.items() if status.get("member_id") in members]
        keep = [leader["replica"], *(number for number in voting if number != leader["replica"])]
        nodes = self.nodes()
        places = [Place(node.node_id, node.rack) for node in nodes]
        staying = {node.node_id for node in nodes if node.duty == ACTIVE}
        living = self._living() & staying
        free = [place for place in places if place.node_id in living] or places
        actual = [placed.copies for placed in placements.values()]
        row = placement.grown(placement.shrunk(copies, count, keep), count, actual, free, places)
        self._place(group, copies, row)

    def wait(self, groups: Iterable[str], progress: Progress) -> Placements:
        """Wait until each group has just the replicas that it should have. Return where they are."""
        deadline = time.monotonic() + DONE_WAIT_S
        waiting = list(groups)
        while True:
            placements = self.placements()
            left = {group: self._missing(group, placements[group]) for group in waiting}
            waiting = [group for group, missing in left.items() if missing]
            if not waiting:
                return placements
            for group in waiting:
                progress(f"{group}: {left[group]}")
            if time.monotonic() > deadline:
                raise TierError(
                    f"not done after {DONE_WAIT_S:.0f} s: {waiting[0]}: {left[waiting[0]]}; it goes on by "
                    "itself, `groupd replicas list` shows how far it is"
                )
            time.sleep(LOOK_INTERVAL_S)

    def _missing(self, group: str, placed: GroupPlacementValue) -> str:
        """Return what a group still waits for, in words; "" if it is as it should be."""
        statuses = self._statuses(group, placed)
        leader = leader_of(statuses.values())
        if leader is None:
            return "it has no leader"
        if not placed.leaving and is_in_place(placed.copies, leader, statuses):
            return ""
        for replica_id, node_id in placed.copies:
            status = statuses.get(replica_id)
            if status is None or not status.get("member_id"):
                return f"replica {replica_id} on node {node_id} is starting"
            note = note_of(leader, status)
            if note is not None:
                return f"replica {replica_id} on node {node_id} is {note.removeprefix('it is ')}"
        return f"{in_words(placed.leaving)} is leaving" if placed.leaving else "a change is being committed"

    def _statuses(self, group: str, placed: GroupPlacementValue) -> dict[int, Status]:
        copies: Copies = (*placed.copies, *placed.leaving)
        names = {replica_id: replica_actor(group, replica_id, node).name for replica_id, node in copies}
        found = gather_status(self._namespace, list(names.values()))
        return {number: found[name] for number, name in names.items() if "dead" not in found[name]}

    def _living(self) -> set[int]:
        names = {node.node_id: broker_name(node.node_id) for node in self.nodes()}
        found = gather_status(self._namespace, list(names.values()))
        return {node_id for node_id, name in names.items() if "dead" not in found[name]}

    def _place(self, group: str, expected: Copies, copies: Copies) -> None:
        self.submit(PlaceGroup(group, expected, copies))

    def controller(self, method: str, *args: Any) -> Any:
        """Return what the controller's leader answers: its replicas may be others than a moment ago."""
        deadline = time.monotonic() + ANSWER_WAIT_S
        while True:
            why: object = "there is no controller"
            names = runtime.list_actors(self._namespace)
            for name in sorted(name for name in names if controller_of(name) is not None):
                handle = runtime.find(name, self._namespace)
                try:
                    if handle is not None:
                        return runtime.await_call(handle, method, *args, timeout_s=CALL_TIMEOUT_S)
                except (ActorCallError, TimeoutError) as error:
                    why = error
            if time.monotonic() > deadline:
                raise TierError(f"the controller does not answer ({why}); {self._hint} shows more")
            time.sleep(LOOK_INTERVAL_S)


def present(tier: TierFile) -> TierFile:
    """Return `tier` with its replicas where they should be now, or as it was last written if its controller
    does not answer. That may have been on another machine."""
    if not tier.spans_machines:
        return tier
    try:
        return ReplicaChanges(tier).present()
    except TierError:
        return tier
