"""The care for what the tier is to the Kafka cluster that it stands in front of.

Every replica of the controller follows the cluster's metadata, so that a new leader knows them at once. The
leader moves the offsets partitions as the goal says, and has the upstream's leaders follow Raft's. What it
decides is in `actors/upstream/moving.py` and `actors/upstream/leadership.py`; here are the calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Final

from actors import runtime
from actors.ground.clock import monotonic_ms
from actors.ground.image import NO_TOPIC_ID
from actors.ground.spec import UpstreamSpec, broker_name, partition_group, partition_name
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.ground.upstream_goal import DETACHED, GOAL_NAMES
from actors.metadata.state import MetadataState
from actors.metadata.upstream_commands import SetUpstreamGoal
from actors.upstream.asks import Ask
from actors.upstream.connecting import connector
from actors.upstream.controller import Controller, may_cordon
from actors.upstream.controller_link import ControllerLink
from actors.upstream.following import Follower
from actors.upstream.given import unpack_given
from actors.upstream.image import ClusterImage
from actors.upstream.leadership import Leadership
from actors.upstream.levels import feature_levels, refuses_cordoned
from actors.upstream.moving import Moving, Seen
from actors.upstream.orders import Standing, unpack_standing
from actors.upstream.partitions import Facts, RaftLeader, Stray
from actors.upstream.reconciling import Reconciling

log = logging.getLogger("groupd.upstream")

LINKS: Final = 3
"""How many requests about leaders may be under way at the controller."""
ORDER_TIMEOUT_S: Final = 5.0
LOOK_S: Final = 0.05
"""How often it is looked whether leaders of partitions are to be asked."""
WATCH_S: Final = 0.1
"""How often our nodes are asked how far brokers are."""
AGAIN_S: Final = 1.0
"""How long, in seconds, to wait before beginning anew after something has failed."""


class UpstreamCare:
    """The care of one replica of the controller. `state` is the tier's metadata, `decide` has a command
    committed if this replica leads, `gone` are the nodes whose broker's process is known to have ended."""

    def __init__(
        self,
        spec: UpstreamSpec,
        namespace: str,
        state: Callable[[], MetadataState],
        decide: Callable[[Any], Awaitable[Any]],
        gone: Collection[int],
    ) -> None:
        self._spec = spec
        self._namespace = namespace
        self._state = state
        self._decide = decide
        self._gone = gone
        connect = connector("groupd-controller", spec.controllers_login)
        self._follower = Follower(connect, spec.controllers, spec.cluster_id)
        self._following: asyncio.Task[None] | None = None
        self._leading: asyncio.Task[None] | None = None
        self._care: _Care | None = None
        self._has_goal = asyncio.Event()

    def start(self) -> None:
        """Begin to follow the cluster's metadata."""
        self._following = asyncio.ensure_future(self._follower.run())

    def stop(self) -> None:
        self.lead(is_leading=False)
        if self._following is not None:
            self._following.cancel()

    def lead(self, *, is_leading: bool) -> None:
        """Take note of whether this replica leads the controllers, and of what may have changed."""
        if self._state().upstream_goal != DETACHED:
            self._has_goal.set()
        if is_leading and self._leading is None:
            self._leading = asyncio.ensure_future(self._lead())
        elif not is_leading and self._leading is not None:
            self._leading.cancel()
            self._leading = self._care = None

    def told(self) -> dict[str, Any]:
        """Return what `groupd attach status` shows."""
        goal, care, cluster = self._state().upstream_goal, self._care, self._follower.image
        finalized = {} if cluster is None else dict(cluster.features)
        levels = feature_levels(finalized, None if care is None else care.supported)
        return {
            "cluster_id": self._spec.cluster_id,
            "brokers": self._spec.brokers,
            "controllers": self._spec.controllers,
            "listeners": self._spec.listeners,
            "protocol": self._spec.protocol,
            "has_authorizer": self._spec.has_authorizer,
            "apart": [name for name in self._spec.listeners if self._spec.is_apart(name)],
            "goal": GOAL_NAMES.get(goal, str(goal)),
            "problem": self._follower.problem or (None if care is None else care.moving.problem),
            "partitions": [] if care is None else care.rows(),
            "nodes": self._nodes(cluster),
            "features": [tuple(each) for each in levels],
        }

    def _nodes(self, cluster: ClusterImage | None) -> dict[int, str]:
        """Return what each node of the tier is to the cluster: broker id -> a word."""
        found = {}
        for node_id in sorted(self._state().nodes):
            broker = None if cluster is None else cluster.brokers.get(self._spec.broker_id(node_id))
            word = "not registered" if broker is None else "fenced" if broker.fenced else "running"
            found[self._spec.broker_id(node_id)] = word
        return found

    async def _lead(self) -> None:
        """Care for as long as this replica leads, and something is to be done."""
        while True:
            self._has_goal.clear()
            if self._state().upstream_goal == DETACHED:
                await self._has_goal.wait()
            self._care = _Care(self._spec, self._namespace, self._state, self._follower, self._gone)
            try:
                await self._care.run()
                await self._decide(SetUpstreamGoal(DETACHED, self._state().upstream_goal))
                log.info("everything is given back: the brokers coordinate all groups")
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("the care for the upstream cluster failed; next try in %s s", AGAIN_S)
                await asyncio.sleep(AGAIN_S)


class _Care:
    """What the leader of the controllers does while the goal is another one than DETACHED."""

    def __init__(
        self,
        spec: UpstreamSpec,
        namespace: str,
        state: Callable[[], MetadataState],
        follower: Follower,
        gone: Collection[int],
    ) -> None:
        self._spec = spec
        self._namespace = namespace
        self._state = state
        self._follower = follower
        self._gone = gone
        self.moving = Moving()
        connect = connector("groupd-controller", spec.controllers_login)
        links = [ControllerLink(connect, spec.controllers) for _ in range(1 + LINKS)]
        self._mover = Reconciling(links[:1], self._seen, self.moving)
        self._leading = Reconciling(links[1:], self._facts, Leadership())
        self._news = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._strays: tuple[ClusterImage | None, int, tuple[Stray, ...]] = (None, 0, ())
        """The metadata in which strays were looked for last, how many changes they had then, and the
        strays."""

    async def run(self) -> None:
        """Care until nothing of the cluster's is here any more, though the goal is that it is not."""
        while self._follower.image is None:
            await self._follower.changed()
        works = [
            asyncio.ensure_future(work)
            for work in (
                self._mover.run(),
                self._leading.run(),
                self._look(),
                self._order(),
                self._watch_brokers(),
            )
        ]
        try:
            await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            for work in works:
                if work.done():
                    work.result()
        finally:
            for task in (*works, *self._calls):
                task.cancel()
            await asyncio.gather(*works, *self._calls, return_exceptions=True)

    @property
    def supported(self) -> Mapping[str, int] | None:
        """Return the levels of features that the active controller's software supports, as far as known."""
        controller = self._mover.controller
        return None if controller is None else controller.supported

    def rows(self) -> list[dict[str, Any]]:
        """Return how far each partition is, as `groupd attach status` shows it."""
        return [
            {
                "partition": each.partition,
                "phase": each.phase,
                "leader": each.leader,
                "records": each.standing.records,
                "next_offset": each.standing.next_offset,
                "problem": each.problem,
            }
            for each in self.moving.standings()
        ]

    async def _look(self) -> None:
        """Have the reconciles look at once when the cluster's metadata change."""
        while True:
            await self._follower.changed()
            self._mover.look()
            self._leading.look()
            self._news.set()

    async def _order(self) -> None:
        """Tell the leaders of our partitions what is to be done, until nothing is any more."""
        while not (self.moving.is_clear and not self._stray_partitions(self._cluster)):
            for ask in self.moving.asks(monotonic_ms()):
                task = asyncio.ensure_future(self._tell(ask))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._news.wait()
            self._news.clear()

    async def _tell(self, ask: Ask) -> None:
        standing: Standing | None = None
        try:
            standing = await self._told(ask)
        except Exception as error:
            log.info("the leader of offsets partition %d was not told: %s", ask.partition, error)
        before = self.moving.served
        self.moving.told(ask, standing)
        self._mover.look()
        if self.moving.served != before:
            self._leading.look()

    async def _watch_brokers(self) -> None:
        """Ask our nodes how far the brokers are that fetch from them, while partitions leave."""
        while True:
            if self.moving.is_leaving:
                await asyncio.gather(*map(self._ask_given, list(self._state().nodes)))
            await asyncio.sleep(WATCH_S)

    async def _ask_given(self, node_id: int) -> None:
        offset = self._cluster.offset
        try:
            handle = await runtime.known(broker_name(node_id), self._namespace)
            if handle is None:
                return
            packed = await runtime.call(handle, "upstream_fetchers", timeout_s=ORDER_TIMEOUT_S)
        except Exception as error:
            log.info("node %d did not tell what brokers fetch from it: %s", node_id, error)
            return
        self.moving.given(self._spec.broker_id(node_id), unpack_given(packed), offset)
        self._mover.look()

    async def _told(self, ask: Ask) -> Standing | None:
        """Return what the leader of a partition answers; None if it is not known which actor that is."""
        state = self._state()
        leader = state.offsets_leaders.get(ask.partition)
        placed = state.placements.get(partition_group(ask.partition))
        if leader is None or placed is None:
            return None
        for copy in (*placed.copies, *placed.leaving):
            if copy.node_id == leader.node_id:
                name = partition_name(ask.partition, copy.replica_id)
                handle = await runtime.known(name, self._namespace)
                if handle is None:
                    return None
                packed = await runtime.call(handle, "upstream", ask.order.pack(), timeout_s=ORDER_TIMEOUT_S)
                return unpack_standing(packed)
        return None

    # What is known.

    @property
    def _cluster(self) -> ClusterImage:
        image = self._follower.image
        assert image is not None, "it has been read once"
        return image

    def _seen(self) -> Seen:
        cluster, state = self._cluster, self._state()
        topic = cluster.topic(OFFSETS_TOPIC)
        can_cordon, refuses = _cordoning(self._mover.controller)
        return Seen(
            goal=state.upstream_goal,
            metadata_offset=cluster.offset,
            topic_id=None if topic is None else topic.topic_id,
            partitions={} if topic is None else dict(topic.partitions),
            brokers=dict(cluster.brokers),
            addresses=self._addresses(cluster),
            leaders=self._raft_leaders(),
            partition_count=state.offsets_partitions,
            tier=self._tier(),
            can_cordon=can_cordon,
            refuses_cordoned=refuses,
        )

    def _facts(self) -> Facts:
        """Return what the reconcile of leaders has to know."""
        cluster, served = self._cluster, self.moving.served
        topic = cluster.topic(OFFSETS_TOPIC)
        can_cordon, refuses = _cordoning(self._leading.controller)
        return Facts(
            metadata_offset=cluster.offset,
            topic=OFFSETS_TOPIC,
            topic_id=NO_TOPIC_ID if topic is None else topic.topic_id,
            partitions={} if topic is None else dict(topic.partitions),
            leaders={index: each for index, each in self._raft_leaders().items() if index in served},
            brokers=dict(cluster.brokers),
            tier=self._tier(),
            dead=frozenset(map(self._spec.broker_id, self._dead())),
            strays=self._stray_partitions(cluster),
            can_cordon=can_cordon,
            refuses_cordoned=refuses,
            uncordoned=self.moving.uncordoned,
        )

    def _dead(self) -> Iterator[int]:
        """Yield the nodes that are to be fenced. One whose broker has just ended may be back in a second: as
        long as it leads by Raft, clients are sent nowhere else."""
        state = self._state()
        leading = {leader.node_id for leader in state.offsets_leaders.values()}
        for node_id, node in state.nodes.items():
            if not node.alive or (node_id in self._gone and node_id not in leading):
                yield node_id

    def _tier(self) -> frozenset[int]:
        return frozenset(map(self._spec.broker_id, self._state().nodes))

    def _addresses(self, cluster: ClusterImage) -> dict[int, tuple[str, int]]:
        """Return where each broker listens for our nodes."""
        found = {each.broker_id: each.address(self._spec.listener) for each in cluster.brokers.values()}
        return {broker_id: address for broker_id, address in found.items() if address is not None}

    def _raft_leaders(self) -> dict[int, RaftLeader]:
        """Return the leaders of our partitions, as the controller last heard."""
        state, broker_id, found = self._state(), self._spec.broker_id, {}
        for partition, leader in state.offsets_leaders.items():
            placed = state.placements.get(partition_group(partition))
            if placed is not None:
                replicas = tuple(broker_id(copy.node_id) for copy in placed.copies)
                found[partition] = RaftLeader(broker_id(leader.node_id), leader.term, replicas)
        return found

    def _stray_partitions(self, cluster: ClusterImage) -> tuple[Stray, ...]:
        """Return the partitions of others that have replicas on the tier. A cluster has many partitions, so
        they are looked for once for each change."""
        looked, changes, strays = self._strays
        if looked is not cluster or changes != cluster.changes:
            tier = self._tier()
            strays = tuple(
                Stray(topic.name, topic.topic_id, index, state)
                for topic in cluster.topics.values()
                if topic.name != OFFSETS_TOPIC
                for index, state in topic.partitions.items()
                if not tier.isdisjoint(state.replicas)
            )
            self._strays = cluster, cluster.changes, strays
        return strays


def _cordoning(controller: Controller | None) -> tuple[bool, bool]:
    """Return whether directories can be cordoned, and whether assignments by hand to cordoned brokers are
    refused, by what is known of the active controller."""
    if controller is None:
        return False, False
    return may_cordon(controller), refuses_cordoned(controller.supported)
