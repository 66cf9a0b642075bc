"""Answer GetTelemetrySubscriptions as a Kafka broker without a plug-in that takes metrics (KIP-714).

Such a broker does not advertise the request, so clients send it only if they do not look. It asks for no
metric and gives the client an id.
"""

from __future__ import annotations

import uuid
import zlib
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.api.context import BrokerContext
from actors.catalog import codec
from actors.protocol.api_keys import GET_TELEMETRY_SUBSCRIPTIONS
from actors.protocol.header import Header

PUSH_INTERVAL: Final = timedelta(minutes=5)
TELEMETRY_BYTES_MAX: Final = 1_048_576
ZSTD, LZ4, GZIP, SNAPPY = 4, 3, 1, 2


async def get_telemetry_subscriptions(context: BrokerContext, header: Header, entity: Any) -> Any:
    client_id = entity.client_instance_id or uuid.uuid4()
    return codec.build(
        codec.response_class(GET_TELEMETRY_SUBSCRIPTIONS, header.api_version),
        error_code=ErrorCode.none,
        client_instance_id=client_id,
        subscription_id=zlib.crc32(client_id.bytes) - 2**31,
        accepted_compression_types=(ZSTD, LZ4, GZIP, SNAPPY),
        push_interval=PUSH_INTERVAL,
        telemetry_max_bytes=TELEMETRY_BYTES_MAX,
        delta_temporality=True,
        requested_metrics=(),
    )
