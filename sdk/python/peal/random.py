"""Capability `random`: reads random data from the random source of the host system. Python's own `random` gives the same sequence in
every instance."""
from .capability import ask, imported

host = imported("random")

_AT_ONCE = 65_536


def get_u64():
    """Returns a uniformly distributed number below 2**64."""
    return host.get_random_u64()


def get_bytes(length):
    """Returns `length` random bytes."""
    starts = range(0, length, _AT_ONCE)
    return b"".join(ask(host.get_random_bytes, min(_AT_ONCE, length - start)) for start in starts)
