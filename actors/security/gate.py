"""The gate: what each client may do, as of the newest metadata image.

One gate serves one actor. Without an authorizer (`authorizer` = none) it is open: every client may do
everything, and no request is looked at for it.
"""

from __future__ import annotations

from typing import Final

from actors.ground.acl import Acl
from actors.ground.identity import TIER
from actors.ground.image import MetadataImage
from actors.ground.spec import BrokerSettings
from actors.security.asking import Asking
from actors.security.authorizer import EVERYTHING, Access, Authorizer

NO_AUTHORIZER: Final = "none"
ACLS: Final = "acl"
"""The value of the setting `authorizer` for a tier with one, as NO_AUTHORIZER is for one without."""


def super_users(settings: BrokerSettings) -> frozenset[str]:
    """Return the users of `super.users` ("User:a;User:b", as Kafka has it), and the administrator that the
    tier begins with, if it has one."""
    listed = {user.strip() for user in settings.super_users.split(";") if user.strip()}
    if settings.has_sasl and settings.admin_user:
        listed.add(f"User:{settings.admin_user}")
    return frozenset(listed)


class Gate:
    """The gate of one actor. `checks` says that there is an authorizer, so that requests must be screened."""

    def __init__(self, settings: BrokerSettings | None = None) -> None:
        """Make the gate that the settings describe; without settings, an open one."""
        self.checks = settings is not None and settings.authorizer == ACLS
        self._image = MetadataImage()
        self.creates_topics = settings is not None and settings.auto_create_topics_enable
        """Whether topics are created that clients ask for (`auto.create.topics.enable`)."""
        self._super_users = frozenset({TIER.principal})
        self._allow_without_acls = False
        if settings is not None:
            self._super_users |= super_users(settings)
            self._allow_without_acls = settings.allow_everyone_if_no_acl_found
        self._authorizer = self._made_of(())

    def take(self, image: MetadataImage) -> bool:
        """Take a newer image. Return True if the ACLs have changed, so that nothing that was allowed is
        allowed still."""
        self._image = image
        if not self.checks or image.acls == self._authorizer.acls:
            return False
        self._authorizer = self._made_of(image.acls)
        return True

    def access(self, principal: str, client_host: str) -> Access:
        """Return what a client may do. `principal` and `client_host` are those of its ClientIdentity."""
        return self._authorizer.access(principal, client_host) if self.checks else EVERYTHING

    @property
    def image(self) -> MetadataImage:
        """The newest image, which gives requests with topic ids their names."""
        return self._image

    def asking(self, principal: str, client_host: str) -> Asking:
        return Asking(self.access(principal, client_host), self._image, self.creates_topics)

    def _made_of(self, acls: tuple[Acl, ...]) -> Authorizer:
        return Authorizer(acls, self._super_users, self._allow_without_acls)
