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

CLASSIC_PENDING_MEMBERS_MAX = 100_000
"""Member ids one classic group has handed out (MEMBER_ID_REQUIRED) and that are not used yet; beyond it new
members are refused (GROUP_MAX_SIZE_REACHED). Kafka has no such bound."""

RAFT_FRAME_BYTES_MAX = 64 * MIB
RAFT_ENTRY_BYTES_MAX = 32 * MIB
"""One Raft entry, as `storage.raft` bounds it."""
RAFT_BATCH_BYTES_MAX = 8 * MIB
"""Decisions share an entry until it holds more than this. What is left of it is for the last one's records:
up to 24 MiB of them are never cut over two entries, of which a crash might leave one."""
MEMBER_FRAME_BYTES_MAX = 12 * MIB
"""A request whose metadata or assignment becomes part of one member's record. Kafka's own bound is that of a
record in its offsets topic, 1 MiB by default."""
RAFT_PENDING_BYTES_MAX = 64 * MIB
"""Proposed and not yet committed; beyond it requests are refused (COORDINATOR_NOT_AVAILABLE)."""
SNAPSHOT_CHUNK_BYTES = 1 * MIB
TRANSPORT_QUEUE_BYTES_MAX = 128 * MIB
"""Unsent to one peer before the connection is dropped (Raft repairs what was lost)."""
DELETED_TOPICS_REMEMBERED_MAX = 10_000
"""Topics whose deletion a follower saw, in case it is elected before their offsets are gone (O16)."""

assert FIRST_FRAME_BYTES_MAX < FRAME_BYTES_MAX
assert RAFT_BATCH_BYTES_MAX <= RAFT_ENTRY_BYTES_MAX // 4
assert 2 * MEMBER_FRAME_BYTES_MAX + MIB < RAFT_ENTRY_BYTES_MAX, "metadata and assignment make one record"
assert RAFT_ENTRY_BYTES_MAX + MIB < RAFT_FRAME_BYTES_MAX, "an entry must fit a frame"
assert RAFT_ENTRY_BYTES_MAX < RAFT_PENDING_BYTES_MAX
assert SNAPSHOT_CHUNK_BYTES < RAFT_FRAME_BYTES_MAX
assert RAFT_FRAME_BYTES_MAX < TRANSPORT_QUEUE_BYTES_MAX

LOG_FILE_BYTES_MAX = 8 * MIB
LOG_FILES_MAX = 3
"""Of each actor."""

REMEMBERED_HEARTBEAT_BYTES_MAX = 512
"""Of each connection: its last heartbeat, so that the next one need not be decoded."""
FRAMES_PER_TURN_MAX = 128
"""Pipelined requests of one connection that are served before the other connections have their turn."""
FIRST_FRAME_MS_MAX = 30_000
"""How long a new connection may take to send its first whole frame."""
UNPROVEN_CONNECTIONS_MAX = 4096
"""Accepted connections that have not sent a whole frame yet."""
LINK_FRAME_BYTES_MAX = FRAME_BYTES_MAX + 4 * MIB
"""One message between a broker and a replica of its node: a frame, what was read ahead of it, who sent it."""
LINK_QUEUE_BYTES_MAX = 256 * MIB
"""Unsent on one such link before the link is dropped (the replica connects again)."""
LINK_GREETING_BYTES_MAX = 4096
"""Before the other side has proved that it knows the tier's secret."""

assert FRAME_BYTES_MAX + 2 * CONNECTION_BUFFER_BYTES_MAX < LINK_FRAME_BYTES_MAX, "a hand-over must fit"
assert LINK_FRAME_BYTES_MAX < LINK_QUEUE_BYTES_MAX
