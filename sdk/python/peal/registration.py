"""Capability `registration`: changes the registrations of this module after the call has returned."""
from .capability import ask, imported

host = imported("registration")


def register(registration):
    """Adds a `Registration`. Raises `Refused`."""
    ask(host.register, registration._lower())


def deregister(number):
    """Removes one of this module's registrations, such as `event.registration`. Raises `Refused`."""
    ask(host.deregister, number)
