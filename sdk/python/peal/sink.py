"""Capability `sink`: writes to the sinks that the admin opened for this module."""
from .capability import ask, imported

host = imported("sink")


def names():
    """Returns the names of the sinks that this module may write to, sorted."""
    return host.names()


def write(sink, data):
    """Writes bytes or text immediately, for the log request of this call. Raises `Refused`."""
    ask(host.write, sink, data.encode() if isinstance(data, str) else bytes(data))


def send_mail(sink, recipients, subject, text, sender=None, server=None, port=None):
    """Passes a mail to a mail sink, for the log request of this call. Raises `Refused`.

    Without a sender, server or port, those that the admin configured are used.
    """
    parts = host.Mail(sender, list(recipients), subject, text, server, port)
    ask(host.send_mail, sink, parts)
