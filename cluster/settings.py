"""Gather a tier's settings from defaults, a file, the environment and flags, check them, and hand them on.

Later sources win. The environment's names are the settings' in capitals with underscores, after GROUPD_:
`group.initial.rebalance.delay.ms` is GROUPD_GROUP_INITIAL_REBALANCE_DELAY_MS. A file, TOML or Java
properties, uses the names as they are. Every fault is a SettingsError with key, value, where it came from,
and what is allowed.

A setting of Kafka's that the tier does not have is checked as Kafka would, and then kept apart with the
reason why it has no effect (`cluster.kafka_names`).
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, create_model
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from actors.assignors.spec import ENTRY_POINTS, OWN_NAMES, is_assignor
from actors.ground.changeable import BETWEEN, LESS
from actors.ground.settings import CLASSIC_ONLY, PROTOCOLS_SERVED, GroupSettings
from actors.ground.spec import BrokerSettings, HistorySettings, RaftSettings, UpstreamSpec
from actors.network import certificates
from cluster import kafka_names, properties_file
from cluster.kafka_names import TRANSLATED, Ignored
from cluster.settings_table import SETTINGS, Setting, as_text

ENV_PREFIX = "GROUPD_"
PROPERTIES = ".properties"
"""The end of a file's name that is written as Kafka's server.properties is; others are TOML."""
PROTOCOLS = "group.coordinator.rebalance.protocols"
DEFAULT_ORIGIN = "default"


class SettingsError(Exception):
    """Raised for one wrong setting, in words for the user."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked values by name, and where each came from ("default", "file ...", "environment ...", "flag")."""

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    ignored: tuple[Ignored, ...] = ()
    """The settings of Kafka's that were given and have no effect, by name."""
    upstream: UpstreamSpec | None = None
    """The Kafka cluster that is named, as it was found; None: none is, or nobody has looked."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def is_given(self, name: str) -> bool:
        """Return whether a setting was given; False for a default."""
        return self.origins[name] != DEFAULT_ORIGIN

    def changed(self, values: Mapping[str, Any], origin: str) -> Settings:
        """Return these settings with some values replaced, unchecked: for what a data directory was made
        with."""
        origins = {**self.origins, **dict.fromkeys(values, origin)}
        return replace(self, values={**self.values, **values}, origins=origins)

    @property
    def groups(self) -> GroupSettings:
        return GroupSettings(**self._fields(GroupSettings, ""))

    @property
    def broker(self) -> BrokerSettings:
        return BrokerSettings(**self._fields(BrokerSettings, ""))

    @property
    def history(self) -> HistorySettings:
        return HistorySettings(**self._fields(HistorySettings, ""))

    @property
    def raft(self) -> RaftSettings:
        sync = self.values["journal.sync"] == "batch"
        return RaftSettings(**self._fields(RaftSettings, "raft."), journal_sync=sync)

    def _fields(self, cls: Any, prefix: str) -> dict[str, Any]:
        names = {field: prefix + field.replace("_", ".") for field in cls._fields}
        return {field: self.values[name] for field, name in names.items() if name in self.values}


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Gather the settings and check them. `flags` are by setting name, strings or values. Raises
    SettingsError."""
    environment = os.environ if environment is None else environment
    given = _Given()
    for values, origin in (
        (_from_file(config), f"file {config}"),
        (_from_environment(environment), "environment"),
        (flags or {}, "flag"),
    ):
        given.take(values, origin)
    origins = dict.fromkeys(SETTINGS, DEFAULT_ORIGIN) | given.origins
    values = _checked(given.values, origins)
    for name in (certificates.KEYSTORE, certificates.TRUSTSTORE):
        # Actors do not run where the command was given.
        values[name] = values[name] and os.path.abspath(values[name])
    ignored = {**given.ignored, **_unserved(values, origins)}
    settings = Settings(values, origins, tuple(ignored[name] for name in sorted(ignored)))
    _check_together(settings)
    return settings


@dataclass(slots=True)
class _Given:
    """What all sources give, the later ones over the earlier ones."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, Ignored] = field(default_factory=dict)

    def take(self, values: Mapping[str, Any], origin: str) -> None:
        """Take what one source gives. The tier's own names win over what is translated into them. Raises
        SettingsError."""
        for name in (*(each for each in TRANSLATED if each in values), *values):
            if name in SETTINGS:
                self._set(name, values[name], origin)
            elif name in TRANSLATED:
                if TRANSLATED[name].name not in values:
                    self._set(TRANSLATED[name].name, _translated(name, values[name], origin), origin)
                    self.origins[TRANSLATED[name].name] = f"{origin}, {name}"
            elif why := kafka_names.why_ignored(name):
                text = _as_kafka_takes(name, values[name], origin)
                self.ignored[name] = Ignored(name, text, origin, why)
            else:
                raise SettingsError(_unknown(name, [*SETTINGS, *kafka_names.names()], origin))

    def _set(self, name: str, value: Any, origin: str) -> None:
        self.values[name] = value
        self.origins[name] = origin


def _as_kafka_takes(name: str, value: Any, origin: str) -> str:
    """Return the value of a setting of Kafka's as text. Raises SettingsError if Kafka would refuse it."""
    text = as_text(tuple(map(str, value)) if isinstance(value, list) else value)
    allowed = kafka_names.refused_by_kafka(name, text)
    if allowed is not None:
        raise SettingsError(f"{name} = {text!r} ({origin}): {allowed} is allowed")
    return text


def _translated(name: str, value: Any, origin: str) -> str:
    text = _as_kafka_takes(name, value, origin)
    translated = TRANSLATED[name].translate(text.strip())
    if translated is None:
        raise SettingsError(f"{name} = {text!r} ({origin}): {TRANSLATED[name].allowed} is allowed")
    return translated


def _unserved(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Ignored]:
    """Return what is ignored of `group.coordinator.rebalance.protocols`: Kafka's own default has a protocol
    that no kind of group of the tier has."""
    name = PROTOCOLS
    unserved = [each for each in values[name] if each not in PROTOCOLS_SERVED]
    if not unserved:
        return {}
    why = f"no {' and no '.join(unserved)} groups"
    return {name: Ignored(name, ",".join(unserved), origins[name], why)}


def parse_assignments(assignments: list[str]) -> dict[str, str]:
    """Return the settings in NAME=VALUE arguments of `--set`. Raises SettingsError."""
    parsed = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingsError(f"--set {assignment}: NAME=VALUE is expected, such as --set nodes=1")
        parsed[name.strip()] = value.strip()
    return parsed


def _from_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        table = properties_file.parse(text) if path.suffix == PROPERTIES else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--config {path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"--config {path}: is no TOML: {error}") from None
    return _flattened(table, "")


def _flattened(table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the table with dotted names, which TOML reads as nested tables."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    by_variable = {
        ENV_PREFIX + name.replace(".", "_").upper(): name for name in (*kafka_names.names(), *SETTINGS)
    }
    given = {}
    for variable, value in environment.items():
        if not variable.startswith(ENV_PREFIX):
            continue
        if variable not in by_variable:
            raise SettingsError(_unknown(variable, list(by_variable), "environment"))
        given[by_variable[variable]] = value
    return given


def _unknown(name: str, names: list[str], origin: str) -> str:
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]}?" if nearest else "`groupd config` lists all settings"
    return f"{name} ({origin}): there is no such setting; {hint}"


class _TierSettings(BaseSettings):
    """The settings as pydantic checks them, by types and ranges. The sources are merged before, so that each
    value's origin is known."""

    model_config = SettingsConfigDict(extra="forbid")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)


def _column(setting: Setting) -> tuple[Any, Any]:
    kind: Any = type(setting.default)
    if kind is tuple:
        kind = tuple[str, ...]
    elif kind is int:
        kind = Annotated[int, Field(ge=setting.low, le=setting.high)]
    return kind, setting.default


_MODEL: Any = create_model(
    "TierSettings",
    __base__=_TierSettings,
    **{setting.field: _column(setting) for setting in SETTINGS.values()},  # type: ignore[call-overload]
)


def _checked(given: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    by_field = {SETTINGS[name].field: _as_typed(SETTINGS[name], value) for name, value in given.items()}
    try:
        model = _MODEL(**by_field)
    except ValidationError as error:
        field = error.errors()[0]["loc"][0]
        setting = next(setting for setting in SETTINGS.values() if setting.field == field)
        raise _wrong(setting, given[setting.name], origins[setting.name]) from None
    values = {name: getattr(model, setting.field) for name, setting in SETTINGS.items()}
    for name, setting in SETTINGS.items():
        chosen = values[name] if isinstance(values[name], tuple) else (values[name],)
        if setting.choices and not (chosen and set(chosen) <= set(setting.choices)):
            raise _wrong(setting, given[name], origins[name])
    return values


def _as_typed(setting: Setting, value: Any) -> Any:
    """Return a value as its setting's type: a list may be written "a,b"; a boolean is no number."""
    if isinstance(setting.default, tuple) and isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(setting.default, bool) and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), "neither")
    if type(setting.default) is int and isinstance(value, bool):
        return str(value)
    if setting.any_case and isinstance(value, str):
        return value.lower()
    return value


def _wrong(setting: Setting, value: Any, origin: str) -> SettingsError:
    return SettingsError(f"{setting.name} = {value!r} ({origin}): {setting.allowed} is allowed")


def _check_together(settings: Settings) -> None:
    """Check rules between settings; Kafka refuses to start for the same reasons."""
    for low, name, high in BETWEEN:
        if not settings[low] <= settings[name] <= settings[high]:
            allowed = f"{settings[low]} ({low}) to {settings[high]} ({high})"
            raise SettingsError(f"{name} = {settings[name]} ({settings.origins[name]}): {allowed} is allowed")
    for smaller, larger in (*LESS, ("raft.election.timeout.min.ms", "raft.election.timeout.max.ms")):
        if settings[smaller] >= settings[larger]:
            origin = settings.origins[smaller]
            raise SettingsError(
                f"{smaller} = {settings[smaller]} ({origin}): "
                f"less than {larger} = {settings[larger]} is allowed"
            )
    _check_protocols(settings)
    _check_assignors(settings)
    _check_hold_clients(settings)
    _check_raft_heartbeat(settings)
    _check_raft_tls(settings)
    check_listener_tls(settings)
    _check_addresses(settings)
    _check_history(settings)
    _check_upstream(settings)


def _check_protocols(settings: Settings) -> None:
    if PROTOCOLS_SERVED[0] not in settings[PROTOCOLS]:
        raise SettingsError(
            f"{PROTOCOLS} = {','.join(settings[PROTOCOLS])!r} ({settings.origins[PROTOCOLS]}): a list with "
            f"{PROTOCOLS_SERVED[0]} is allowed, which cannot be switched off"
        )


def _check_assignors(settings: Settings) -> None:
    name = "group.consumer.assignors"
    wanted = f"{name} = {','.join(settings[name])!r} ({settings.origins[name]})"
    for entry in settings[name] or ("",):
        if not is_assignor(entry):
            allowed = f"{', '.join(OWN_NAMES)}, entry points of {ENTRY_POINTS} and module:Class"
            raise SettingsError(f"{wanted}: a list of {allowed} is allowed")
    if set(settings[name]) <= set(OWN_NAMES) and len(set(settings[name])) == len(settings[name]):
        return
    # The assignors bring numpy, which no command needs that has no plug-in.
    from actors.assignors.registry import AssignorError, named

    try:
        named(settings[name])
    except AssignorError as error:
        raise SettingsError(f"{wanted}: {error}") from None


def _check_hold_clients(settings: Settings) -> None:
    name = "group.heartbeat.hold.clients"
    for client in settings[name]:
        pattern = client.removesuffix(CLASSIC_ONLY)
        if not pattern or ":" in pattern:
            raise SettingsError(
                f"{name} = {client!r} ({settings.origins[name]}): names of client software, or name/version, "
                f"with {CLASSIC_ONLY} behind it or nothing, are allowed"
            )


def _check_raft_heartbeat(settings: Settings) -> None:
    """Check that two heartbeats may get lost before a follower campaigns: `storage.raft.contract` refuses
    less."""
    name, timeout_ms = "raft.heartbeat.ms", settings["raft.election.timeout.min.ms"]
    if 3 * settings[name] > timeout_ms:
        raise SettingsError(
            f"{name} = {settings[name]} ({settings.origins[name]}): at most {timeout_ms // 3} is allowed, "
            f"a third of raft.election.timeout.min.ms = {timeout_ms}"
        )


def _check_raft_tls(settings: Settings) -> None:
    names = ("raft.tls.certificate", "raft.tls.key", "raft.tls.ca")
    given = [name for name in names if settings[name]]
    if not given:
        return
    origin = settings.origins[given[0]]
    missing = [name for name in names if name not in given]
    if missing:
        raise SettingsError(f"{given[0]} ({origin}): TLS needs {' and '.join(missing)} too")
    if not (settings["ray.address"] or settings["machine.address"]):
        raise SettingsError(
            f"{given[0]} ({origin}): only links over TCP have TLS, and without machine.address or "
            "ray.address all replicas are on this machine and use Unix sockets: leave it out"
        )
    for name in names:
        if not Path(settings[name]).is_file():
            raise SettingsError(
                f"{name} = {settings[name]!r} ({settings.origins[name]}): there is no such file"
            )


def check_listener_tls(settings: Settings) -> None:
    """Check that the nodes' clients could speak TLS with them, if they are to. Raises SettingsError."""
    broker = settings.broker
    if not broker.has_tls:
        return
    if settings["ray.address"] or settings["machine.address"]:
        # Each machine has a host of its own, and perhaps a certificate.
        broker = broker._replace(ssl_endpoint_identification_algorithm="")
    try:
        certificates.check(broker, settings["host"])
    except certificates.TlsUnusable as error:
        raise SettingsError(str(error)) from None


def _check_addresses(settings: Settings) -> None:
    last_port = settings["port"] + settings["nodes"] - 1
    if last_port > 65_535:
        raise SettingsError(
            f"port = {settings['port']} ({settings.origins['port']}): {settings['nodes']} nodes need ports "
            f"up to {last_port}; at most {65_536 - settings['nodes']} is allowed"
        )
    for name in ("advertised.port", "upstream.other.port"):
        _check_beside(settings, name)
    if _is_unspecified(settings["host"]):
        raise SettingsError(
            f"host = {settings['host']!r} ({settings.origins['host']}): an address that clients can "
            "connect to is allowed, because it is advertised to them"
        )
    if settings["machine.address"] and settings["ray.address"]:
        raise SettingsError(
            f"machine.address = {settings['machine.address']!r} ({settings.origins['machine.address']}): "
            "a tier lives on machines or in a Ray cluster: leave ray.address out"
        )
    racks = settings["racks"]
    if racks and len(racks) != settings["nodes"]:
        raise SettingsError(
            f"racks = {','.join(racks)!r} ({settings.origins['racks']}): one for each of the "
            f"{settings['nodes']} nodes is allowed"
        )


def _check_beside(settings: Settings, name: str) -> None:
    """Check ports that are not those of the nodes: nobody else can listen where a node does."""
    nodes, port, first = settings["nodes"], settings["port"], settings[name]
    if first and not (port + nodes <= first <= 65_536 - nodes or first + nodes <= port):
        raise SettingsError(
            f"{name} = {first} ({settings.origins[name]}): {nodes} ports beside those of the nodes "
            f"({port} to {port + nodes - 1}) and below 65536 are allowed"
        )


def _check_upstream(settings: Settings) -> None:
    """Check what is said of a cluster upstream, as far as it need not be asked."""
    names = ("upstream.bootstrap.servers", "upstream.controllers")
    given = [name for name in names if settings[name]]
    if not given:
        return
    missing = [name for name in names if name not in given]
    if missing:
        raise SettingsError(
            f"{given[0]} ({settings.origins[given[0]]}): a tier in front of a cluster needs {missing[0]}, too"
        )
    for name in names:
        for address in settings[name]:
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit() or not 0 < int(port) <= 65_535:
                raise SettingsError(
                    f"{name} = {address!r} ({settings.origins[name]}): a list of host:port is allowed"
                )


def _check_history(settings: Settings) -> None:
    """Check that history's store can be used. An object store needs a package that we do not bring; a local
    path needs nothing, and no look here."""
    name = "history.dir"
    protocol, separator, _ = settings[name].partition("://")
    if not separator:
        return
    import fsspec

    try:
        fsspec.get_filesystem_class(protocol)
    except (ValueError, ImportError) as error:
        raise SettingsError(f"{name} = {settings[name]!r} ({settings.origins[name]}): {error}") from None


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host
