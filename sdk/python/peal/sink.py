"""Capability `sink`: writes to what the admin named and opened for this module."""
from .capability import ask, imported

host = imported("sink")


def names():
    """The names of the sinks that this module may write to, in their order."""
    return host.names()


def write(sink, data):
    """Writes all of this, bytes or text, for the request being logged, at once; raises `Refused`."""
    ask(host.write, sink, data.encode() if isinstance(data, str) else bytes(data))


def submit(sink, recipients, subject, text, sender=None, server=None, port=None):
    """Hands a mail to a sink that takes mail, for the request being logged; raises `Refused`.

    Where no sender, server or port is given, those that the admin said count.
    """
    parts = host.Mail(sender, list(recipients), subject, text, server, port)
    ask(host.submit, sink, parts)
