"""Capability `log-request`: submits log requests with the rights of the owner of this module."""
from .capability import ask, imported
from .component import tree

host = imported("log-request")


def submit(data, directives=()):
    """Submits a log request after this call has returned. `data` and `directives` are lists of `Info`; the directive
    PMIX_LOG_SOURCE names the proc or job that the data are about. Raises `Refused`."""
    ask(host.submit, tree.lower_flat_infos(data), tree.lower_flat_infos(directives))
