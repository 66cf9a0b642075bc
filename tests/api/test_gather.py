"""The answers of several leaders become one."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from actors.api.gather import gathered
from actors.catalog import codec
from actors.protocol import api_keys
from actors.protocol.header import Header
from actors.protocol.messages import ListedGroup, ListGroupsRequest, ListGroupsResponse
from actors.protocol.transaction_messages import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsResponse,
)

VERSIONS = range(6)
NO_TIME_MS = -1


def _list(version: int, *names: str, error: ErrorCode = ErrorCode.none) -> bytes:
    groups = tuple(ListedGroup(name, "consumer", "Stable", "classic") for name in names)
    return codec.encode(api_keys.LIST_GROUPS, version, 7, ListGroupsResponse(error, groups))


def _gathered(version: int, *answers: bytes) -> bytes:
    header = Header(api_keys.LIST_GROUPS, version, 7, "client")
    return gathered(header, ListGroupsRequest(), answers)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_lists_of_all_leaders_are_one_list(version: int) -> None:
    many = [f"group-{number}" for number in range(300)]
    gathered = _gathered(version, _list(version, "a"), _list(version), _list(version, *many))
    assert gathered == _list(version, "a", *many)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_does_not_lead_any_more_has_no_groups(version: int) -> None:
    fallen = _list(version, error=ErrorCode.not_coordinator)
    assert _gathered(version, fallen, _list(version, "a")) == _list(version, "a")
    assert _gathered(version, fallen, fallen) == _list(version), "W9: as for one who leads nothing"


@pytest.mark.parametrize("version", VERSIONS)
def test_any_other_error_fails_the_whole_list(version: int) -> None:
    """This is rule W9."""
    loading = _list(version, error=ErrorCode.coordinator_load_in_progress)
    assert _gathered(version, _list(version, "a"), loading) == loading


def _transactions(*ids: str, error: ErrorCode = ErrorCode.none) -> bytes:
    states = tuple(ListedTransaction(each, 7, "Ongoing") for each in ids)
    return codec.encode(api_keys.LIST_TRANSACTIONS, 1, 7, ListTransactionsResponse(error, states, ("Odd",)))


def test_lists_of_transactions_are_joined_as_those_of_groups_are() -> None:
    header = Header(api_keys.LIST_TRANSACTIONS, 1, 7, "client")
    a, b = _transactions("a"), _transactions("b", "c")
    fallen = _transactions(error=ErrorCode.not_coordinator)
    loading = _transactions(error=ErrorCode.coordinator_load_in_progress)
    for answers, joined in (
        ((a, fallen, b), _transactions("a", "b", "c")),
        ((fallen, fallen), _transactions()),
        ((a, fallen, loading), loading),
    ):
        assert gathered(header, None, answers) == joined


def test_transactional_ids_without_a_transaction_are_described_together() -> None:
    """Nothing has begun, so the time of its beginning is -1 (O19): the answer could not be read on its way,
    and the client's connection was closed."""
    described = [
        DescribedTransaction(ErrorCode.none, name, transaction_start_time_ms=NO_TIME_MS) for name in "ab"
    ]
    answers = [
        codec.encode(api_keys.DESCRIBE_TRANSACTIONS, 0, 7, DescribeTransactionsResponse((each,)))
        for each in described
    ]
    header = Header(api_keys.DESCRIBE_TRANSACTIONS, 0, 7, "client")
    joined = gathered(header, DescribeTransactionsRequest(("a", "b")), answers)
    assert joined == codec.encode(
        api_keys.DESCRIBE_TRANSACTIONS, 0, 7, DescribeTransactionsResponse(tuple(described))
    )
