"""Start Ray, attach to one, and end it: what a process does before its first actor and after the last.

Ray is imported when it is first needed, because much of it is decided by the environment at that moment
(`prepare_environment`). Measured facts behind the choices are in the docstrings beside them.

Not here: actors and their calls (actors.runtime).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

LOOPBACK = "127.0.0.1"
OBJECT_STORE_BYTES = 80 * 1024 * 1024
CONNECT_PROBE_TIMEOUT_S = 2.0
STOP_GRACE_S = 3.0
HEAD_RESOURCE = "node:__internal_head__"
"""What Ray gives to the machine with its directory of actors, and to no other."""
STAND_IN = 'sh -c "exec cat" agent'
"""What a raylet starts in the place of its two agents: it insists on both, and ends with them. Nothing asks
the dashboard's agent here, and no actor needs an environment of its own; they are 100 MB and a second of CPU.
This one reads the pipe that the raylet holds, in which nothing comes but its end, and ends with the raylet.
"""
AGENTS_PORTS = (
    "METRICS_AGENT_PORT_NAME",
    "METRICS_EXPORT_PORT_NAME",
    "DASHBOARD_AGENT_LISTEN_PORT_NAME",
    "RUNTIME_ENV_AGENT_PORT_NAME",
)
"""What Ray calls the files in which agents leave their ports, and for which the raylet waits."""
NO_PORT = 9
"""The port of the agents that are not there: the one that is reserved for throwing away what comes."""
RARELY = {
    **dict.fromkeys(
        (
            # Watching disks, objects and garbage, of which we leave none behind.
            "RAY_local_fs_monitor_interval_ms",
            "RAY_object_manager_timer_freq_ms",
            "RAY_raylet_check_gc_period_milliseconds",
            "RAY_kill_idle_workers_interval_ms",
            # News for the autoscaler, metrics, and watching threads.
            "RAY_gcs_pull_resource_loads_period_milliseconds",
            "RAY_report_worker_backlog_interval_ms",
            "RAY_metrics_report_interval_ms",
            "RAY_io_context_monitor_probe_interval_ms",
            "RAY_io_context_event_loop_lag_collection_interval_ms",
        ),
        "60000",
    ),
    **dict.fromkeys(
        (
            "RAY_task_events_report_interval_ms",
            "RAY_debug_dump_period_milliseconds",
            "RAY_event_stats_print_interval_ms",
        ),
        "0",
    ),
    "RAY_raylet_report_resources_period_milliseconds": "1000",
    # Every thread that polls wakes four times a second for nothing.
    "RAY_gcs_server_rpc_server_thread_num": "1",
    "RAY_gcs_server_rpc_client_thread_num": "1",
}
"""How rarely Ray's processes may do what a tier does not need, in ms; 0 is never. With Ray's defaults they
wake some hundred times a second for it."""
LIBRARIES_ENV = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""The environment of actors' libraries. A pool of threads per actor and library would only cost memory:
kernels are numba's, single-threaded. And Arrow's own pool of memory gives back what a segment of history
took, only to take it anew for the next: the kernel clears every page of it again, which is a fifth of what
writing history costs."""


class RayUnreachableError(Exception):
    """Raised if no Ray cluster answers at the address."""


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
        **RARELY,
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

    Against `ray.init()` this leaves out the dashboard's server, the autoscaler's monitor, the log monitor and
    the raylet's agents (250 MB and two seconds of start time), and nothing listens on a public interface. It
    uses Ray's private `Node` for that, therefore pyproject.toml pins Ray's version.

    Raises RuntimeError with Ray's own words.
    """
    prepare_environment(token_path=token_path)
    _import_quietly()
    ray_node = importlib.import_module("ray._private.node")
    parameter = importlib.import_module("ray._private.parameter")
    services: Any = importlib.import_module("ray._private.services")
    raylet: Any = importlib.import_module("ray._raylet")
    _tame()

    class LeanNode(ray_node.Node):  # type: ignore[misc, name-defined]
        def start_api_server(self, **_: Any) -> None:
            """Do nothing: nothing of ours asks the dashboard."""

        def start_raylet(self, *args: Any, **options: Any) -> None:
            """Start the raylet without its agents."""
            for name in AGENTS_PORTS:
                raylet.persist_port(self._session_dir, self._node_id, getattr(raylet, name), NO_PORT)
            start = services.start_ray_process
            services.start_ray_process = lambda command, *rest, **more: start(
                _without_agents(command), *rest, **more
            )
            try:
                super().start_raylet(*args, **options)
            finally:
                services.start_ray_process = start

    params = parameter.RayParams(
        # Actors ask for none, but Ray starts as many workers at a time as there are.
        num_cpus=os.cpu_count() or 1,
        num_gpus=0,
        resources={},
        labels={},
        include_dashboard=False,
        no_monitor=True,
        include_log_monitor=False,
        worker_path=str(Path(__file__).with_name("ray_worker.py")),
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
    is_whole = local_problem() is None
    if is_whole:
        with contextlib.suppress(Exception):  # a half-dead Ray must not keep us from ending its processes
            ray.shutdown()
    else:
        # Ray's shutdown would wait for the dead, now and once more when the interpreter ends.
        atexit.unregister(importlib.import_module("ray._private.worker").shutdown)
    if _Local.node is not None:
        with contextlib.suppress(Exception):
            _Local.node.kill_all_processes(check_alive=False, allow_graceful=is_whole)
        _end(family, STOP_GRACE_S if is_whole else 0)
        _Local.node = None


def end_all(token_path: Path) -> None:
    """End what is left of a Ray that was started with this token: its own processes and the actors."""
    _end([each for each in _of_token(token_path) if each.pid != os.getpid()], grace_s=0)


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


def ray_head() -> str:
    """Return the address of the machine that has the Ray cluster's directory of actors; "" if it is gone."""
    import ray

    heads = (node for node in ray.nodes() if node["Alive"] and HEAD_RESOURCE in node["Resources"])
    return next((str(node["NodeManagerAddress"]) for node in heads), "")


def told_settings() -> dict[str, str]:
    """Return the settings of Ray that this process's environment has, by Ray's names: those of the machine's
    Ray, if Ray started the process."""
    return {name.removeprefix("RAY_"): value for name, value in os.environ.items() if name.startswith("RAY_")}


def cluster_settings() -> dict[str, str]:
    """Return the settings that the Ray cluster's head gives to all machines (`ray start --system-config`).
    They count more than a machine's own."""
    state: Any = importlib.import_module("ray._private.state").state
    return {name: str(value) for name, value in state.get_system_config().items()}


# Parts of the functions above.


def _without_agents(command: Sequence[str]) -> list[str]:
    """Return a raylet's command with a process that only waits in the place of each of its agents."""
    names = ("--dashboard_agent_command", "--runtime_env_agent_command")
    parts = [(each, each.partition("=")[0]) for each in command]
    return [f"{name}={STAND_IN}" if name in names else each for each, name in parts]


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
    """Return the actors whose raylet died: they are nobody's children, and not sure to end by themselves."""
    assert _Local.token_path is not None
    return (each for each in _of_token(_Local.token_path) if each.info["name"].startswith("ray::"))


def _of_token(token_path: Path) -> Iterator[Any]:
    """Yield the processes of the Ray that has this token."""
    import psutil

    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error):
            if process.environ().get("RAY_AUTH_TOKEN_PATH") == str(token_path):
                yield process


def _end(family: Sequence[Any], grace_s: float = STOP_GRACE_S) -> None:
    """Wait for processes to end; kill those that do not (Ray's agents would linger for a minute)."""
    import psutil

    _, alive = psutil.wait_procs(family, timeout=grace_s)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=STOP_GRACE_S)
