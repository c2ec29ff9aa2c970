"""Capability `state`: a small store of keys and values of this module's own, which survives restarts. Everything may raise
`Refused`."""
from .capability import ask, imported

host = imported("state")


def get(key):
    """The value of a key, bytes, or None."""
    return ask(host.get, key)


def set(key, value):
    """Sets a key to bytes."""
    ask(host.set, key, bytes(value))


def delete(key):
    """Drops a key, if it is there."""
    ask(host.delete, key)


def keys(prefix=""):
    """All keys that begin with this, in their order."""
    return ask(host.keys, prefix)
