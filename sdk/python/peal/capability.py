"""Common part of the modules of capabilities."""
import importlib

from .component import call


class Refused(Exception):
    """Refusal by the host; `status` is the reason."""

    def __init__(self, status):
        super().__init__(f"the host refused with status {status}")
        self.status = status


class _Outside:
    """Placeholder of a capability outside of a component. A test replaces it."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, function):
        raise RuntimeError(f"{self._name}.{function} is answered by a host; a test can replace peal.{self._name}.host")


def imported(name):
    """Returns the host's functions of a capability, by its name in the contract."""
    module = name.replace("-", "_")
    if call is None:
        return _Outside(module)
    try:
        return importlib.import_module(f"wit_world.imports.{module}")
    except ImportError:
        raise ImportError(f'peal.{module} is used, but "{name}" is not among the capabilities in peal-module.toml') from None


def ask(function, *arguments):
    """Calls a function of the host, and raises a refusal as `Refused`."""
    try:
        return function(*arguments)
    except Exception as error:
        if type(error).__name__ == "Err":
            raise Refused(error.value) from None
        raise
