"""Plain classes become actors here, and are found, called and killed: by Ray, or through machines' agents.

A tier lives in one Ray, or on machines that have a Ray each; a process of the latter kind asks the agent of
its machine (`use_machines`), and the same functions serve both. Calls cost about a millisecond and any of
them can hang, so every call here has a time-out. No client request and no Raft message crosses this module.

Not here: how Ray starts and ends (actors.ray_host), which actors a tier has (cluster.tier), what they do.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from actors.ground.calls import ActorCallError as ActorCallError
from actors.ground.calls import ActorGoneError as ActorGoneError
from actors.machines.far import START_TIMEOUT_S, FarActor, Machines

log = logging.getLogger("groupd.calls")

Handle = Any
"""The handle of an actor, Ray's or a FarActor; travels between actors."""
Ref = Any
"""The promise of one call's result."""

KINDS: Mapping[str, str] = {
    "broker": "actors.node.broker:Broker",
    "controller": "actors.controller.controller:Controller",
    "partition": "actors.leader.offsets_partition:OffsetsPartition",
}
"""Kind of actor -> `module:class`."""

LOOK_UP_TIMEOUT_S: Final = 2.0
"""How long, in seconds, an actor waits for Ray's directory, which takes a millisecond unless it is gone."""
LOOK_UP_THREADS_MAX: Final = 4
"""How many questions to Ray's directory one process may have under way."""

PLACE_SHARE = 0.0001
"""How much of a machine's address each actor takes that stays there: the least that Ray allows."""


class ActorOptions(NamedTuple):
    """Where and how an actor is made."""

    namespace: str
    ray_node: str | None = None
    """The address of the machine on which the actor stays: if that is lost, Ray waits until one comes that
    has it."""
    env: Mapping[str, str] = MappingProxyType({})
    """Extra environment variables, for clusters whose machines we did not start."""
    kinds: Mapping[str, str] = KINDS
    machine: str | None = None
    """The address of the agent of the machine on which the actor stays; None: there is one Ray."""


class Way(Protocol):
    """A way to actors that leads not through this process's Ray, as `actors.machines.far.Machines` is one."""

    def find(self, name: str, namespace: str) -> FarActor | None:
        """Return an actor's handle; None if it is known that there is none. Blocks."""

    def list_actors(self, namespace: str) -> set[str]:
        """Return the names of the actors that can be reached. Blocks."""

    def call(self, handle: FarActor, method: str, args: Sequence[Any], timeout_s: float) -> Any:
        """Begin a call. Return a future of the `concurrent` kind, which raises like `result`."""


class _Asked:
    """Whom this process asks for actors, if they are not in its own Ray."""

    way: Way | None = None


class _LookedUp:
    """What Ray's directory has said about actors: it may be gone when it is asked again."""

    threads = concurrent.futures.ThreadPoolExecutor(LOOK_UP_THREADS_MAX, "look-up")
    handles: Final[dict[tuple[str, str], Any]] = {}
    doubtful: Final[set[tuple[str, str]]] = set()
    """The keys of `handles` that are in doubt: their actors did not answer when they were called last."""
    late: Final[set[asyncio.Future[Any]]] = set()
    """The questions that were not answered in time, and are under way still."""


def use(way: Way | None) -> None:
    """Find and call actors this way from now on; None: in the Ray that this process is connected to."""
    _Asked.way = way
    _LookedUp.handles.clear()
    _LookedUp.doubtful.clear()


def use_machines(addresses: Sequence[str], secret: str) -> None:
    """Find and call actors through the first of these machines' agents that answers, from now on."""
    use(Machines(addresses, secret.encode()) if addresses else None)


def use_agent(agent: tuple[str, str] | None) -> None:
    """Find and call actors as the agent of an actor's machine says that it should (`TierSpec.agent`)."""
    if agent is not None:
        use_machines([agent[0]], agent[1])


def machines() -> Machines | None:
    """Return the machines that this process asks, if it does."""
    return _Asked.way if isinstance(_Asked.way, Machines) else None


def make_directory(machine: str, path: str, timeout_s: float) -> None:
    """Make a directory, for its owner only, on a machine. Raises like `result`."""
    run_on_machine(machine, os.makedirs, (path, 0o700, True), timeout_s)


def remove_directory(machine: str, path: str, timeout_s: float) -> None:
    """Remove a directory and what is in it on a machine. Raises like `result`."""
    run_on_machine(machine, shutil.rmtree, (path, True), timeout_s)


def run_on_machine(machine: str, function: Callable[..., Any], args: Sequence[Any], timeout_s: float) -> Any:
    """Call a function that can be imported there on a machine, which is named as in its NodeSpec. Return what
    it returned; None if the machine's agent is of a release that does not tell. Raises like `result`."""
    known = machines()
    if known is not None:
        return result(known.ask("run", machine, function, tuple(args), timeout_s=timeout_s), timeout_s)
    return result(_on_machine(machine, function, *args), timeout_s)


def _on_machine(ray_node: str, function: Callable[..., Any], *args: Any) -> Ref:
    import ray

    def task() -> Any:
        return function(*args)

    return ray.remote(num_cpus=0, max_retries=0, resources=_place(ray_node))(task).remote()


def _place(ray_node: str) -> dict[str, float]:
    """Return the resource that keeps an actor on a machine: every machine of a Ray cluster has one with its
    address. Ids of Ray nodes are no place: a Ray that is started again on a machine has a new one, and Ray
    gives up whoever waits for the old one."""
    return {f"node:{ray_node}": PLACE_SHARE}


# Actors.


def create(kind: str, name: str, args: Sequence[Any], options: ActorOptions) -> Handle:
    """Make the named actor; returns before its process runs. Raises ValueError if the name is taken.

    Detached: it outlives whoever made it. Restarted by Ray without limit, by constructing it again with
    the same arguments. Its calls are never retried: a call may have been carried out.
    """
    known = machines()
    if known is not None:
        assert options.machine is not None, "every node of such a tier has a machine"
        return known.create(options.machine, kind, name, tuple(args), options)
    import ray

    module, _, cls = options.kinds[kind].partition(":")
    ray_options: dict[str, Any] = {
        "name": name,
        "namespace": options.namespace,
        "lifetime": "detached",
        "max_restarts": -1,
        "max_task_retries": 0,
        "num_cpus": 0,
        "enable_task_events": False,
    }
    if options.ray_node is not None:
        ray_options["resources"] = _place(options.ray_node)
    if options.env:
        ray_options["runtime_env"] = {"env_vars": dict(options.env)}
    # Plain classes, wrapped here: a decorated class would run with copies of its module's globals.
    return ray.remote(**ray_options)(getattr(importlib.import_module(module), cls)).remote(*args)


def preload(kinds: Mapping[str, str]) -> None:
    """Import the actors' classes, which `create` needs, in a thread: Ray's start mostly waits meanwhile."""
    modules = sorted({target.partition(":")[0] for target in kinds.values()})

    def load() -> None:
        for module in modules:
            with contextlib.suppress(ImportError):  # `create` will say it where somebody listens
                importlib.import_module(module)

    threading.Thread(target=load, name="preload", daemon=True).start()


def find(name: str, namespace: str) -> Handle | None:
    """Return the actor's handle, or None if there is none of that name. Blocks: in actors, `look_up` does
    not."""
    if _Asked.way is not None:
        return _Asked.way.find(name, namespace)
    import ray

    try:
        return ray.get_actor(name, namespace=namespace)
    except ValueError:
        return None


def list_actors(namespace: str) -> set[str]:
    """Return the names of the actors that live or are being restarted, on machines that can be reached.
    Blocks like `find`."""
    if _Asked.way is not None:
        return _Asked.way.list_actors(namespace)
    import ray

    everyone = ray.util.list_named_actors(all_namespaces=True)
    return {actor["name"] for actor in everyone if actor["namespace"] == namespace}


async def look_up(name: str, namespace: str) -> Handle | None:
    """Return the actor's handle without blocking, or None if there is none of that name. While Ray's
    directory does not answer, that is the handle that it gave last: calls need it no more. Raises
    TimeoutError if there is none, and what `find` does."""
    key = (name, namespace)
    try:
        handle = await _ask_directory(find, name, namespace)
    except Exception:
        if key not in _LookedUp.handles:
            raise
        return _LookedUp.handles[key]
    _LookedUp.doubtful.discard(key)
    if handle is None:
        _LookedUp.handles.pop(key, None)
    else:
        _LookedUp.handles[key] = handle
    return handle


async def known(name: str, namespace: str) -> Handle | None:
    """Return the handle that `look_up` gave last, without asking anybody, unless it is in doubt; or else what
    it gives now. Raises what `look_up` does."""
    key = (name, namespace)
    if key in _LookedUp.handles and key not in _LookedUp.doubtful:
        return _LookedUp.handles[key]
    return await look_up(name, namespace)


def doubt(name: str, namespace: str) -> None:
    """Note that an actor did not answer: another one may have its name by now."""
    _LookedUp.doubtful.add((name, namespace))


async def look_up_names(namespace: str) -> set[str]:
    """Return what `list_actors` does, without blocking. Raises TimeoutError, and what that does."""
    names: set[str] = await _ask_directory(list_actors, namespace)
    return names


async def _ask_directory(question: Callable[..., Any], *args: str) -> Any:
    """Ask Ray's directory. Who asks one that is gone waits for minutes: so nobody waits while another one
    does. Raises TimeoutError."""
    if _LookedUp.late:
        raise TimeoutError("Ray's directory of actors does not answer")
    asked = asyncio.get_running_loop().run_in_executor(_LookedUp.threads, question, *args)
    _, late = await asyncio.wait({asked}, timeout=LOOK_UP_TIMEOUT_S)
    if late:
        _LookedUp.late.add(asked)
        asked.add_done_callback(_answered_late)
        raise TimeoutError(f"Ray's directory of actors did not answer within {LOOK_UP_TIMEOUT_S:g} s")
    return asked.result()


def _answered_late(asked: asyncio.Future[Any]) -> None:
    _LookedUp.late.discard(asked)
    if not asked.cancelled():
        asked.exception()


async def call(handle: Handle, method: str, *args: Any, timeout_s: float) -> Any:
    """Call an actor from inside another. Raises ActorCallError (ActorGoneError), TimeoutError."""
    if isinstance(handle, FarActor):
        return await asyncio.wrap_future(_far(handle, method, args, timeout_s))
    ref = getattr(handle, method).remote(*args)
    try:
        return await asyncio.wait_for(_value(ref), timeout_s)
    except TimeoutError:
        raise TimeoutError(f"{method} was not answered within {timeout_s:g} s") from None
    except Exception as error:
        raise _translated(error) from error


async def tell_all(
    names: Iterable[str], namespace: str, method: str, args: Sequence[Any], timeout_s: float
) -> None:
    """Call a method of each of these actors, all at once. Who cannot be reached is logged, no more."""

    async def tell(name: str) -> None:
        try:
            handle = await look_up(name, namespace)
            if handle is not None:
                await call(handle, method, *args, timeout_s=timeout_s)
        except Exception as error:
            log.info("%s was not told (%s): %s", name, method, error)

    await asyncio.gather(*map(tell, names))


def submit(handle: Handle, method: str, *args: Any, timeout_s: float = START_TIMEOUT_S) -> Ref:
    """Begin a call from a process that is no actor, and return its reference, for `finished` and `result`.
    `timeout_s` is how long somebody will wait for it."""
    if isinstance(handle, FarActor):
        return _far(handle, method, args, timeout_s)
    return getattr(handle, method).remote(*args)


def finished(refs: Sequence[Ref], timeout_s: float) -> list[Ref]:
    """Return those of `refs` that have their result after at most `timeout_s`; it returns at the first that
    has."""
    if _Asked.way is not None:
        return list(concurrent.futures.wait(refs, timeout_s, concurrent.futures.FIRST_COMPLETED).done)
    import ray

    return list(ray.wait(list(refs), num_returns=1, timeout=timeout_s)[0])


def result(ref: Ref, timeout_s: float) -> Any:
    """Return what a call brought. Raises ActorCallError (ActorGoneError), TimeoutError."""
    if isinstance(ref, concurrent.futures.Future):
        return ref.result(timeout_s)
    import ray

    try:
        return ray.get(ref, timeout=timeout_s)
    except ray.exceptions.GetTimeoutError:
        raise TimeoutError(f"no answer within {timeout_s:g} s") from None
    except Exception as error:
        raise _translated(error) from error


def await_call(handle: Handle, method: str, *args: Any, timeout_s: float) -> Any:
    """Call an actor from a process that is no actor. Raises ActorCallError (ActorGoneError), TimeoutError."""
    return result(submit(handle, method, *args, timeout_s=timeout_s), timeout_s)


def kill(handle: Handle, *, no_restart: bool = True) -> None:
    """End the actor's process at once (SIGKILL in effect): call its `stop` first. Never fails."""
    if isinstance(handle, FarActor):
        with contextlib.suppress(Exception):
            known = machines()
            assert known is not None, "only machines' agents end actors"
            known.kill(handle, no_restart)
        return
    import ray

    with contextlib.suppress(Exception):
        ray.kill(handle, no_restart=no_restart)


# Parts of the functions above.


def _far(handle: FarActor, method: str, args: Sequence[Any], timeout_s: float) -> Ref:
    assert _Asked.way is not None, "the handle of an actor elsewhere came this way"
    return _Asked.way.call(handle, method, args, timeout_s)


async def _value(ref: Ref) -> Any:
    return await ref


def _translated(error: Exception) -> Exception:
    import ray

    if isinstance(error, ray.exceptions.RayTaskError):
        cause = getattr(error, "cause", None)
        return ActorCallError(str(cause) if cause is not None else str(error))
    if isinstance(error, ray.exceptions.RayActorError):
        return ActorGoneError(str(error).splitlines()[0])
    return ActorCallError(f"{type(error).__name__}: {error}")
