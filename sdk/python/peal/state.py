"""Capability `state`: a small key-value store of this module that survives restarts. All functions may raise
`Refused`."""
from .capability import ask, imported

host = imported("state")


def get(key):
    """Returns the value of a key, bytes, or None."""
    return ask(host.get, key)


def set(key, value):
    """Sets a key to bytes."""
    ask(host.set, key, bytes(value))


def delete(key):
    """Deletes a key, if it exists."""
    ask(host.delete, key)


def keys(prefix=""):
    """Returns all keys with a prefix, sorted."""
    return ask(host.keys, prefix)
