"""Every bound of the tier in one place, related by asserts (sizes in bytes, times in milliseconds)."""

MIB = 1024 * 1024

FRAME_BYTES_MAX = 100 * MIB
"""Kafka's `socket.request.max.bytes`."""
FIRST_FRAME_BYTES_MAX = 64 * 1024
"""Before a connection has shown itself to be a Kafka client by a valid ApiVersions or any valid request."""
CONNECTION_BUFFER_BYTES_MAX = 1 * MIB
"""What may be read ahead of the request being answered before reading pauses (a frame may exceed it)."""
WRITE_BUFFER_BYTES_MAX = 8 * MIB
"""Unsent answers of one connection before its reading pauses."""

RAFT_FRAME_BYTES_MAX = 64 * MIB
RAFT_BATCH_BYTES_MAX = 8 * MIB
"""One Raft entry; a bigger batch is split."""
RAFT_PENDING_BYTES_MAX = 64 * MIB
"""Proposed and not yet committed; beyond it requests are refused (COORDINATOR_NOT_AVAILABLE)."""
SNAPSHOT_CHUNK_BYTES = 1 * MIB
TRANSPORT_QUEUE_BYTES_MAX = 128 * MIB
"""Unsent to one peer before the connection is dropped (Raft repairs what was lost)."""

assert FIRST_FRAME_BYTES_MAX < FRAME_BYTES_MAX
assert RAFT_BATCH_BYTES_MAX + MIB < RAFT_FRAME_BYTES_MAX, "an entry must fit a frame"
assert RAFT_BATCH_BYTES_MAX < RAFT_PENDING_BYTES_MAX
assert SNAPSHOT_CHUNK_BYTES < RAFT_FRAME_BYTES_MAX
assert RAFT_FRAME_BYTES_MAX < TRANSPORT_QUEUE_BYTES_MAX
