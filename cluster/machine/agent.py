"""The process of one machine of a tier: it keeps a Ray for this machine alone, and answers for its actors.

Machines share nothing but the links of the replicas and the questions that these agents pass on, so that
nothing which happens to one of them can take another down: not its network, not its Ray, not its disk. When
this machine's Ray fails, the agent ends what is left of it and begins anew as the same process, with the same
actors.

    python -m cluster.machine.agent DIRECTORY      (`groupd machine up` runs this)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from actors import ray_host, runtime
from actors.ground.calls import ActorCallError, ActorGoneError
from actors.ground.logs import log_to_file
from actors.ground.release import LEVEL_MAX, LEVEL_MIN, OLD_LEVELS, RELEASE, misfit, told
from actors.ground.tasks import Tasks
from actors.machines.far import FarActor
from actors.machines.frames import GreetingError, welcome
from actors.machines.link import OK, Link, answer_of
from actors.runtime import ActorOptions
from cluster import machine_secret, tier_file
from cluster.machine import identity
from cluster.machine.identity import Identity
from cluster.machine.kept_actors import KeptActor, KeptActors
from cluster.machine.others import Others
from cluster.machine_moves import Moves, address_now, moved_node
from cluster.tier_file import TierError

log = logging.getLogger("groupd.machine")

NAMESPACE: Final = "groupd-machine"
LOOK_INTERVAL_S: Final = 0.25
ASK_TIMEOUT_S: Final = 1.5
JOIN_TIMEOUT_S: Final = 5.0
STOP_TIMEOUT_S: Final = 5.0
CLOCKS_APART_MS_MAX: Final = 60_000
"""How far apart clocks may be: offsets expire and sessions are told by the wall clock."""
CONNECTIONS_MAX: Final = 10_000
THREADS_MAX: Final = 32
TELLS_LEVEL: Final = ("broker", "controller")
"""The kinds of actors that know which level is finalized."""
AGAIN_AFTER_S: Final = 1.0
AGAIN: Final = "again"
READY: Final = "machine is up:"
"""What an agent prints when its actors are under way."""

Op = Callable[..., Awaitable[Any]]
T = TypeVar("T")


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Agent:
    """Answers for this machine's actors, and passes on what concerns another machine's."""

    def __init__(
        self, directory: Path, me: Identity, secret: str, clock_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._secret = secret
        self.clock_ms = clock_ms
        self._kept = KeptActors(directory / "actors")
        self.others = Others(directory, me, secret.encode(), time.monotonic)
        self._handles: dict[tuple[str, str], Any] = {}
        self._connections: set[asyncio.StreamWriter] = set()
        self._answers = Tasks("an answer of this machine")
        self._threads = ThreadPoolExecutor(THREADS_MAX, "ray")
        """Where Ray is asked what blocks. The loop's own threads would be waited for at its end, and whoever
        asks a Ray that died waits for minutes."""
        self._ops: dict[str, Op] = {
            "find": self._find,
            "has": self._has,
            "list": self._list,
            "list_here": self._list_here,
            "create": self._create,
            "call": self._call,
            "kill": self._kill,
            "run": self._run,
            "ping": self._ping,
            "join": self._join,
            "machines": self._machines,
            "moved": self._moved,
            "moves": self._moves,
            "releases": self._releases,
            "release_here": self._release_here,
            "form": self._form,
            "form_here": self._form_here,
            "is_formed": self._is_formed,
            "is_formed_here": self._is_formed_here,
        }

    @property
    def address(self) -> str:
        return self.others.me.address

    async def listen(self) -> asyncio.Server:
        """Open the agent's port. Raises OSError."""
        host, _, port = self.address.rpartition(":")
        server = await asyncio.start_server(self._accept, host.strip("[]"), int(port))
        self.others.begin()
        return server

    async def start_kept(self) -> None:
        """Start the actors that this machine had."""
        await self._in_thread(self._start_kept)

    def _start_kept(self) -> None:
        for actor in self._kept:
            try:
                self._make(actor)
                log.info("%s starts again", actor.name)
            except ValueError:
                log.info("%s is there: the controller was faster", actor.name)
            except Exception:
                log.exception("%s cannot be started again", actor.name)

    async def stop(self) -> None:
        """Ask this machine's actors to stop: its leaders hand over before its Ray ends."""
        handles = [self._handle(actor.name, actor.options.namespace) for actor in self._kept]
        found = await asyncio.gather(*handles, return_exceptions=True)
        stops = [runtime.call(each, "stop", timeout_s=STOP_TIMEOUT_S) for each in found if _is_handle(each)]
        await asyncio.gather(*stops, return_exceptions=True)

    async def close(self) -> None:
        """End every connection, and give up what is under way: who asked learns it at once."""
        self.others.close()
        self._answers.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        while self._connections:  # one that was being accepted comes late
            for writer in tuple(self._connections):
                writer.close()
            await asyncio.sleep(0)

    # Connections.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._connections.add(writer)
        try:
            frames = await welcome(reader, writer, self._secret.encode())
            while True:
                number, op, args = await frames.receive()
                self._answers.spawn(self._answer(frames.send, number, op, args))
        except (GreetingError, TimeoutError) as error:
            log.warning("%s is turned away: %s", peer, error or "it says nothing")
        except (OSError, asyncio.IncompleteReadError) as error:
            log.debug("%s is gone: %s", peer, error)
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, send: Callable[[Any], None], number: int, op: str, args: tuple[Any, ...]) -> None:
        try:
            answer = (OK, await self._ops[op](*args))
        except Exception as error:
            answer = answer_of(error)
        with contextlib.suppress(OSError, RuntimeError):  # who asked is gone
            send((number, *answer))

    # What is asked about actors.

    async def _find(self, name: str, namespace: str) -> str | None:
        """Return the machine that has an actor; None if none that answers has."""
        if await self._has(name, namespace):
            return self.address
        having = await self.others.ask_all("has", name, namespace, timeout_s=ASK_TIMEOUT_S)
        return next((address for address, has in having.items() if has), None)

    async def _has(self, name: str, namespace: str) -> bool:
        return await self._in_thread(runtime.find, name, namespace) is not None

    async def _list(self, namespace: str) -> set[str]:
        """Return the actors on all machines that answer."""
        theirs = await self.others.ask_all("list_here", namespace, timeout_s=ASK_TIMEOUT_S)
        return (await self._list_here(namespace)).union(*theirs.values())

    async def _list_here(self, namespace: str) -> set[str]:
        return await self._in_thread(runtime.list_actors, namespace)

    async def _create(
        self, machine: str, kind: str, name: str, args: tuple[Any, ...], options: ActorOptions
    ) -> tuple[str, str]:
        if machine != self.address:
            made: tuple[str, str] = await self.others.ask(
                machine, "create", machine, kind, name, args, options
            )
            return made
        actor = KeptActor(kind, name, args, options._replace(machine=None))
        await self._in_thread(self._make, actor)
        self._kept.keep(actor)
        return name, options.namespace

    def _make(self, actor: KeptActor) -> None:
        spec, *index = actor.args
        me = self.others.me
        spec = spec._replace(
            agent=(me.address, self._secret), nodes=tuple(moved_node(node, me.moved) for node in spec.nodes)
        )
        actor = actor._replace(args=(spec, *index))
        # A machine that booted has an empty temporary directory.
        Path(actor.args[0].run_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        runtime.create(*actor)

    async def _call(self, whom: FarActor, method: str, args: tuple[Any, ...], timeout_s: float) -> Any:
        machine, name, namespace = whom
        if machine != self.address:
            return await self.others.ask(machine, "call", whom, method, args, timeout_s, timeout_s=timeout_s)
        handle = await self._handle(name, namespace)
        try:
            return await runtime.call(handle, method, *args, timeout_s=timeout_s)
        except ActorGoneError:
            self._handles.pop((name, namespace), None)
            raise

    async def _kill(self, whom: FarActor, no_restart: bool) -> None:
        machine, name, namespace = whom
        if machine != self.address:
            await self.others.ask(machine, "kill", whom, no_restart)
            return
        handle = await self._handle(name, namespace)
        if no_restart:
            self._kept.forget(name, namespace)
            self._handles.pop((name, namespace), None)
        await self._in_thread(partial(runtime.kill, handle, no_restart=no_restart))

    async def _run(self, machine: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if machine != self.address:
            return await self.others.ask(machine, "run", machine, function, args)
        return await self._in_thread(function, *args)

    async def _handle(self, name: str, namespace: str) -> Any:
        key = (name, namespace)
        if key not in self._handles:
            handle = await self._in_thread(runtime.find, name, namespace)
            if handle is None:
                raise ActorGoneError(f"there is no actor {name} on {self.address}")
            self._handles[key] = handle
        return self._handles[key]

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *args))

    async def _form(self, namespace: str) -> None:
        await self._form_here(namespace)
        await self.others.ask_all("form_here", namespace, timeout_s=ASK_TIMEOUT_S)

    async def _form_here(self, namespace: str) -> None:
        self._kept.form(namespace)

    async def _is_formed(self, namespace: str) -> bool:
        """Return whether this machine or another one was told that a tier is formed: one that lost its disk
        does not know."""
        if self._kept.is_formed(namespace):
            return True
        theirs = await self.others.ask_all("is_formed_here", namespace, timeout_s=ASK_TIMEOUT_S)
        return any(answer is True for answer in theirs.values())

    async def _is_formed_here(self, namespace: str) -> bool:
        return self._kept.is_formed(namespace)

    # What is asked about machines.

    async def _ping(self, caller: str) -> tuple[str, ...]:
        """Return the machines that this one knows. The caller becomes known by joining, not by asking."""
        return (self.address, *self.others.me.others)

    async def _join(
        self,
        address: str,
        cluster: str,
        its_release: str,
        clock_ms: int,
        its_levels: tuple[int, int] = OLD_LEVELS,
    ) -> tuple[str, tuple[str, ...]]:
        """Take a machine in. Return the cluster's id and the machines. Raises ActorCallError with what does
        not fit. Its release may be another one: what counts is which levels it can serve."""
        apart_ms = abs(clock_ms - self.clock_ms())
        if cluster not in ("", self.others.me.cluster):
            raise ActorCallError(f"its directory belongs to other machines ({cluster})")
        problem = misfit(its_release, its_levels, await self._level())
        if problem is not None:
            raise ActorCallError(problem)
        if apart_ms > CLOCKS_APART_MS_MAX:
            raise ActorCallError(f"its clock is {apart_ms // 1_000} s away from this one's")
        if address == self.address:
            raise ActorCallError(f"{address} is the address of the machine that was asked")
        problem = await self._unreachable(address)
        if problem is not None:
            raise ActorCallError(f"{address} cannot be reached from {self.address}: {problem}")
        if address_now(self.others.me.moved, address) != address:
            # Another machine had this address before.
            await self._moved(((address, address, self.clock_ms()),))
        self.others.learn([address])
        return self.others.me.cluster, (self.address, *self.others.me.others)

    async def _level(self) -> int | None:
        """Return the level that is finalized, as far as this machine's actors know; None if they do not."""
        asked = [
            self._call(FarActor(self.address, each.name, each.options.namespace), "status", (), ASK_TIMEOUT_S)
            for each in self._kept
            if each.kind in TELLS_LEVEL
        ]
        statuses = await asyncio.gather(*asked, return_exceptions=True)
        known = [status.get("level") for status in statuses if isinstance(status, dict)]
        return max((level for level in known if level is not None), default=None)

    async def _unreachable(self, address: str) -> str | None:
        """Return why a machine cannot be asked; None if it can. It is asked by a new link: the present one
        may still believe that it is away."""
        link = Link(address, self._secret.encode())
        try:
            await link.ask("ping", self.address, timeout_s=ASK_TIMEOUT_S)
        except (ActorCallError, TimeoutError) as error:
            return str(error) or "no answer"
        finally:
            link.close()
        return None

    async def _moved(self, moves: Moves) -> None:
        """Learn which machines have other addresses now, and pass it on if it is news."""
        if self.others.take_moves(moves):
            await self.others.ask_all("moved", moves, timeout_s=ASK_TIMEOUT_S)

    async def _moves(self) -> Moves:
        return self.others.me.moved

    async def _machines(self) -> dict[str, bool]:
        """Return every machine, and whether it answers."""
        answering = self.others.answering()
        return {self.address: True} | {other: other in answering for other in self.others.me.others}

    async def _releases(self) -> dict[str, dict[str, Any] | None]:
        """Return what every machine says of its release; None for one that does not answer, {} for one whose
        release does not say."""
        present = await self._machines()
        theirs = await self.others.ask_all("release_here", timeout_s=ASK_TIMEOUT_S)
        found: dict[str, dict[str, Any] | None] = {
            machine: {} if answers else None for machine, answers in present.items()
        }
        return found | theirs | {self.address: told()}

    async def _release_here(self) -> dict[str, Any]:
        return told()


def _is_handle(found: Any) -> bool:
    return not isinstance(found, BaseException)


async def serve(directory: Path, me: Identity, join: str | None) -> bool:
    """Keep this machine until it is asked to stop. Return whether it has to begin anew. Raises SystemExit
    with what is wrong."""
    _, secret = tier_file.secret(directory, machine_secret.NAME)
    agent = Agent(directory, me, secret)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    serving = asyncio.ensure_future(_serve(agent, join, stop))
    failing = asyncio.ensure_future(_problem_of_ray())
    try:
        # Whatever is under way when Ray dies waits for the dead: none of it is waited for.
        await asyncio.wait({serving, failing}, return_when=asyncio.FIRST_COMPLETED)
        if not failing.done():
            try:
                await serving
            except TierError as error:
                raise SystemExit(f"groupd: {error}") from None
            return False
        log.error("%s: this machine begins anew", failing.result())
        return True
    finally:
        serving.cancel()
        failing.cancel()
        await agent.close()


async def _problem_of_ray() -> str:
    """Return what is wrong with this machine's Ray, once something is."""
    while (problem := ray_host.local_problem()) is None:
        await asyncio.sleep(LOOK_INTERVAL_S)
    return problem


async def _serve(agent: Agent, join: str | None, stop: asyncio.Event) -> None:
    """Answer for this machine until `stop` is set. Raises TierError with what is wrong."""
    # Whoever finds this machine answering finds its actors there.
    await agent.start_kept()
    try:
        server = await agent.listen()
    except OSError as error:
        raise TierError(f"cannot listen on {agent.address}: {error.strerror or error}") from None
    try:
        if join is not None:
            await take_in(agent, join)
        print(f"{READY} {agent.address}", flush=True)
        await stop.wait()
        await agent.stop()
    except (ActorCallError, TimeoutError) as error:
        raise TierError(f"{join} does not take this machine in: {error or 'no answer'}") from None
    finally:
        server.close()


async def take_in(agent: Agent, to: str) -> None:
    """Let a machine belong to those of which it asks one. Raises ActorCallError with what does not fit,
    TimeoutError."""
    me = agent.others.me
    asked = (me.address, me.cluster, RELEASE, agent.clock_ms(), (LEVEL_MIN, LEVEL_MAX))
    cluster, machines = await agent.others.ask(to, "join", *asked, timeout_s=JOIN_TIMEOUT_S)
    agent.others.belong(cluster)
    agent.others.learn(machines)


def main(directory: Path, join: str | None = None, *, again: bool = False) -> None:
    """Start this machine's Ray and keep it, as `serve` does. A machine that was up does not give up when its
    Ray does not start `again`: it tries anew. Raises SystemExit with what is wrong."""
    me = identity.read(directory)
    assert me is not None, "`groupd machine up` has prepared the directory"
    log_to_file(str(directory), "machine")
    token_path, _ = tier_file.secret(directory, "ray-token")
    ray_host.end_all(token_path)
    run_dir = Path(tempfile.mkdtemp(prefix="groupd-machine-", dir="/tmp"))
    failed = True
    try:
        ray_host.start_local(NAMESPACE, run_dir, token_path=token_path)
        runtime.preload(runtime.KINDS)
        failed = asyncio.run(serve(directory, me, join))
    except RuntimeError as error:
        if not again:
            raise SystemExit(f"groupd: {error}") from None
        log.error("%s: tried anew in %g s", error, AGAIN_AFTER_S)
        time.sleep(AGAIN_AFTER_S)
    finally:
        ray_host.shutdown()
        ray_host.end_all(token_path)
        shutil.rmtree(run_dir, ignore_errors=True)
    if failed:
        os.execv(sys.executable, [sys.executable, "-P", "-m", __spec__.name, str(directory), AGAIN])  # noqa: S606


if __name__ == "__main__":
    match sys.argv[1:]:
        case [where]:
            main(Path(where))
        case [where, how]:
            main(Path(where), None if how == AGAIN else how, again=how == AGAIN)
