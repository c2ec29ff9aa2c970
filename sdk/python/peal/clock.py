"""Capability `clock`: knows the time."""
from .capability import imported

host = imported("clock")


def now():
    """Seconds since the epoch, in whole milliseconds; the same throughout one call."""
    return host.now() / 1000
