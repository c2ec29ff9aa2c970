"""Capability `usage`: knows what procs use of the machine."""
from .capability import ask, imported
from .component import tree, types

host = imported("usage")


def of(procs):
    """What these procs use now, a list of `Info`, one for each that is there; raises `Refused`."""
    return tree.lift_content(ask(host.of, [types.Proc(proc.nspace, proc.rank) for proc in procs]))
