"""The target of a swarm: any Kafka at an address, the tier of a data directory, or a throw-away tier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cluster.tier_file import TierError, require_running

if TYPE_CHECKING:
    from bench.ground.throwaway import Tier
    from cluster.groups.properties import ClientProperties

BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"
COPIES_MAX: Final = 3


class Where(NamedTuple):
    """The flags that name the target; at most one of them is given."""

    bootstrap: str | None = None
    data_dir: Path | None = None
    tier_nodes: int | None = None
    """How many nodes a throw-away tier has."""


class Target(NamedTuple):
    kafka: ClientProperties
    software: str = ""
    pids: Callable[[], list[int]] | None = None
    """Finds the target's processes, which are looked at during the run; None: they are not known."""
    data_dir: Path | None = None
    """The data directory of a tier on this machine."""


@contextmanager
def target(where: Where, command_config: Path | None) -> Iterator[Target]:
    """Find the target, or start it: a throw-away tier is gone afterwards. Raises TierError."""
    from cluster.groups.properties import names_bootstrap, properties

    if sum(given is not None for given in where) > 1:
        raise TierError("one of --bootstrap, --data-dir and --tier says where, not several")
    if where.tier_nodes is not None:
        with _throw_away(where.tier_nodes) as tier:
            bootstrap = ",".join(f"127.0.0.1:{tier.port + number}" for number in range(where.tier_nodes))
            yield Target(
                properties(bootstrap, command_config),
                f"{_groupd()}, {where.tier_nodes} node(s)",
                lambda: [process.pid for process in tier.processes()],
                tier.data_dir,
            )
        return
    if where.data_dir is not None:
        yield _of(where.data_dir, command_config)
        return
    is_named = where.bootstrap is not None or names_bootstrap(command_config)
    kafka = properties(where.bootstrap if is_named else BOOTSTRAP_DEFAULT, command_config)
    _ = kafka.addresses  # raises before anything is written
    yield Target(kafka)


def _of(data_dir: Path, command_config: Path | None) -> Target:
    """The tier that runs in a directory; in a Ray cluster of its own its processes may be anywhere."""
    from bench.ground.throwaway import family
    from cluster.groups.properties import properties

    tier, running = require_running(data_dir)
    pid = running.pid
    return Target(
        properties(running.bootstrap, command_config),
        f"{_groupd()}, {len(tier.nodes)} node(s)",
        None if pid is None else lambda: [process.pid for process in family(pid)],
        data_dir,
    )


@contextmanager
def _throw_away(nodes: int) -> Iterator[Tier]:
    from bench.ground.throwaway import Tier

    flags = ("--nodes", str(nodes), "--replicas", str(min(nodes, COPIES_MAX)))
    with ExitStack() as stack:
        try:
            tier = stack.enter_context(Tier(*flags, nodes=nodes))
        except RuntimeError as error:
            raise TierError(f"no tier comes up: {error}") from None
        yield tier


def _groupd() -> str:
    return f"groupd {version('groupd')}"
