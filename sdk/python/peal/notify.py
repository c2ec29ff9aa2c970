"""Capability `notify`: raises events."""
from .capability import ask, imported
from .component import tree
from .values import Info, Range

host = imported("notify")


def notify(code, range=Range.NAMESPACE, infos=()):
    """Raises an event after this call has returned. `infos` is a dict or a list of `Info`. Returns the number of the recorded
    request. Raises `Refused`."""
    if isinstance(infos, dict):
        infos = [Info(key, value) for key, value in infos.items()]
    return ask(host.notify, code, Range(range), tree.lower_flat_infos(infos))
