"""The answer that refuses a request as a whole, for those who have no shard to ask: brokers, say."""

from __future__ import annotations

from typing import Any

from actors.coordinator.areas import areas
from actors.coordinator.ground.refusals import coordinator_error
from actors.coordinator.kinds import KINDS
from actors.ground.contract import Request

_REFUSALS = areas(KINDS).refusals
assert set(areas(KINDS).handlers) == set(_REFUSALS), "whatever is answered can be refused"


def refusal(request: Request, error_code: int, message: str | None = None) -> Any:
    """The response body that refuses `request` with `error_code`; `message` where the answer has a place.

    Raises KeyError for an API that no coordinator answers.
    """
    return _REFUSALS[request.api_key](request, coordinator_error(error_code), message)
