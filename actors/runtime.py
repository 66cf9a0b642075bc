"""The only module that imports Ray: plain classes become actors here, and are found, called and killed.

Ray is imported when it is first needed, because much of it is decided by the environment at that moment
(`prepare_environment`). Measured facts behind the choices are in the docstrings beside them. Ray calls
cost about a millisecond and any of them can hang, so every call here has a time-out. No client request
and no Raft message crosses this module.

Not here: which actors a tier has (cluster.tier) and what they do.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import importlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

Handle = Any
"""Ray's handle of an actor; travels between actors."""
Ref = Any
"""Ray's promise of one call's result."""

KINDS: Mapping[str, str] = {
    "broker": "actors.node.broker:Broker",
    "controller": "actors.controller.controller:Controller",
    "partition": "actors.leader.offsets_partition:OffsetsPartition",
}
"""Kind of actor -> `module:class`."""

LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 80 * 1024 * 1024
"""Ray's smallest object store is 75 MiB; no object of ours is large enough to go there."""
PLACE_SHARE = 0.0001
"""How much of a machine's address each actor takes that stays there: the least that Ray allows."""
CONNECT_PROBE_TIMEOUT_S = 2.0
STOP_GRACE_S = 3.0
LIBRARIES_ENV = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""The environment of actors' libraries. A pool of threads per actor and library would only cost memory:
kernels are numba's, single-threaded. And Arrow's own pool of memory gives back what a segment of history
took, only to take it anew for the next: the kernel clears every page of it again, which is a fifth of what
writing history costs."""


class ActorCallError(Exception):
    """Raised for a call that brought no result; the text says why."""


class ActorGoneError(ActorCallError):
    """Raised if the actor is dead or being restarted."""


class RayUnreachableError(Exception):
    """Raised if no Ray cluster answers at the address."""


class ActorOptions(NamedTuple):
    """Where and how an actor is made."""

    namespace: str
    ray_node: str | None = None
    """The address of the machine on which the actor stays: if that is lost, Ray waits until one comes that
    has it."""
    env: Mapping[str, str] = MappingProxyType({})
    """Extra environment variables, for clusters whose machines we did not start."""
    kinds: Mapping[str, str] = KINDS


class _Local:
    """The Ray head that this process started, if any."""

    node: Any = None
    token_path: Path | None = None
    """The path of Ray's token. It is in the environment of every process of that Ray, and of no other Ray."""


# Starting, attaching, stopping.


def prepare_environment(*, token_path: Path | None) -> None:
    """Decide by environment what Ray offers no other way to decide; processes started later inherit it.

    Workers run at nice 15 by default, which costs a third of the throughput under load. The memory monitor
    kills small actors because somebody else fills the machine. The `uv run` hook copies the working
    directory and gives each worker an environment of its own.
    """
    env = {
        "RAY_worker_niceness": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_enable_metrics_collection": "0",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_enable_worker_prestart": "0",
        "RAY_event_stats": "0",
        # How soon a caller learns of an actor's death (1 s by default), and how long a killed actor may
        # linger (5 s). Health checks of the raylet keep Ray's defaults: a false alarm would end the tier.
        "RAY_timeout_ms_task_wait_for_death_info": "100",
        "RAY_kill_worker_timeout_milliseconds": "500",
        # Without the head's directory the data path goes on; by default actors would exit after a minute.
        "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
        **LIBRARIES_ENV,
    }
    if token_path is not None:
        env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_path)}
    os.environ.update(env)
    _share_our_code()
    if "ray" in sys.modules:
        # Ray reads its configuration once, at import: read it again (a second tier in one process).
        raylet = importlib.import_module("ray._raylet")
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def start_local(namespace: str, run_dir: Path, *, token_path: Path) -> str:
    """Start a Ray of our own on this machine, bound to loopback, and connect to it. Returns its address.

    Against `ray.init()` this leaves out the dashboard's server, the autoscaler's monitor and the log
    monitor (150 MB and a second of start time), and nothing listens on a public interface. It uses
    Ray's private `Node` for that, therefore pyproject.toml pins Ray's version.

    Raises RuntimeError with Ray's own words.
    """
    prepare_environment(token_path=token_path)
    _import_quietly()
    ray_node = importlib.import_module("ray._private.node")
    parameter = importlib.import_module("ray._private.parameter")
    _tame()

    class LeanNode(ray_node.Node):  # type: ignore[misc, name-defined]
        def start_api_server(self, **_: Any) -> None:
            """Do nothing: nothing of ours asks the dashboard."""

    params = parameter.RayParams(
        # Actors ask for none, but Ray starts as many workers at a time as there are.
        num_cpus=os.cpu_count() or 1,
        num_gpus=0,
        resources={},
        labels={},
        include_dashboard=False,
        no_monitor=True,
        include_log_monitor=False,
        temp_dir=str(run_dir / "ray"),
        node_ip_address=LOOPBACK,
        object_store_memory=OBJECT_STORE_BYTES,
    )
    try:
        _Local.token_path = token_path
        _Local.node = LeanNode(params, head=True, shutdown_at_exit=False, spawn_reaper=True)
        address = str(_Local.node.gcs_address)
        _connect(address, namespace, loopback=True)
    except Exception as error:
        shutdown()
        raise RuntimeError(f"Ray did not start: {error}") from error
    return address


def attach(address: str, namespace: str, *, token_path: Path | None = None) -> None:
    """Connect this process to a running Ray cluster.

    The port is probed first: to a dead address Ray itself would go on connecting for minutes. `token_path`
    is given for a Ray that `start_local` started; for any other the user's own RAY_AUTH_* holds.

    Raises RayUnreachableError.
    """
    if ":" not in address:
        raise RayUnreachableError(f"{address!r} is no Ray address: host:port is expected")
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_PROBE_TIMEOUT_S):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise RayUnreachableError(f"nothing answers at Ray's address {address}: {error}") from error
    for name, value in {
        "RAY_gcs_rpc_server_connect_timeout_s": "2",
        "RAY_py_gcs_connect_timeout_s": "5",
        "RAY_NUM_REDIS_GET_RETRIES": "2",
    }.items():
        os.environ.setdefault(name, value)
    prepare_environment(token_path=token_path)
    try:
        _connect(address, namespace, loopback=token_path is not None)
    except Exception as error:
        raise RayUnreachableError(f"Ray at {address} cannot be used: {error}") from error


def shutdown() -> None:
    """Disconnect from Ray, stop the Ray that this process started, and wait until its processes are gone."""
    if "ray" not in sys.modules:
        return
    import ray

    family = () if _Local.node is None else _family()
    if local_problem() is None:
        with contextlib.suppress(Exception):  # a half-dead Ray must not keep us from ending its processes
            ray.shutdown()
    else:
        # Ray's shutdown would wait for the dead, now and once more when the interpreter ends.
        atexit.unregister(importlib.import_module("ray._private.worker").shutdown)
    if _Local.node is not None:
        with contextlib.suppress(Exception):
            _Local.node.kill_all_processes(check_alive=False, allow_graceful=True)
        _end(family)
        _Local.node = None


def connected() -> bool:
    """Return whether this process is connected to a Ray, be it one that died."""
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


def local_problem() -> str | None:
    """Return what is wrong with the Ray that this process started: the name of a process that died, or
    None."""
    if _Local.node is None:
        return None
    dead = [kind for kind, _ in _Local.node.dead_processes()]
    return f"Ray's {', '.join(dead)} died" if dead else None


def ray_nodes() -> list[str]:
    """Return the addresses of the live machines of the Ray cluster, in a stable order."""
    import ray

    return sorted({node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]})


def make_directory(ray_node: str, path: str, timeout_s: float) -> None:
    """Make a directory, for its owner only, on a machine of the Ray cluster. Raises like `result`."""
    result(_on_machine(ray_node, os.makedirs, path, 0o700, True), timeout_s)


def remove_directory(ray_node: str, path: str, timeout_s: float) -> None:
    """Remove a directory and what is in it on a machine of the Ray cluster. Raises like `result`."""
    result(_on_machine(ray_node, shutil.rmtree, path, True), timeout_s)


def run_on_machine(
    ray_node: str, function: Callable[..., Any], args: Sequence[Any], timeout_s: float
) -> None:
    """Call a function that can be imported there on a machine of the Ray cluster. Raises like `result`."""
    result(_on_machine(ray_node, function, *args), timeout_s)


def _on_machine(ray_node: str, function: Callable[..., Any], *args: Any) -> Ref:
    import ray

    def task() -> None:
        function(*args)

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
    """Return the actor's handle, or None if there is none of that name. Blocks: in actors, call it in a
    thread."""
    import ray

    try:
        return ray.get_actor(name, namespace=namespace)
    except ValueError:
        return None


def list_actors(namespace: str) -> set[str]:
    """Return the names of the actors that live or are being restarted. Blocks like `find`."""
    import ray

    everyone = ray.util.list_named_actors(all_namespaces=True)
    return {actor["name"] for actor in everyone if actor["namespace"] == namespace}


async def call(handle: Handle, method: str, *args: Any, timeout_s: float) -> Any:
    """Call an actor from inside another. Raises ActorCallError (ActorGoneError), TimeoutError."""
    ref = getattr(handle, method).remote(*args)
    try:
        return await asyncio.wait_for(_value(ref), timeout_s)
    except TimeoutError:
        raise TimeoutError(f"{method} was not answered within {timeout_s:g} s") from None
    except Exception as error:
        raise _translated(error) from error


def submit(handle: Handle, method: str, *args: Any) -> Ref:
    """Begin a call from a process that is no actor, and return its reference, for `finished` and `result`."""
    return getattr(handle, method).remote(*args)


def finished(refs: Sequence[Ref], timeout_s: float) -> list[Ref]:
    """Return those of `refs` that have their result after at most `timeout_s`; it returns at the first that
    has."""
    import ray

    return list(ray.wait(list(refs), num_returns=1, timeout=timeout_s)[0])


def result(ref: Ref, timeout_s: float) -> Any:
    """Return what a call brought. Raises ActorCallError (ActorGoneError), TimeoutError."""
    import ray

    try:
        return ray.get(ref, timeout=timeout_s)
    except ray.exceptions.GetTimeoutError:
        raise TimeoutError(f"no answer within {timeout_s:g} s") from None
    except Exception as error:
        raise _translated(error) from error


def await_call(handle: Handle, method: str, *args: Any, timeout_s: float) -> Any:
    """Call an actor from a process that is no actor. Raises ActorCallError (ActorGoneError), TimeoutError."""
    return result(submit(handle, method, *args), timeout_s)


def kill(handle: Handle, *, no_restart: bool = True) -> None:
    """End the actor's process at once (SIGKILL in effect): call its `stop` first. Never fails."""
    import ray

    with contextlib.suppress(Exception):
        ray.kill(handle, no_restart=no_restart)


# Parts of the functions above.


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


def _import_quietly() -> None:
    """Import Ray without its dependencies' warnings about each other, which are not for our user's screen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("ray")


def _connect(address: str, namespace: str, *, loopback: bool) -> None:
    _import_quietly()
    import ray

    options: dict[str, Any] = {}
    if loopback:
        _tame()
        options["_node_ip_address"] = LOOPBACK
    ray.init(
        address=address,
        namespace=namespace,
        log_to_driver=False,
        logging_level="ERROR",
        _skip_env_hook=True,
        **options,
    )


def _tame() -> None:
    """Undo three habits of Ray in this process.

    It replaces a loopback address by the machine's public one, so a Ray bound to loopback could not be
    reached. And it prints warnings of its raylet over our screen, whatever `log_to_driver` says.
    A third is undone for the processes it starts: they would share our process group, so what a closed
    terminal or `timeout` sends to the group would end Ray under the actors before we can stop them.
    """
    services: Any = importlib.import_module("ray._private.services")
    worker: Any = importlib.import_module("ray._private.worker")
    services.resolve_ip_for_localhost = lambda host: host
    worker.print_to_stdstream = lambda *_, **__: None
    services.ConsolePopen = functools.partial(subprocess.Popen, process_group=0)


def _share_our_code() -> None:
    """Let Ray's workers import this package as this process does, from wherever it was imported."""
    root = str(Path(__file__).resolve().parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in paths and Path(root).name != "site-packages":
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])


def _family() -> tuple[Any, ...]:
    """Return every process of the local Ray, to be looked for after its end."""
    import psutil

    pids = [info.process.pid for infos in _Local.node.all_processes.values() for info in infos]
    family: list[Any] = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            family += [process, *process.children(recursive=True)]
    return (*family, *_orphans())


def _orphans() -> Iterator[Any]:
    """Yield the actors whose raylet died: they are nobody's children, and not sure to end by themselves."""
    import psutil

    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error):
            if process.info["name"].startswith("ray::") and process.environ().get(
                "RAY_AUTH_TOKEN_PATH"
            ) == str(_Local.token_path):
                yield process


def _end(family: Sequence[Any]) -> None:
    """Wait for processes to end; kill those that do not (Ray's agents would linger for a minute)."""
    import psutil

    _, alive = psutil.wait_procs(family, timeout=STOP_GRACE_S)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=STOP_GRACE_S)
