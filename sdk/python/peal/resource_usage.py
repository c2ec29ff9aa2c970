"""Capability `resource-usage`: queries the resources that procs use."""
from .capability import ask, imported
from .component import tree, types

host = imported("resource-usage")


def query(procs):
    """Returns the present usage of these procs, a list of `Info`, one for each running proc. Raises `Refused`."""
    return tree.lift_infos(ask(host.query, [types.Proc(proc.nspace, proc.rank) for proc in procs]))
