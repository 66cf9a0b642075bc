"""What a node keeps on disk of its place in the upstream cluster: `upstream.json` in its directory.

A process that starts again with the same incarnation is taken for the one before: at once, with its epoch and
its leaderships. With another one it has to wait until the old session has run out. So the incarnation is
kept, and a directory belongs to one broker id of one cluster. But one that has shut down in a controlled way
is over: the controller would never have it lead again. So that node comes back as another one.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.upstream.node import is_reserved
from storage.raft.disk import Disk

NAME: Final = "upstream.json"
FORMAT: Final = 1
"""The format that this code writes; a newer one is refused."""
_UUID_BYTES: Final = 16


class IdentityRefused(Exception):
    """Raised if the file is damaged, or another node's; the text names the file and says what to do."""


class Identity(NamedTuple):
    """The content of upstream.json."""

    cluster_id: str
    broker_id: int
    incarnation_id: bytes
    broker_epoch: int = -1
    """The last epoch that the controller gave; -1 if there was none yet."""


def read(directory: Path) -> Identity | None:
    """Return what a directory says; None if it says nothing yet. Raises IdentityRefused."""
    path = directory / NAME
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise IdentityRefused(f"{path} has format {content['format']}; this groupd reads {FORMAT}")
        incarnation_id = bytes.fromhex(content["incarnation_id"])
        if len(incarnation_id) != _UUID_BYTES or is_reserved(incarnation_id):
            raise ValueError(f"{content['incarnation_id']!r} is no incarnation id")
        return Identity(
            str(content["cluster_id"]),
            int(content["broker_id"]),
            incarnation_id,
            int(content["broker_epoch"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IdentityRefused(
            f"{path} cannot be read: {error!r}; remove it, and the node waits once until its session "
            "upstream has run out"
        ) from error


def write(directory: Path, identity: Identity) -> None:
    """Replace the file in one step; it is on disk when this returns. Raises OSError."""
    disk = Disk()
    disk.make_directory(str(directory))
    partial = str(directory / f"{NAME}.partial")
    with contextlib.suppress(FileNotFoundError):
        disk.remove(partial)
    file = disk.open_append(partial)
    try:
        file.append(json.dumps(_content(identity), indent=2).encode() + b"\n")
        file.sync()
    finally:
        file.close()
    disk.rename(partial, str(directory / NAME))
    disk.sync_directory(str(directory))


def of_node(directory: Path, cluster_id: str, broker_id: int, new_incarnation_id: bytes) -> Identity:
    """Return the node's identity, which is written with `new_incarnation_id` if there is none. Raises
    IdentityRefused, also if the directory belongs to another broker; OSError."""
    kept = read(directory)
    if kept is None:
        made = Identity(cluster_id, broker_id, new_incarnation_id)
        write(directory, made)
        return made
    if (kept.cluster_id, kept.broker_id) != (cluster_id, broker_id):
        raise IdentityRefused(
            f"{directory / NAME} belongs to broker {kept.broker_id} of cluster {kept.cluster_id}, not to "
            f"broker {broker_id} of cluster {cluster_id}: use that node's settings, or another directory"
        )
    return kept


def renewed(directory: Path, kept: Identity, new_incarnation_id: bytes) -> Identity:
    """Return the identity of the same broker as a new incarnation, once that is on disk. Raises OSError."""
    made = kept._replace(incarnation_id=new_incarnation_id)
    write(directory, made)
    return made


def _content(identity: Identity) -> dict[str, Any]:
    return {"format": FORMAT, **identity._asdict(), "incarnation_id": identity.incarnation_id.hex()}
