"""How a call of an actor can fail."""


class ActorCallError(Exception):
    """Raised for a call that brought no result; the text says why."""


class ActorGoneError(ActorCallError):
    """Raised if the actor is dead or being restarted."""
