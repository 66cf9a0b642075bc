"""Every bound of the tier in one place, related by asserts (sizes in bytes, times in milliseconds)."""

MIB = 1024 * 1024

FRAME_BYTES_MAX = 100 * MIB
"""The largest request or answer: Kafka's `socket.request.max.bytes`."""
FIRST_FRAME_FREE_BYTES = 16 * 1024
"""How much a connection may send without asking that has not yet shown itself to be a Kafka client, by a
valid ApiVersions or any valid request. Nearly all first requests are smaller."""
FIRST_FRAMES_BYTES_MAX = 128 * MIB
"""How much the larger first frames of all such connections of a node may have together. What goes beyond it
waits with its client."""
SASL_FRAME_BYTES_MAX = 512 * 1024
"""The largest frame of a client that has yet to authenticate: Kafka's `sasl.server.max.receive.size`."""
CONNECTION_BUFFER_BYTES_MAX = 1 * MIB
"""How much may be read ahead of the request that is being answered before reading pauses (a frame may exceed
it)."""
WRITE_BUFFER_BYTES_MAX = 8 * MIB
"""How much of one connection's answers may be unsent before reading from it pauses."""

CLASSIC_PENDING_MEMBERS_MAX = 100_000
"""How many member ids of one classic group may be handed out (MEMBER_ID_REQUIRED) and not used yet; beyond it
new members are refused (GROUP_MAX_SIZE_REACHED). Kafka has no such bound."""
MEMBER_NAME_CHARACTERS_MAX = 8_000
"""How many characters of a client id (or instance id) the id of a new classic member begins with. Either may
have 32,767 bytes, and so may an id in an answer, but not both and a UUID."""
assert 4 * MEMBER_NAME_CHARACTERS_MAX + 37 <= 0x7FFF

RAFT_FRAME_BYTES_MAX = 64 * MIB
RAFT_ENTRY_BYTES_MAX = 32 * MIB
"""The largest Raft entry, as `storage.raft.raft` bounds it."""
RAFT_BATCH_BYTES_MAX = 8 * MIB
"""The size that an entry has when no further decision is put into it. What is left of it is for the last
decision's records: up to 24 MiB of them are never cut over two entries, of which a crash might leave one."""
MEMBER_FRAME_BYTES_MAX = 12 * MIB
"""The largest request whose metadata or assignment becomes part of one member's record. Kafka's own bound is
that of a record in its offsets topic, 1 MiB by default."""
RAFT_PENDING_BYTES_MAX = 64 * MIB
"""How much may be proposed and not yet committed; beyond it requests are refused
(COORDINATOR_NOT_AVAILABLE)."""
LONG_WORKS_MAX = 16
"""How many long works of one replica may be under way; beyond it a request that needs another one is refused
(COORDINATOR_NOT_AVAILABLE)."""
SNAPSHOT_CHUNK_BYTES = 1 * MIB
TRANSPORT_QUEUE_BYTES_MAX = 128 * MIB
"""How much may be unsent to one peer before the connection is dropped (Raft repairs what was lost)."""
CONFIG_VALUE_BYTES_MAX = 32_767
"""The largest value of a group's configs, as in Kafka's records."""
CONFIGURED_GROUPS_MAX = 100_000
"""How many groups may have configs of their own: each is in every metadata image."""
HANDED_BYTES_MAX = 8 * MIB
"""How large a group may be that is handed out to a member that assigns it, and what its assignor has for the
members."""
PLUG_IN_THREADS_MAX = 4
"""How many groups of one replica plug-ins may assign at the same time, calls that never come back
included."""
REGEX_MATCHES_PER_TURN_MAX = 1_000
"""How many topics the timer compares with one regular expression each time that it fires: a few milliseconds
of work."""
DELETED_TOPICS_REMEMBERED_MAX = 10_000
"""How many deleted topics a follower remembers, in case it is elected before their offsets are gone (O16)."""

assert FIRST_FRAME_FREE_BYTES < SASL_FRAME_BYTES_MAX < FRAME_BYTES_MAX
assert FRAME_BYTES_MAX + MIB < FIRST_FRAMES_BYTES_MAX, "the largest first frame must fit"
assert RAFT_BATCH_BYTES_MAX <= RAFT_ENTRY_BYTES_MAX // 4
assert 2 * MEMBER_FRAME_BYTES_MAX + MIB < RAFT_ENTRY_BYTES_MAX, "metadata and assignment make one record"
assert RAFT_ENTRY_BYTES_MAX + MIB < RAFT_FRAME_BYTES_MAX, "an entry must fit a frame"
assert RAFT_ENTRY_BYTES_MAX < RAFT_PENDING_BYTES_MAX
assert SNAPSHOT_CHUNK_BYTES < RAFT_FRAME_BYTES_MAX
assert RAFT_FRAME_BYTES_MAX < TRANSPORT_QUEUE_BYTES_MAX

DESCRIBED_PARTITIONS_MAX = 2_000
"""How many partitions one answer to DescribeTopicPartitions has, Kafka's max.request.partition.size.limit."""
RECORD_ERRORS_MAX = 1_000
"""How many records of a refused batch the answer to Produce names. Kafka names all of them."""
FETCH_SESSIONS_BYTES_MAX = 128 * MIB
"""About how much memory the fetch sessions of one broker may take: those of 300,000 partitions. Kafka bounds
their number only."""
TOPICS_BEING_CREATED_MAX = 1_000
"""How many topics one broker may be creating because somebody asked for their metadata; who asks for others
meanwhile asks again."""
ACLS_MAX = 10_000
CREDENTIALS_MAX = 10_000
"""How many credentials the tier may have; every actor holds them all, and gets them all with each change of
metadata."""

OFFSETS_STATE_BYTES_MAX = 256 * MIB
"""How large the state of one offsets partition may be, in Kafka's records, for an internal topic to be
read; beyond it reading is refused (KAFKA_STORAGE_ERROR)."""
GIVEN_STATE_BYTES_MAX = 4_096 * MIB
"""How large it may be for brokers of a cluster upstream to be given it: one partition after the other."""
OFFSETS_TAIL_BYTES_MAX = 64 * MIB
"""How much may follow the state in the log of a partition of an internal topic before the log starts anew
with the state of then."""
OFFSETS_TAIL_BATCHES_MAX = 50_000
"""How many batches may follow the state, as OFFSETS_TAIL_BYTES_MAX says for bytes."""
FEED_PENDING_BYTES_MAX = 64 * MIB
"""How much may be committed and not yet fetched by the node's broker before a feed ends: whoever reads
the internal topic then meets OFFSET_OUT_OF_RANGE once."""
FEED_ANSWER_BYTES_MAX = 1 * MIB
"""The size from which an answer of a feed takes no further piece; a piece may be an entry as large as
RAFT_ENTRY_BYTES_MAX."""

assert RAFT_ENTRY_BYTES_MAX < FEED_PENDING_BYTES_MAX, "what one entry commits must fit"

FOREIGN_BYTES_MAX = 64 * MIB
"""How many bytes of records one offsets partition keeps that it took over from Kafka and does not know."""
UNPACKED_BYTES_MAX = 128 * MIB
"""How large the records of one compressed batch of Kafka's log may be: Kafka's own bound is that of the
compressed ones, 1 MiB by default."""
TAKEN_RECORDS_MAX = 1_000
"""How many records of Kafka's log are decided in one go: some milliseconds of work."""

LOG_FILE_BYTES_MAX = 8 * MIB
LOG_FILES_MAX = 3
"""How many log files each actor keeps."""

REMEMBERED_HEARTBEAT_BYTES_MAX = 512
"""The largest heartbeat that a connection remembers, so that the next one need not be decoded."""
KNOWN_REQUESTS_MAX = 128
"""How many commits a connection remembers, so that the next ones are not decoded: several members may share
one."""
KNOWN_REQUEST_BYTES_MAX = 128 * 1_024
"""How many bytes all of them have together. What is remembered of one takes as much, and 1.5 KB."""
KNOWN_ANSWER_BYTES_MAX = 4 * 1_024
"""The largest answer to a fetch that is remembered beside it: some 160 partitions."""
REMEMBERED_HEARTBEATS_MAX = 128
"""How many heartbeats, of as many members, one connection remembers."""
LANE_CONNECTIONS_MAX = 20_000
"""How many connections of one leader may have their heartbeats repeated."""
LANE_HEARTBEATS_MAX = 20_000
"""How many heartbeats of one leader may be repeated: a kilobyte each."""
LANE_COMMITS_MAX = 20_000
"""How many layouts of commits of one leader may be taken together: two kilobytes each."""
HELD_LOOKS_PER_TURN_MAX = 100
"""How many held heartbeats are looked at, or answered, before requests are served again."""
FRAMES_PER_TURN_MAX = 128
"""How many pipelined requests of one connection are served before those of other connections."""
ROUND_MS_MAX = 20
"""How long all clients together may keep an actor's loop busy before its Raft and its links go on. It is far
below the shortest election time-out, and enough for a thousand heartbeats."""
QUEUED_BYTES_MAX = 4 * 1024
"""How much is read from a connection that waits to be served, about as much as is served at once. The rest
stays in the kernel, and in the end with the client."""
FIRST_FRAME_MS_MAX = 30_000
"""How long a new connection may take to send its first whole frame."""
HISTORY_GROUPS_MAX = 10_000
"""How many groups' past a leader remembers, for `groupd explain` and `groupd top`."""
HISTORY_EVENTS_PER_GROUP_MAX = 64
HISTORY_BYTES_MAX = 16 * MIB
UNPROVEN_CONNECTIONS_MAX = 4096
"""How many accepted connections may not have sent a whole frame yet: with what each may send without asking,
64 MiB in all."""
HANDSHAKES_MAX = 1024
"""How many accepted connections may not have got through TLS yet."""
HANDSHAKE_MS_MAX = 10_000
"""How long a client may take to get through TLS."""

assert HANDSHAKES_MAX < UNPROVEN_CONNECTIONS_MAX
assert HANDSHAKE_MS_MAX < FIRST_FRAME_MS_MAX

LINK_FRAME_BYTES_MAX = FRAME_BYTES_MAX + 4 * MIB
"""The largest message between a broker and a replica of its node: a frame, what was read ahead of it, who
sent it."""
LINK_QUEUE_BYTES_MAX = 256 * MIB
"""How much may be unsent on one such link before the link is dropped (the replica connects again)."""
ANSWER_TIMEOUT_S = 5.0
"""How long, in seconds, another actor's answer is waited for; what was not answered is asked again."""
LINK_GREETING_BYTES_MAX = 4096
"""The largest message on a link before the other side has proved that it knows the tier's secret."""

assert FRAME_BYTES_MAX + 2 * CONNECTION_BUFFER_BYTES_MAX < LINK_FRAME_BYTES_MAX, "a hand-over must fit"
assert LINK_FRAME_BYTES_MAX < LINK_QUEUE_BYTES_MAX
assert RAFT_ENTRY_BYTES_MAX + 2 * FEED_ANSWER_BYTES_MAX < LINK_FRAME_BYTES_MAX, "an answer of a feed must fit"

METADATA_TRANSACTION_BYTES_MAX = 256 * MIB
"""The most bytes of records that an open transaction of an upstream cluster's metadata log may have.
Controllers use transactions for the first records of a cluster, and for nothing large."""
METADATA_BATCH_BYTES_MAX = 64 * MIB
"""The largest batch of an upstream cluster's metadata log, eight times what Kafka's controllers write."""
METADATA_SNAPSHOT_CHUNK_BYTES = MIB // 4
"""How much of a snapshot of that log is asked for at once."""

FORWARDING_CONNECTIONS_MAX = 16
"""How many connections a node has to the brokers of an upstream cluster for requests that it passes on."""
FORWARDED_MAX = 1_000
"""How many such requests may wait for a connection, or for their answer."""
FORWARDED_BYTES_MAX = 128 * MIB
"""How large all of them may be together."""

assert FRAME_BYTES_MAX < FORWARDED_BYTES_MAX, "the largest request must fit"
