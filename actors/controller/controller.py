"""The actor of one controller replica: the tier's metadata behind Raft, and the care for the tier.

Brokers submit commands (create a topic, allocate producer ids ...) by Ray call; the leader decides, commits,
answers, and pushes the new metadata image to every broker. Once a second it looks after the tier: brokers
that do not answer are marked so, and `spec.reconciler` brings back actors that are missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import secrets
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from actors import runtime
from actors.controller import placement_file
from actors.controller.served_levels import asks_for_level, served_levels
from actors.ground.calls import ActorGoneError
from actors.ground.contract import Request, Token
from actors.ground.features import GROUPD_VERSION
from actors.ground.image import DRAINING, LOST
from actors.ground.nodes import nodes_of
from actors.ground.release import LEVEL_MAX, check_level, told
from actors.ground.spec import (
    CONTROLLER_GROUP,
    NodeSpec,
    TierSpec,
    UpstreamSpec,
    broker_name,
    controller_name,
)
from actors.metadata import split
from actors.metadata.commands import (
    AlterCredentials,
    FoundTier,
    GroupCopies,
    NewCredential,
    Outcome,
    RegisterNode,
    ReportController,
    ReportLeader,
    SeedPlacement,
    SetNodeAlive,
    pack,
    unpack,
)
from actors.metadata.records import GroupPlacementValue, SplitValue
from actors.metadata.replicas import groups_of, present_spec
from actors.metadata.shard import RECORD_TYPES, MetadataShard
from actors.metadata.split_commands import SplitPartitions
from actors.metadata.upstream_commands import SetUpstreamGoal
from actors.metadata.wire import pack_image
from actors.replica.entry import RecordType
from actors.replica.host import ReplicaHost
from actors.replica.state_source import StateSource
from actors.security.scram import ITERATIONS_MIN, MECHANISM_NAMES, keys_of, salted_password

if TYPE_CHECKING:
    from actors.controller.upstream_care import UpstreamCare

log = logging.getLogger("groupd.controller")

CARE_INTERVAL_S = 1.0
CALM_CARE_INTERVAL_S = 2.0
"""How often, in seconds, the tier is looked after when all brokers answer and nothing has been amiss for
long."""
BROKER_SILENT_S = 5.0
"""How long, in seconds, a broker may be silent before it leads no topic partition any more."""
CALL_TIMEOUT_S = 1.0
COMMAND_TIMEOUT_S = 5.0


class NotController(Exception):
    """Raised by a replica that does not lead; the argument is the replica that does, or None."""

    def __str__(self) -> str:
        return f"this replica does not lead, {self.args[0]} may"


class Controller(StateSource):
    """The actor of replica `replica_id` of the controller. It is a plain class: `actors.runtime` makes the
    actor."""

    def __init__(self, spec: TierSpec, replica_id: int) -> None:
        runtime.use_agent(spec.agent)
        self._spec = spec
        self._host = ReplicaHost(
            spec,
            CONTROLLER_GROUP,
            replica_id,
            new_shard=self._new_shard,
            record_types={kind: RecordType(*types) for kind, types in RECORD_TYPES.items()},
            release=self._release,
            on_events=self._on_events,
            on_turn=self._on_turn,
        )
        self._answers: dict[Token, asyncio.Future[Any]] = {}
        self._next_token = 0
        self._brokers: dict[int, Any] = {}
        self._heard_at: dict[int, float] = {}
        self._gone: set[int] = set()
        """The nodes whose broker's process had ended when it was called last."""
        self._all_answered = False
        """Whether all brokers have answered when they were asked last."""
        self._pushed_version = -1
        self._care_is_due = asyncio.Event()
        """An event that is set when the tier is to be looked after at once: by a new leader, which introduces
        nodes and itself (brokers wait for that to open their ports), and by whoever asked for other
        replicas."""
        self._led = False
        self._reconciler: Any = None
        self._noted: tuple[int, dict[str, GroupPlacementValue], SplitValue | None] = (-1, {}, None)
        """The version, the placement and the last split that this replica has seen last."""
        self._noted_nodes: tuple[NodeSpec, ...] = ()
        """The nodes that this replica has seen last, if they are not those that the tier began with."""
        self._care: asyncio.Task[None] | None = None
        self._upstream = None if spec.upstream is None else self._new_upstream_care(spec.upstream)
        super().__init__(spec.data_dir, controller_name(replica_id))

    async def _open(self) -> None:
        await self._host.start()
        self._care = asyncio.ensure_future(self._care_for_the_tier())
        if self._upstream is not None:
            self._upstream.start()

    def _new_upstream_care(self, upstream: UpstreamSpec) -> UpstreamCare:
        from actors.controller.upstream_care import UpstreamCare  # here: few tiers stand before a Kafka

        return UpstreamCare(
            upstream, self._spec.namespace, lambda: self._shard.state, self._decide, self._gone
        )

    async def stop(self) -> None:
        if self._upstream is not None:
            self._upstream.stop()
        if self._care is not None:
            self._care.cancel()
        await self._host.stop()

    async def status(self) -> dict[str, Any]:
        """Return what `groupd status` shows of this replica."""
        status: dict[str, Any] = {
            "replica": self._host.replica_id,
            "node_id": self._host.node_id,
            "pid": os.getpid(),
            "problem": self._problem,
            "problem_kind": self._problem_kind,
            "role": "starting",
            "leader_node": self._host.leader_node,
            "serving": self._host.replica.serving,
            **told(),
        }
        if self._host.raft is not None:
            image = self._shard.image()
            status |= self._host.health() | self._host.activity()
            status["problem"] = self._problem or status["problem"]
            status |= {"topics": len(image.created_topics), "image_version": image.version}
            status["level"] = image.features.level(GROUPD_VERSION)
        return status

    async def submit(self, command: bytes) -> bytes:
        """Decide one command (packed by metadata.commands), and return its result once it is committed.

        Raises NotController(replica id of the leader or None), TimeoutError.
        """
        wanted = unpack(command)
        if asks_for_level(wanted) and self._host.replica.serving:
            wanted = wanted._replace(served=await served_levels(self._present_spec()))
        return pack(await self._decide(wanted))

    async def image(self) -> bytes | None:
        """Return the committed metadata image, or None if this replica cannot say."""
        if not self._host.replica.serving or not self._host.replica.is_committed:
            return None
        return pack_image(self._shard.image())

    async def on_leader(self, partition: int, node_id: int, term: int) -> None:
        """Learn from the broker of a node that a replica there leads an offsets partition now."""
        if self._host.replica.serving:
            await self._decide(ReportLeader(partition, node_id, term))

    async def placement(self) -> dict[str, tuple[Any, ...]]:
        """Return where the replicas should be: group -> fields of a GroupPlacementValue. Raises
        NotController."""
        if not self._host.replica.serving:
            raise NotController(self._host.leader_replica)
        return {group: tuple(value) for group, value in self._shard.state.placements.items()}

    async def nodes(self) -> dict[str, Any]:
        """Return the nodes of the tier, and the id that the next one gets. Raises NotController."""
        if not self._host.replica.serving:
            raise NotController(self._host.leader_replica)
        image = self._shard.image()
        leads = Counter(image.offsets_leaders)
        nodes = [
            {
                **asdict(node),
                "duty": image.duty(node.node_id),
                "alive": image.nodes[node.node_id].alive,
                "leads": leads[node.node_id],
            }
            for node in nodes_of(self._spec, image)
            if node.node_id in image.nodes
        ]
        return {"nodes": nodes, "next_node_id": self._shard.state.next_node_id}

    async def split_state(self) -> dict[str, Any]:
        """Return {"partitions", "unmoved", "undropped"}, as `metadata.records.SplitValue` has them. Raises
        NotController."""
        if not self._host.replica.serving:
            raise NotController(self._host.leader_replica)
        state = self._shard.state
        last = state.split or SplitValue(state.offsets_partitions, (), ())
        return last._asdict()

    async def split_partitions(self, expected: int) -> str | None:
        """Begin to double the number of offsets partitions, which is `expected` now. Return why that cannot
        be, in words; None: it has begun. Raises NotController, TimeoutError."""
        if not self._host.replica.serving or self._reconciler is None:
            raise NotController(self._host.leader_replica)
        problem: str | None = split.problem_of(self._shard.state, expected)
        problem = problem or await self._reconciler.may_split(self._present_spec())
        if problem is None:
            outcome: Outcome = await self._decide(SplitPartitions(expected))
            problem = outcome.error_message if outcome.error_code else None
        self._care_is_due.set()
        return problem

    async def upstream_state(self) -> dict[str, Any] | None:
        """Return how far the groups of the upstream cluster are taken over, as `UpstreamCare.told` does; None
        if the tier stands in front of none. Raises NotController."""
        if not self._host.replica.serving:
            raise NotController(self._host.leader_replica)
        return None if self._upstream is None else self._upstream.told()

    async def set_upstream_goal(self, goal: int) -> str | None:
        """Change what shall become of the upstream cluster's groups. Return why that cannot be, in words;
        None: it is so. Raises NotController, TimeoutError."""
        if self._upstream is None:
            return "the tier stands in front of no Kafka cluster: start one with `groupd up --upstream`"
        outcome: Outcome = await self._decide(SetUpstreamGoal(goal))
        return outcome.error_message if outcome.error_code else None

    async def replace_replica(self, group: str, replica_id: int) -> tuple[str, str]:
        """Have a replica begin anew, built from its peers. Return "done", "later" or "refused", and why in
        words.

        Raises NotController.
        """
        if not self._host.replica.serving or self._reconciler is None:
            raise NotController(self._host.leader_replica)
        outcome: tuple[str, str] = await self._reconciler.replace(self._present_spec(), group, replica_id)
        self._care_is_due.set()
        return outcome

    @property
    def _shard(self) -> MetadataShard:
        shard = self._host.replica.shard
        assert isinstance(shard, MetadataShard)
        return shard

    def _new_shard(self) -> MetadataShard:
        spec = self._spec
        return MetadataShard(
            cluster_id=spec.tier_id,
            offsets_partitions=spec.offsets_partitions,
            settings=spec.broker,
            group_settings=spec.groups,
            new_id=lambda: uuid.uuid4().bytes,
        )

    async def _decide(self, command: Any) -> Any:
        host = self._host
        if not host.replica.serving:
            raise NotController(host.leader_replica)
        token = self._next_token = self._next_token + 1
        answer = self._answers[token] = asyncio.get_running_loop().create_future()
        try:
            result = host.replica.submit(Request(token, -1, 0, "", "", command), host.now_ms())
            host.wake()
            if result is not None:
                return result
            return await asyncio.wait_for(answer, COMMAND_TIMEOUT_S)
        finally:
            del self._answers[token]

    def _release(self, token: Token, body: Any) -> None:
        answer = self._answers.get(token)
        if answer is None or answer.done():
            return
        if getattr(body, "error_code", None) == ErrorCode.not_coordinator:
            answer.set_exception(NotController(self._host.leader_replica))
        else:
            answer.set_result(body)

    def _on_events(self, events: Sequence[Any]) -> None:
        for event in events:
            log.info("%s", event)

    def _on_turn(self) -> None:
        replica = self._host.replica
        if replica.serving and not self._led:
            self._care_is_due.set()
        self._led = replica.serving
        if self._upstream is not None:
            self._upstream.lead(is_leading=replica.serving)
        if replica.is_committed:
            self._note_level()
            self._note_placement()
        if not replica.serving:
            self._pushed_version = -1
            return
        if not replica.is_committed:
            return
        image = self._shard.image()
        if image.version != self._pushed_version:
            self._pushed_version = image.version
            payload = pack_image(image)
            for node in nodes_of(self._spec, image):
                self._spawn(self._push(node.node_id, payload))

    # Where the replicas are.

    def _present_spec(self) -> TierSpec:
        """Return the spec with the nodes and replicas that the tier has now."""
        state = self._shard.state
        present = present_spec(self._spec, state.placements, state.split)
        image = self._shard.image()
        return present._replace(
            nodes=nodes_of(present, image),
            draining=tuple(node_id for node_id in image.nodes if image.duty(node_id) == DRAINING),
            lost=tuple(node_id for node_id in image.nodes if image.duty(node_id) == LOST),
        )

    def _note_level(self) -> None:
        """Write at the level that is finalized. Raises ReleaseTooOld, which ends the process."""
        features = self._shard.state.features
        check_level(features, "the tier")
        if self._host.replica.learn_level(features.level(GROUPD_VERSION)):
            self._host.wake()

    def _note_placement(self) -> None:
        """Keep a copy of the placement and the nodes for the next start of the tier, on this replica's
        machine."""
        state = self._shard.state
        version, *placed = self._noted
        if state.version == version:
            return
        self._noted = state.version, dict(state.placements), state.split
        image = self._shard.image()
        self._host.learn_nodes(nodes_of(self._spec, image))
        nodes = nodes_of(self._spec, image) if state.nodes_changed else ()
        if (*placed, self._noted_nodes) != (state.placements, state.split, nodes):
            self._noted_nodes = nodes
            self._care_is_due.set()
            version, placements, last_split = self._noted
            saved = placement_file.SavedPlacement(self._spec.tier_id, version, placements, nodes, last_split)
            self._spawn(self._save_placement(saved))

    async def _save_placement(self, saved: placement_file.SavedPlacement) -> None:
        try:
            await asyncio.to_thread(placement_file.write, Path(self._spec.data_dir), saved)
        except OSError as error:
            log.error("the next start will not know of the replicas' present places: %s", error)

    # Looking after the tier.

    async def _care_for_the_tier(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._care_is_due.wait(), self._care_interval_s)
            self._care_is_due.clear()
            if not self._host.replica.serving:
                self._heard_at.clear()
                self._reconciler = None
                continue
            try:
                await self._register_nodes()
                nodes = nodes_of(self._spec, self._shard.image())
                self._all_answered = all(
                    await asyncio.gather(*(self._look_at(node.node_id) for node in nodes))
                )
                await self._reconcile()
            except (NotController, TimeoutError) as error:
                log.info("the tier's care is interrupted: %r", error)
            except Exception:
                log.exception("looking after the tier failed; next try in %s s", CARE_INTERVAL_S)

    @property
    def _care_interval_s(self) -> float:
        is_calm = self._reconciler is not None and self._reconciler.is_calm and self._all_answered
        return CALM_CARE_INTERVAL_S if is_calm else CARE_INTERVAL_S

    async def _register_nodes(self) -> None:
        """Enter into the metadata what the spec says and they do not: the nodes and replicas that a new tier
        begins with, or a node's new address. What was added later stands in the metadata alone."""
        if not self._shard.state.nodes:
            await self._decide(FoundTier(LEVEL_MAX))
        known = self._shard.image().nodes
        for node in self._spec.nodes:
            image = known.get(node.node_id)
            wanted = (node.host, node.clients_port, node.rack)
            if self._shard.state.was_removed(node.node_id) or (image is not None and node.machine):
                continue  # what was made before that must not bring it back
            if image is None or (image.host, image.port, image.rack) != wanted:
                await self._decide(RegisterNode(node.node_id, *wanted))
        if self._shard.image().controller_node_id != self._host.node_id:
            await self._decide(ReportController(self._host.node_id))
        placed = self._shard.state.placements
        await self._begin_credentials()
        unplaced = [group for group in groups_of(self._spec) if group not in placed]
        if unplaced:
            await self._decide(SeedPlacement(tuple(map(self._seed, unplaced))))

    async def _begin_credentials(self) -> None:
        """Make the first user of a tier that wants clients to authenticate: without one nobody could come
        in."""
        password = self._spec.admin_password
        if password and not self._shard.state.credentials:
            user, salt = self._spec.broker.admin_user, secrets.token_bytes(16)
            new = [
                NewCredential(
                    user,
                    number,
                    ITERATIONS_MIN,
                    salt,
                    *keys_of(name, salted_password(name, password, salt, ITERATIONS_MIN)),
                )
                for number, name in MECHANISM_NAMES.items()
            ]
            for credential in new:
                await self._decide(AlterCredentials((), (credential,)))

    def _seed(self, group: str) -> GroupCopies:
        leaving = tuple(copy for name, copy in self._spec.leaving if name == group)
        return GroupCopies(group, self._spec.copies(group), leaving)

    async def _look_at(self, node_id: int) -> bool:
        """Ask a broker how far it is, and note whether it is there. Return whether it has answered."""
        now = asyncio.get_running_loop().time()
        self._heard_at.setdefault(node_id, now)
        version = await self._ask(node_id, "image_version")
        if version is not None:
            self._heard_at[node_id] = now
            if version < self._pushed_version:
                await self._push(node_id, pack_image(self._shard.image()))
        alive = now - self._heard_at[node_id] < BROKER_SILENT_S
        image = self._shard.image().nodes.get(node_id)
        if image is not None and image.alive != alive:
            log.info("broker %d is %s", node_id, "back" if alive else "silent: its topic partitions move")
            await self._decide(SetNodeAlive(node_id, alive))
        return version is not None

    async def _push(self, node_id: int, payload: bytes) -> None:
        await self._ask(node_id, "on_image", payload)

    async def _ask(self, node_id: int, method: str, *args: Any) -> Any:
        """Call a method of a broker. Return its result; None if the broker does not answer."""
        try:
            if node_id not in self._brokers:
                name = broker_name(node_id)
                handle = await runtime.look_up(name, self._spec.namespace)
                if handle is None:
                    return None
                self._brokers[node_id] = handle
            answer = await runtime.call(self._brokers[node_id], method, *args, timeout_s=CALL_TIMEOUT_S)
        except Exception as error:
            if isinstance(error, ActorGoneError):
                self._gone.add(node_id)
            self._brokers.pop(node_id, None)
            log.info("broker %d does not answer %s: %s", node_id, method, error)
            return None
        self._gone.discard(node_id)
        return answer

    async def _reconcile(self) -> None:
        if self._spec.reconciler is None:
            return
        if self._reconciler is None:
            module, _, cls = self._spec.reconciler.partition(":")
            self._reconciler = getattr(importlib.import_module(module), cls)(self._spec, self._decide)
        for done in await self._reconciler.step(self._present_spec()):
            log.info("reconciled: %s", done)
