"""Capability `report`: logs, as whoever this module belongs to."""
from .capability import ask, imported
from .component import tree

host = imported("report")


def log(data, directives=()):
    """Logs these, lists of `Info`, once this call has returned; raises `Refused`. PMIX_LOG_SOURCE among the directives says about
    whom it is."""
    ask(host.log, tree.lower_content(data), tree.lower_content(directives))
