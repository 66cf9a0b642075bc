"""Change SCRAM credentials of users, with the checks of Kafka's controller (ScramControlManager, KIP-554)."""

from __future__ import annotations

from collections import Counter

from kio.schema.errors import ErrorCode

from actors.ground.contract import Record
from actors.ground.limits import CREDENTIALS_MAX
from actors.metadata.commands import (
    AlterCredentials,
    AlterCredentialsResult,
    AlteredUser,
    CredentialToDelete,
    NewCredential,
)
from actors.metadata.records import SCRAM_CREDENTIAL, ScramCredentialKey, ScramCredentialValue
from actors.metadata.state import MetadataState
from actors.protocol.errors import GroupError
from actors.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISM_NAMES


def alter_credentials(
    state: MetadataState, command: AlterCredentials
) -> tuple[list[Record], AlterCredentialsResult]:
    times = Counter(change.user for change in command.changes)
    room = CREDENTIALS_MAX - len(state.credentials)
    records: list[Record] = []
    outcomes: dict[str, AlteredUser] = {}
    for change in command.changes:
        if change.user in outcomes:
            continue
        try:
            if times[change.user] > 1:
                message = "A user credential cannot be altered twice in the same request"
                raise GroupError(ErrorCode.duplicate_resource, message)
            record, is_new = _record(state, change)
            if is_new and room <= 0:
                message = f"The tier holds at most {CREDENTIALS_MAX} credentials: delete some first."
                raise GroupError(ErrorCode.policy_violation, message)
            room -= is_new
            records.append(record)
        except GroupError as error:
            outcomes[change.user] = AlteredUser(change.user, error.error_code, error.message)
        else:
            outcomes[change.user] = AlteredUser(change.user)
    return records, AlterCredentialsResult(tuple(outcomes.values()))


def _record(state: MetadataState, change: CredentialToDelete | NewCredential) -> tuple[Record, bool]:
    """Return the record to write, and whether it adds a credential. Raises GroupError."""
    if not change.user:
        raise GroupError(ErrorCode.unacceptable_credential, "Username must not be empty")
    mechanism = MECHANISM_NAMES.get(change.mechanism)
    if mechanism is None:
        raise GroupError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    key = ScramCredentialKey(SCRAM_CREDENTIAL, "", change.user, mechanism)
    is_there = (change.user, mechanism) in state.credentials
    if isinstance(change, CredentialToDelete):
        if not is_there:
            message = "Attempt to delete a user credential that does not exist"
            raise GroupError(ErrorCode.resource_not_found, message)
        return Record(key, None), False
    if change.iterations < ITERATIONS_MIN:
        raise GroupError(ErrorCode.unacceptable_credential, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise GroupError(ErrorCode.unacceptable_credential, "Too many iterations")
    value = ScramCredentialValue(change.salt, change.stored_key, change.server_key, change.iterations)
    return Record(key, value), not is_there
