"""One replica in a process of its own: `python -m tests.faults.process <root> <run dir> <replica id>`.

It is what the offsets partition's actor is made of (host, Raft, shard, connections, group server), without
Ray and without a broker: clients come straight to a Unix socket. A second socket tells the supervisor how the
replica does. The process ends with its supervisor, whose end closes the standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import socket
import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import uvloop

from actors.catalog.headers import parse_header
from actors.coordinator.shard import CoordinatorShard
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.records import RECORD_TYPES
from actors.leader.group_server import ElsewhereError, GroupServer, Share
from actors.network.connection import LATER, Connection
from actors.network.quota import ConnectionLimits
from actors.network.table import ConnectionTable
from actors.protocol.errors import MalformedRequest, UnsupportedRequest
from actors.protocol.partitioning import partitioning_now
from actors.replica.entry import RecordType
from actors.replica.host import ReplicaHost
from storage.raft.errors import StorageError
from storage.raft.raft import Raft
from tests.coordinator.batches import one_by_one
from tests.faults.shape import GROUP, PAIRS, TOPIC, clients_socket, control_socket, spec_of

IMAGE = MetadataImage(version=1, topics=(TopicImage(bytes(15) + b"\x01", TOPIC, (1,) * (2 * PAIRS)),))
CLIENT = ClientIdentity("/127.0.0.1", "a Unix socket")
EXIT_REFUSED = 3
"""The replica could not start; the last line of its log says why."""


class ReplicaProcess:
    """The host and what surrounds it. All on one loop, as in the actor."""

    def __init__(self, root: Path, run_dir: Path, replica_id: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._clients_path = clients_socket(run_dir, replica_id)
        self._control_path = control_socket(run_dir, replica_id)
        spec = spec_of(root, run_dir, replica_id)
        self._host = ReplicaHost(
            spec,
            GROUP,
            replica_id,
            new_shard=lambda: CoordinatorShard(spec.groups, lambda: str(uuid.uuid4()), IMAGE),
            record_types={kind: RecordType(*types) for kind, types in RECORD_TYPES.items()},
            release=lambda token, body: self._server.release(token, body),
            on_events=lambda events: None,
            on_turn=lambda: None,
        )
        self._server = GroupServer(
            self._host.replica, Share(0, partial(partitioning_now, spec)), self._host.now_ms
        )
        self._table = ConnectionTable(self._loop, ConnectionLimits())
        self._host.let_clients_go = self._table.cut_off
        self._commands: dict[str, Callable[[dict[str, Any]], Any]] = {
            "status": self._status,
            "state": self._state,
            "members": self._members,
        }

    async def start(self) -> None:
        """Start the replica and its sockets. Raises what the host raises when the disk must not be used."""
        await self._host.start()
        listener = _listen(self._clients_path)
        self._loop.add_reader(listener.fileno(), self._accept, listener)
        self._control_path.unlink(missing_ok=True)
        self._control = await asyncio.start_unix_server(self._serve_control, str(self._control_path))

    # Clients (network.connection.Service).

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):  # gone again already
            client, _ = listener.accept()
            client.setblocking(False)
            self._table.adopt(client, b"", CLIENT, self)

    def on_frame(self, connection: Connection, frame: bytes) -> bytes | None:
        try:
            header, body_offset = parse_header(frame)
            answered, _ = self._server.serve(header, frame, body_offset, connection)
        except (ElsewhereError, MalformedRequest, UnsupportedRequest) as error:
            connection.close(repr(error))
            return LATER
        if answered is None or self._host.replica.can_flush:
            self._host.wake()
        return answered

    def on_more(self, connection: Connection) -> None:
        """Do nothing: no request of a connection is held back."""

    def on_closed(self, connection: Connection) -> None:
        """Do nothing: commits that the connection sent go on without it."""

    # The supervisor.

    async def _serve_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = json.loads(await reader.readline())
            answer = self._commands[request["command"]](request)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError):
            logging.getLogger("groupd.faults").info("the supervisor hung up")
        finally:
            writer.close()

    @property
    def _raft(self) -> Raft:
        assert self._host.raft is not None, "control is served once the host has started"
        return self._host.raft

    def _status(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return Raft's status, and whether clients are answered."""
        return self._raft.status() | {
            "answers": self._host.replica.serving and self._raft.has_lease(),
            "loop_syncs": self._raft._core.journal._speed.is_light,
        }

    def _members(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take {member id: node id} for the target of the membership, as the tier's controller would say."""
        self._host.set_members(request["target"])
        return self._status(request)

    def _state(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the replicated state at `applied_index`; `settled` means that nothing is under way."""
        raft, replica = self._raft, self._host.replica
        records = sorted(msgpack.packb(record) for record in one_by_one(replica.shard.records()))
        shard = replica.shard
        assert isinstance(shard, CoordinatorShard)
        offsets = {
            group_id: {partition: committed.offset for (_, partition), committed in sorted(held.items())}
            for group_id, held in shard.state.offsets.items()
        }
        return {
            "applied_index": raft.applied_index,
            "settled": replica.is_committed and raft.applied_index == raft.commit_index == raft.last_index,
            "digest": hashlib.sha256(b"".join(records)).hexdigest(),
            "offsets": offsets,
        }


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.setblocking(False)
    listener.bind(str(path))
    listener.listen(64)
    return listener


async def main(root: Path, run_dir: Path, replica_id: int) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    process = ReplicaProcess(root, run_dir, replica_id)
    try:
        await process.start()
    except (StorageError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(EXIT_REFUSED)
    supervisor_gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), supervisor_gone.set)
    await supervisor_gone.wait()
    os._exit(0)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
