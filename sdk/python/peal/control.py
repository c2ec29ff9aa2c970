"""Capability `control`: controls procs, as whoever this module belongs to."""
from .capability import ask, imported
from .component import tree, types

host = imported("control")


def request(targets, directives):
    """Asks for job control of these procs once this call has returned; of none means the module's own job. `directives` are a list of
    `Info`. Returns the number under which the request is recorded; raises `Refused`."""
    procs = [types.Proc(proc.nspace, proc.rank) for proc in targets]
    return ask(host.request, procs, tree.lower_content(directives))
