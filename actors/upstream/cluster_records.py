"""What records about brokers, controllers and the cluster as a whole change in the followed image. PURE."""

from collections.abc import Callable
from typing import Any, Final

from actors.upstream.image import Broker, ClusterImage, Controller, Endpoint, Levels
from actors.upstream.records import id_bytes, ids_bytes

_FENCED, _UNFENCED = 1, -1
"""What a change says of fencing, or 0 if nothing changes (BrokerRegistrationFencingChange)."""


def _register_broker(image: ClusterImage, fields: Any) -> None:
    # Versions before 3 know nothing of directories, those before 4 nothing of cordons.
    image.brokers[fields.broker_id] = Broker(
        broker_id=fields.broker_id,
        broker_epoch=fields.broker_epoch,
        incarnation_id=id_bytes(fields.incarnation_id),
        endpoints=_endpoints(fields),
        features=_levels(fields),
        rack=fields.rack,
        fenced=fields.fenced,
        in_controlled_shutdown=getattr(fields, "in_controlled_shutdown", False),
        log_dirs=ids_bytes(getattr(fields, "log_dirs", ())),
        cordoned_log_dirs=ids_bytes(getattr(fields, "cordoned_log_dirs", None) or ()),
    )


def _unregister_broker(image: ClusterImage, fields: Any) -> None:
    image.brokers.pop(fields.broker_id, None)


def _fence_broker(image: ClusterImage, fields: Any) -> None:
    _change_broker(image, fields.id_, fields.epoch, fenced=True)


def _unfence_broker(image: ClusterImage, fields: Any) -> None:
    _change_broker(image, fields.id_, fields.epoch, fenced=False)


def _broker_registration_change(image: ClusterImage, fields: Any) -> None:
    changed: dict[str, Any] = {}
    if fields.fenced in (_FENCED, _UNFENCED):
        changed["fenced"] = fields.fenced == _FENCED
    if getattr(fields, "in_controlled_shutdown", 0):
        changed["in_controlled_shutdown"] = True
    if log_dirs := getattr(fields, "log_dirs", ()):
        changed["log_dirs"] = ids_bytes(log_dirs)
    cordoned = getattr(fields, "cordoned_log_dirs", None)
    if cordoned is not None:
        changed["cordoned_log_dirs"] = ids_bytes(cordoned)
    _change_broker(image, fields.broker_id, fields.broker_epoch, **changed)


def _change_broker(image: ClusterImage, broker_id: int, epoch: int, **changed: Any) -> None:
    """Change a broker's registration, unless the record is about an earlier one of the same id."""
    broker = image.brokers.get(broker_id)
    if broker is not None and broker.broker_epoch == epoch:
        image.brokers[broker_id] = broker._replace(**changed)


def _register_controller(image: ClusterImage, fields: Any) -> None:
    image.controllers[fields.controller_id] = Controller(
        fields.controller_id, id_bytes(fields.incarnation_id), _endpoints(fields), _levels(fields)
    )


def _unregister_controller(image: ClusterImage, fields: Any) -> None:
    image.controllers.pop(fields.controller_id, None)


def _endpoints(fields: Any) -> tuple[Endpoint, ...]:
    # A snapshot has them in an order of its own, as it has features.
    return tuple(
        sorted(
            Endpoint(each.name, each.host, each.port, each.security_protocol) for each in fields.end_points
        )
    )


def _levels(fields: Any) -> Levels:
    return tuple(
        sorted(
            (each.name, each.min_supported_version, each.max_supported_version) for each in fields.features
        )
    )


def _feature_level(image: ClusterImage, fields: Any) -> None:
    if fields.feature_level:
        image.features[fields.name] = fields.feature_level
    else:
        image.features.pop(fields.name, None)


def _producer_ids(image: ClusterImage, fields: Any) -> None:
    image.next_producer_id = fields.next_producer_id


def _zk_migration_state(image: ClusterImage, fields: Any) -> None:
    image.zk_migration_state = fields.zk_migration_state


def _no_op(image: ClusterImage, fields: Any) -> None:
    """Change nothing: controllers write such a record now and then, so that followers see that time
    passes."""


APPLY: Final[dict[str, Callable[[ClusterImage, Any], None]]] = {
    "register_broker": _register_broker,
    "unregister_broker": _unregister_broker,
    "fence_broker": _fence_broker,
    "unfence_broker": _unfence_broker,
    "broker_registration_change": _broker_registration_change,
    "register_controller": _register_controller,
    "unregister_controller": _unregister_controller,
    "feature_level": _feature_level,
    "producer_ids": _producer_ids,
    "zk_migration_state": _zk_migration_state,
    "no_op": _no_op,
}
