"""What a machine keeps of itself in its directory: who it is, and which machines there are."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64encode
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from cluster import machine_secret, tier_file
from cluster.machine_moves import Moves, address_now, merged
from cluster.tier_file import TierError

FILE: Final = "machine.json"
MOVES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The content of machine.json."""

    cluster: str
    """The id of the machines that belong together, which the first one made."""
    address: str
    """host:port at which this machine's agent is called."""
    others: tuple[str, ...] = ()
    """The addresses of the others' agents, as far as they are known."""
    moved: Moves = ()
    """The machines, this one too, that have another address now."""


def read(directory: Path) -> Identity | None:
    """Return what a directory says, or None if it is no machine's yet. Raises TierError."""
    path = directory / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        moved = tuple((former, now, at_ms) for former, now, at_ms in content.get("moved", ()))
        return Identity(**{**content, "others": tuple(content["others"]), "moved": moved})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TierError(f"{path} cannot be read: {error!r}") from None


def write(directory: Path, identity: Identity) -> None:
    """Replace machine.json in one step."""
    partial = directory / f"{FILE}.partial"
    content = {name: value for name, value in asdict(identity).items() if name != "moved" or value}
    partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    partial.replace(directory / FILE)


def begin(directory: Path, address: str) -> Identity:
    """Make a directory that of the first machine. Its secret is made too."""
    tier_file.secret(directory, machine_secret.NAME)
    identity = Identity(cluster=new_cluster_id(), address=address)
    write(directory, identity)
    return identity


def new_cluster_id() -> str:
    return urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()


def with_others(identity: Identity, addresses: set[str]) -> Identity:
    """Return the identity with every machine that is known by now, at its present address."""
    everybody = addresses.union(identity.others)
    known = {address_now(identity.moved, address) for address in everybody} - {identity.address}
    return replace(identity, others=tuple(sorted(known)))


def with_moves(identity: Identity, moves: Moves) -> Identity:
    """Return the identity with machines that have another address now, as far as there is room."""
    moved = merged(identity.moved, moves)
    if len(moved) > MOVES_MAX:
        return identity
    return with_others(replace(identity, moved=moved), set())
