"""Capability `registration`: changes what this module is registered for, once the call has returned."""
from .capability import ask, imported

host = imported("registration")


def register(wish):
    """Registers for more events, as a `Registration` says; raises `Refused`."""
    ask(host.register, wish._lower())


def deregister(number):
    """Ends one of this module's registrations, such as `event.registration`; raises `Refused`."""
    ask(host.deregister, number)
