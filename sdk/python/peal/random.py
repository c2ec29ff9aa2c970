"""Capability `random`: random numbers, as good as those of the host's system. Python's own `random` gives the same row in every
instance."""
from .capability import ask, imported

host = imported("random")

_AT_ONCE = 65_536


def number():
    """A number below 2**64; each is as likely as any other."""
    return host.number()


def data(length):
    """So many random bytes."""
    starts = range(0, length, _AT_ONCE)
    return b"".join(ask(host.bytes, min(_AT_ONCE, length - start)) for start in starts)
