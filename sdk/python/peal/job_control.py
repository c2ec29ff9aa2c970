"""Capability `job-control`: requests job control with the rights of the owner of this module."""
from .capability import ask, imported
from .component import tree

host = imported("job-control")


def request(targets, directives):
    """Requests job control after this call has returned, for these procs or, without any, for the job that owns this module.
    `directives` is a list of `Info`. Returns the number of the recorded request. Raises `Refused`."""
    return ask(host.request, list(targets), tree.lower_flat_infos(directives))
