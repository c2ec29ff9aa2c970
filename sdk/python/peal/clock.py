"""Capability `clock`: reads the clock."""
from .capability import imported

host = imported("clock")


def now():
    """Returns seconds since the epoch, in whole milliseconds; the same value throughout one call."""
    return host.now() / 1000
