"""Answer UpdateFeatures (KIP-584): the controller changes levels of features, all of a request or none."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.api.context import IMAGE_WAIT_S, BrokerContext
from actors.catalog import codec
from actors.ground.features import UPGRADE
from actors.metadata.commands import FeatureUpdate, UpdateFeatures
from actors.protocol.header import Header

RESULTS_UNTIL: Final = 1
"""The last version whose answer has an entry for each feature."""


async def update_features(context: BrokerContext, header: Header, entity: Any) -> Any:
    """Change levels, and answer once this broker tells them. The first version's `allow_downgrade` has no
    effect, as in Kafka."""
    updates = tuple(
        FeatureUpdate(each.feature, each.max_version_level, getattr(each, "upgrade_type", UPGRADE))
        for each in entity.feature_updates
    )
    validate_only = getattr(entity, "validate_only", False)
    outcome = await context.submit(UpdateFeatures(updates, validate_only))
    if not outcome.error_code and not validate_only:
        wanted = {update.name: update.level for update in updates}
        await context.wait_for_image(
            lambda image: all(image.features.level(name) == level for name, level in wanted.items()),
            IMAGE_WAIT_S,
        )
    version = header.api_version
    results: dict[str, Any] = {}
    if version <= RESULTS_UNTIL:
        result_class = codec.nested(header.api_key, version, "UpdatableFeatureResult")
        names = [] if outcome.error_code else [update.name for update in updates]
        results["results"] = tuple(
            codec.build(result_class, feature=name, error_code=ErrorCode.none, error_message=None)
            for name in names
        )
    return codec.build(
        codec.response_class(header.api_key, version),
        error_code=ErrorCode(outcome.error_code),
        error_message=outcome.error_message,
        **results,
    )
