"""A tier's data directory: whose it is, who uses it, and how others find the tier that runs in it.

`tier.json` says both: what the tier is (fixed when the directory is made) and where it runs now (null when
it does not). `lock` is held by the process that runs it, `secret` and `ray-token` are for its owner's
eyes. Checks here run before anything is started and raise TierError in words for the user.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import socket
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from actors.controller import placement_file
from actors.ground.spec import (
    CONTROLLER_GROUP,
    PARTITION_GROUP,
    Copies,
    Copy,
    NodeSpec,
    UpstreamSpec,
    copies,
    partition_group,
)
from actors.metadata.records import GroupPlacementValue, SplitValue
from cluster import owner_file

FORMAT = 2
"""The format of tier.json and of the directory's layout; a newer one is refused."""
FORMATS_READ = (1, 2)
DATA_DIR_DEFAULT = Path("groupd-data")
"""The data directory of every command that is given none, below the directory in which the command is
given."""
MIB = 1024 * 1024
DISK_FREE_BYTES_MIN = 128 * MIB
"""How much room a disk must have: less than this for journals and logs is a disk about to be full."""
LOG_NAME = "groupd.log"
REPLICATION_FACTOR = "offsets.topic.replication.factor"
PARTITIONS = "offsets.topic.num.partitions"


class TierError(Exception):
    """Raised if something cannot be done; it says why, in words for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where a tier runs."""

    pid: int | None
    """The process that keeps the tier; None if the tier lives in a Ray cluster of its own."""
    pid_started_at: float | None
    """When that process started, in seconds since the epoch, to tell it from a later one of the same
    number."""
    bootstrap: str
    """The host:port of every node, separated by commas."""
    ray_address: str
    ray_is_ours: bool
    run_dir: str
    ready: bool
    machines: tuple[str, ...] = ()
    """The addresses of the agents of the tier's machines; empty: it lives in one Ray."""
    warnings: tuple[str, ...] = ()
    """What went wrong at the start and did not stop it, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFile:
    """The content of tier.json."""

    tier_id: str
    nodes: tuple[NodeSpec, ...]
    placement: tuple[Copies, ...]
    controllers: Copies
    ray_address: str
    """Ray's address as configured when the directory was made; empty: a Ray of our own."""
    history_dir: str = ""
    """The directory of history as configured at the last start, a local path made absolute; empty: below the
    data directory."""
    leaving: tuple[tuple[str, Copy], ...] = ()
    """The replicas that are in no row above and that their groups have not let go yet: (group, replica)."""
    unmoved: tuple[int, ...] = ()
    """The offsets partitions that are being split and whose groups have not moved yet."""
    undropped: tuple[int, ...] = ()
    """The offsets partitions that are being split; (): no split runs."""
    started_partitions: int = 0
    """How many offsets partitions the tier began with: the ports of Raft's links follow from that."""
    placement_version: int = 0
    """The version of what is known of the replicas' places; 0: they are where the tier began."""
    upstream: UpstreamSpec | None = None
    """The Kafka cluster that the tier was made to stand in front of; None: it has groups of its own."""
    formed: bool = False
    """Whether the tier was ready once: then its replicas have journals that must not be missing later."""
    running: Running | None = None
    format: int = FORMAT

    @property
    def namespace(self) -> str:
        return f"groupd-{self.tier_id}"

    def row(self, group: str) -> Copies:
        """Return the replicas that a group should have."""
        if group == CONTROLLER_GROUP:
            return self.controllers
        return self.placement[int(group.removeprefix(PARTITION_GROUP))]

    def copies(self, group: str) -> Copies:
        """Return the replicas that a group has, those that are to leave last."""
        return (*self.row(group), *(copy for name, copy in self.leaving if name == group))

    @property
    def replicas(self) -> int:
        return max(map(len, self.placement))

    @property
    def spans_machines(self) -> bool:
        """Return whether the tier's nodes may be on several machines."""
        return bool(self.ray_address) or any(node.machine for node in self.nodes)


def read(data_dir: Path) -> TierFile | None:
    """Return the tier of a directory, with its replicas where the controller put them since, or None if the
    directory holds none. Raises TierError."""
    tier = _read(data_dir)
    if tier is None:
        return None
    try:
        saved = placement_file.read(data_dir)
    except placement_file.PlacementUnreadable as error:
        raise TierError(str(error)) from None
    return tier if saved is None else with_saved(tier, saved)


def with_saved(tier: TierFile, saved: placement_file.SavedPlacement) -> TierFile:
    """Return `tier` with its replicas where `saved` says, if that is of this tier and newer than what it
    says."""
    if saved.tier_id != tier.tier_id or saved.version <= tier.placement_version:
        return tier
    present = placed(at(tier, saved.nodes), saved.placements, saved.split)
    return replace(present, placement_version=saved.version)


def at(tier: TierFile, nodes: tuple[NodeSpec, ...]) -> TierFile:
    """Return `tier` with these nodes; () are those that it has."""
    if not nodes or nodes == tier.nodes:
        return tier
    running = tier.running
    if running is not None:
        machines = tuple(dict.fromkeys(node.machine for node in nodes if node.machine is not None))
        running = replace(running, bootstrap=bootstrap_of(nodes), machines=machines)
    return replace(tier, nodes=nodes, running=running)


def bootstrap_of(nodes: Sequence[NodeSpec]) -> str:
    return ",".join(f"{node.host}:{node.port}" for node in nodes)


def placed(
    tier: TierFile, placements: Mapping[str, GroupPlacementValue], split: SplitValue | None = None
) -> TierFile:
    """Return `tier` with its replicas in these places, and with the offsets partitions that splits have made.
    `split` says how far the last one is; None: as far as the tier knows."""

    def row(group: str, old: Copies) -> Copies:
        return placements[group].copies if group in placements else old

    old_rows = dict(enumerate(tier.placement))
    while partition_group(len(old_rows)) in placements:
        old_rows[len(old_rows)] = ()
    return replace(
        tier,
        placement=tuple(row(partition_group(p), old) for p, old in old_rows.items()),
        unmoved=tier.unmoved if split is None else split.unmoved,
        undropped=tier.undropped if split is None else split.undropped,
        controllers=row(CONTROLLER_GROUP, tier.controllers),
        leaving=tuple((group, copy) for group, value in placements.items() for copy in value.leaving),
    )


def begin_anew(data_dir: Path, tier: TierFile) -> TierFile:
    """Write tier.json before a start for which losses are accepted: the controller may have forgotten its
    placement, and what it writes then must not look older than what is known here."""
    tier = replace(tier, placement_version=0, running=None)
    write(data_dir, tier)
    (data_dir / placement_file.NAME).unlink(missing_ok=True)
    return tier


def _read(data_dir: Path) -> TierFile | None:
    path = data_dir / "tier.json"
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TierError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise TierError(f"{path} is damaged: it holds no JSON object")
    found = content.get("format")
    if found not in FORMATS_READ:
        known = " or ".join(map(str, FORMATS_READ))
        raise TierError(f"{path} has format {found}; this groupd reads format {known}")
    try:
        running = content["running"]
        return TierFile(
            tier_id=content["tier_id"],
            nodes=tuple(NodeSpec(**node) for node in content["nodes"]),
            placement=tuple(_copies(row) for row in content["placement"]),
            controllers=_copies(content["controllers"]),
            ray_address=content["ray_address"],
            history_dir=content.get("history_dir", ""),
            leaving=tuple((group, Copy(*copy)) for group, copy in content.get("leaving", ())),
            unmoved=tuple(content.get("unmoved", ())),
            undropped=tuple(content.get("undropped", ())),
            started_partitions=content.get("started_partitions") or len(content["placement"]),
            placement_version=content.get("placement_version", 0),
            upstream=_upstream(content.get("upstream")),
            formed=content["formed"],
            running=None if running is None else _running(running),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TierError(f"{path} is damaged: {error!r}") from None


def _upstream(content: dict[str, Any] | None) -> UpstreamSpec | None:
    if content is None:
        return None
    addresses = {
        name: tuple((host, port) for host, port in content[name]) for name in ("brokers", "controllers")
    }
    others = {"other_listeners": tuple(content.get("other_listeners", ()))}
    return UpstreamSpec(**{**content, **addresses, **others})


def _public(upstream: UpstreamSpec) -> dict[str, Any]:
    """Return what everybody may read: how the tier logs in stands in files of its owner's."""
    fields = upstream._asdict()
    del fields["brokers_login"], fields["controllers_login"]
    return fields


def _running(content: dict[str, Any]) -> Running:
    lists = {name: tuple(content.get(name, ())) for name in ("warnings", "machines")}
    return Running(**{**content, **lists})


def _copies(row: list[Any]) -> Copies:
    """Return the replicas of a row. Format 1 numbered them by their place in the row and wrote their nodes
    only."""
    return copies(row) if all(isinstance(each, int) for each in row) else tuple(Copy(*each) for each in row)


def write(data_dir: Path, tier: TierFile) -> None:
    """Replace tier.json in one step, so that no reader sees half of it."""
    content = asdict(tier)
    content["upstream"] = None if tier.upstream is None else _public(tier.upstream)
    content["namespace"] = tier.namespace
    content["bootstrap"] = None if tier.running is None else tier.running.bootstrap
    partial = data_dir / "tier.json.partial"
    partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    partial.replace(data_dir / "tier.json")


def hint(command: str, data_dir: Path) -> str:
    """Return a command of `groupd` as a hint names it, for the tier of this directory: whoever copies it
    should not have to know which directory was meant."""
    is_default = data_dir.resolve() == DATA_DIR_DEFAULT.resolve()
    return f"`groupd {command}`" if is_default else f"`groupd {command} --data-dir {data_dir}`"


def require_running(data_dir: Path) -> tuple[TierFile, Running]:
    """Return the tier that runs in a directory. Raises TierError if none does."""
    tier = read(data_dir)
    if tier is None:
        raise TierError(f"there is no tier in {data_dir}; {hint('up', data_dir)} makes one")
    if tier.running is None or not is_alive(tier.running):
        raise TierError(f"the tier in {data_dir} does not run; {hint('up', data_dir)} starts it")
    return tier, tier.running


def is_alive(running: Running) -> bool:
    """Return whether the process that keeps the tier lives; a tier in a Ray cluster needs none."""
    import psutil

    if running.pid is None:
        return True
    try:
        process = psutil.Process(running.pid)
        same = running.pid_started_at is None or abs(process.create_time() - running.pid_started_at) < 1
        return same and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def new_tier_id() -> str:
    """Return a new tier id: 22 letters, as Kafka writes its cluster ids."""
    return urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def prepare(data_dir: Path) -> None:
    """Make the directory if need be, and see that it can be used. Raises TierError."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        probe = data_dir / f".probe-{os.getpid()}"
        probe.write_bytes(b"groupd")
        probe.unlink()
    except OSError as error:
        raise TierError(f"data directory {data_dir} cannot be written: {error.strerror or error}") from None
    free = shutil.disk_usage(data_dir).free
    if free < DISK_FREE_BYTES_MIN:
        raise TierError(
            f"data directory {data_dir} has {free // MIB} MiB free; "
            f"{DISK_FREE_BYTES_MIN // MIB} MiB are needed"
        )


@contextlib.contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Hold the directory's lock. Raises TierError if another process does."""
    with (data_dir / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "?"
            raise TierError(
                f"data directory {data_dir} is in use by process {holder}; "
                f"{hint('down', data_dir)} stops that tier, --data-dir names another directory"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        os.set_inheritable(file.fileno(), False)
        yield


def secret(data_dir: Path, name: str) -> tuple[Path, str]:
    """Return the path and the text of a random secret kept in the directory, readable by its owner only."""
    path = data_dir / name
    if not path.exists():
        owner_file.write(path, secrets.token_hex(32).encode())
    return path.resolve(), path.read_text(encoding="utf-8").strip()


def shape(tier: TierFile) -> dict[str, Any]:
    """Return the settings that a directory was made with, by name; they cannot change later."""
    return {
        "nodes": len(tier.nodes),
        PARTITIONS: len(tier.placement),
        REPLICATION_FACTOR: tier.replicas,
        "racks": tuple(node.rack for node in tier.nodes if node.rack is not None),
        "ray.address": tier.ray_address,
    }


def check_same_shape(data_dir: Path, tier: TierFile, wanted: Mapping[str, Any]) -> None:
    """Refuse settings that would need data to move. `wanted` are the settings that were given, by name.
    Raises TierError."""
    for name, value in shape(tier).items():
        if wanted.get(name, value) == value:
            continue
        if name == PARTITIONS and _splits_make(wanted[name], value):
            continue
        if name == "nodes":
            raise TierError(
                f"the tier in {data_dir} has {value} nodes: leave that out to start it as it is, then "
                f"{hint('nodes add', data_dir)} and {hint('nodes drain', data_dir)} change it while the tier "
                "serves"
            )
        if name == REPLICATION_FACTOR:
            raise TierError(
                f"the tier in {data_dir} has {name} = {value!r}: leave that out to start it as it is, then "
                f"{hint(f'replicas resize --all {wanted[name]}', data_dir)} changes it while the tier serves"
            )
        if name == PARTITIONS and _splits_make(value, wanted[name]):
            raise TierError(
                f"the tier in {data_dir} has {name} = {value!r}: leave that out to start it as it is, then "
                f"{hint('partitions split', data_dir)} doubles it while the tier serves"
            )
        raise TierError(
            f"the tier in {data_dir} was made with {name} = {value!r} and cannot change to "
            f"{wanted[name]!r}; leave that out to start it as it is, or name an empty --data-dir"
        )


def _splits_make(before: int, partitions: int) -> bool:
    """Return whether splits make so many offsets partitions out of as many as there were `before`."""
    while 0 < before < partitions:
        before *= 2
    return before == partitions


def check_ports_free(addresses: Sequence[tuple[str, int]]) -> None:
    """Check that ports are free. Raises TierError that names every port in use, and by whom if that can be
    seen."""
    taken = []
    for host, port in addresses:
        try:
            try_to_listen(host, port)
        except socket.gaierror as error:
            raise TierError(f"host {host} is unknown: {error.strerror}") from None
        except OSError as error:
            taken.append(f"{host}:{port} ({_user_of(port) or error.strerror})")
    if taken:
        raise TierError(f"cannot listen on {', '.join(taken)}; --port names another first port")


def try_to_listen(host: str, port: int) -> None:
    """Bind to a port for a moment. Raises OSError if that cannot be done, gaierror for an unknown host."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def _user_of(port: int) -> str | None:
    import psutil

    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if connection.status == "LISTEN" and connection.laddr.port == port and connection.pid:
                return f"in use by process {connection.pid}, {psutil.Process(connection.pid).name()}"
    return None


def stopped(data_dir: Path) -> None:
    """Note that the tier does not run any more."""
    tier = read(data_dir)
    if tier is not None:
        write(data_dir, replace(tier, running=None))
