"""Capability `logging`: writes to the host's trace."""
from .capability import imported

host = imported("logging")


def _log(level, message):
    host.log(getattr(host.Level, level), str(message))


def error(message):
    """Something failed."""
    _log("ERROR", message)


def warn(message):
    """Something looks wrong."""
    _log("WARN", message)


def info(message):
    """Worth knowing."""
    _log("INFO", message)


def debug(message):
    """For whoever looks for a fault."""
    _log("DEBUG", message)


def trace(message):
    """Everything."""
    _log("TRACE", message)
