"""What the modules of capabilities have in common."""
import importlib

from .component import call


class Refused(Exception):
    """The host refused; `status` says why."""

    def __init__(self, status):
        super().__init__(f"the host refused with status {status}")
        self.status = status


class _Outside:
    """Stands for a capability outside of a component, where there is none. A test puts something else in its place."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, function):
        raise RuntimeError(f"{self._name}.{function} is answered by a host; a test can replace peal.{self._name}.host")


def imported(name):
    """The host's side of a capability."""
    if call is None:
        return _Outside(name)
    try:
        return importlib.import_module(f"wit_world.imports.{name}")
    except ImportError:
        raise ImportError(f'peal.{name} is used, but "{name}" is not among the capabilities in peal-module.toml') from None


def ask(function, *arguments):
    """Calls a function of the host; what it refuses is raised as `Refused`."""
    try:
        return function(*arguments)
    except Exception as error:
        if type(error).__name__ == "Err":
            raise Refused(error.value) from None
        raise
