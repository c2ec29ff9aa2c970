"""Capability `resource-usage`: queries the resources that procs use."""
from .capability import ask, imported

host = imported("resource-usage")


def query(procs):
    """Returns the present usage of these procs, a list of `Info`, one for each running proc. Raises `Refused`."""
    return ask(host.query, list(procs))
