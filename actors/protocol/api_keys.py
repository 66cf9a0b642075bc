"""Kafka's API keys, as plain ints: compared on every request."""

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
SASL_HANDSHAKE = 17
API_VERSIONS = 18
CREATE_TOPICS = 19
DELETE_TOPICS = 20
DELETE_RECORDS = 21
INIT_PRODUCER_ID = 22
OFFSET_FOR_LEADER_EPOCH = 23
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
WRITE_TXN_MARKERS = 27
TXN_OFFSET_COMMIT = 28
DESCRIBE_ACLS = 29
CREATE_ACLS = 30
DELETE_ACLS = 31
DESCRIBE_CONFIGS = 32
ALTER_CONFIGS = 33
DESCRIBE_LOG_DIRS = 35
SASL_AUTHENTICATE = 36
CREATE_PARTITIONS = 37
DELETE_GROUPS = 42
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
OFFSET_DELETE = 47
DESCRIBE_CLIENT_QUOTAS = 48
ALTER_CLIENT_QUOTAS = 49
DESCRIBE_USER_SCRAM_CREDENTIALS = 50
ALTER_USER_SCRAM_CREDENTIALS = 51
UPDATE_FEATURES = 57
DESCRIBE_CLUSTER = 60
DESCRIBE_PRODUCERS = 61
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
CONSUMER_GROUP_HEARTBEAT = 68
CONSUMER_GROUP_DESCRIBE = 69
GET_TELEMETRY_SUBSCRIPTIONS = 71
LIST_CONFIG_RESOURCES = 74
DESCRIBE_TOPIC_PARTITIONS = 75
CONSUMER_GROUP_PREPARE_ASSIGNMENT = 20_000
"""A request of our own, as is the next one: members that assign make them (A9, A10)."""
CONSUMER_GROUP_INSTALL_ASSIGNMENT = 20_001
REGISTER_CONSUMER = 20_010
"""A request of our own, as are the next three, which the coordinator sends to its consumers (D3, D4, D5)."""
PING = 20_011
STOP_FETCHER = 20_012
START_FETCHER = 20_013

NAMES = {key: name.lower() for name, key in list(globals().items()) if name.isupper()}
"""API key -> Kafka's schema name in snake case."""
SCHEMA_NAMES = {key: "".join(part.capitalize() for part in name.split("_")) for key, name in NAMES.items()}
"""API key -> Kafka's schema name, "JoinGroup"."""
CHANNEL_CLOSED = -20
"""The number that stands for an API key where a leader tells its shard that a consumer's connection has gone:
no client can ask so."""
PUSHED = (PING, STOP_FETCHER, START_FETCHER)
"""The requests that a coordinator makes of its consumers, and no client of a coordinator."""
OWN_FROM = 20_000
"""The first of the keys of our own requests: Kafka's are below 1,000, and its clients pass over keys that
they do not know."""
