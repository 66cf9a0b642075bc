"""The rows of the APIs of transactional producers. TxnOffsetCommit goes to the group's coordinator, all
others to the transactional id's."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Final

from actors.catalog import transaction_refusals
from actors.catalog.api import Api, Batch, Coordinated, Listing, Server
from actors.protocol import api_keys, transaction_codec
from actors.protocol.transaction_messages import AddPartitionsToTxnResponse, DescribeTransactionsResponse
from actors.security import broker_checks, transaction_checks

TRANSACTIONS: Final = (
    Api(
        api_keys.INIT_PRODUCER_ID,
        0,
        5,
        2,
        # A request with a transactional id is its coordinator's.
        Server.BROKER,
        broker_checks.init_producer_id,
        coordinated=Coordinated(
            transaction_codec.init_producer_id,
            transaction_checks.init_producer_id,
            transaction_refusals.init_producer_id,
            transaction_codec.init_producer_id_answer,
        ),
    ),
    Api(
        api_keys.ADD_PARTITIONS_TO_TXN,
        0,
        5,
        3,
        Server.COORDINATOR,
        coordinated=Coordinated(
            transaction_codec.add_partitions,
            transaction_checks.add_partitions,
            transaction_refusals.add_partitions,
            transaction_codec.add_partitions_answer,
            Batch(
                asked="transactions",
                asked_id=itemgetter(0),
                answered="results",
                answered_id=itemgetter(0),
                answer=AddPartitionsToTxnResponse,
                entity_field="results_by_transaction",
                entity_id="transactional_id",
            ),
        ),
    ),
    Api(
        api_keys.ADD_OFFSETS_TO_TXN,
        0,
        4,
        3,
        Server.COORDINATOR,
        coordinated=Coordinated(
            transaction_codec.add_offsets,
            transaction_checks.add_offsets,
            transaction_refusals.add_offsets,
            transaction_codec.add_offsets_answer,
        ),
    ),
    Api(
        api_keys.END_TXN,
        0,
        5,
        3,
        Server.COORDINATOR,
        coordinated=Coordinated(
            transaction_codec.end,
            transaction_checks.end,
            transaction_refusals.end,
            transaction_codec.end_answer,
        ),
    ),
    Api(
        api_keys.TXN_OFFSET_COMMIT,
        0,
        6,
        3,
        Server.COORDINATOR,
        coordinated=Coordinated(
            transaction_codec.offset_commit,
            transaction_checks.offset_commit,
            transaction_refusals.offset_commit,
            transaction_codec.offset_commit_answer,
        ),
    ),
    Api(
        api_keys.WRITE_TXN_MARKERS,
        1,
        2,
        1,
        # The broker gives each coordinator the markers of its offsets partition.
        Server.BROKER,
        broker_checks.write_markers,
        coordinated=Coordinated(
            transaction_codec.write_markers,
            transaction_checks.write_markers,
            transaction_refusals.write_markers,
            transaction_codec.write_markers_answer,
        ),
    ),
    Api(
        api_keys.DESCRIBE_TRANSACTIONS,
        0,
        0,
        0,
        Server.COORDINATOR,
        coordinated=Coordinated(
            transaction_codec.describe,
            transaction_checks.describe,
            transaction_refusals.describe,
            transaction_codec.describe_answer,
            Batch(
                asked="transactional_ids",
                asked_id=str,
                answered="transactions",
                answered_id=attrgetter("transactional_id"),
                answer=DescribeTransactionsResponse,
                entity_field="transaction_states",
                entity_id="transactional_id",
            ),
        ),
    ),
    Api(
        api_keys.LIST_TRANSACTIONS,
        0,
        2,
        0,
        Server.COORDINATOR,
        coordinated=Coordinated(
            transaction_codec.list_transactions,
            transaction_checks.list_transactions,
            transaction_refusals.list_transactions,
            transaction_codec.list_answer,
            listing=Listing("transactions", "transaction_states"),
        ),
    ),
)
