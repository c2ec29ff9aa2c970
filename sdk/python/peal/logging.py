"""Capability `logging`: writes to the trace of the host."""
from .capability import imported

host = imported("logging")


def _log(level, message):
    host.log(getattr(host.Level, level), str(message))


def error(message):
    """Writes a message about a failure."""
    _log("ERROR", message)


def warn(message):
    """Writes a message about a suspicious condition."""
    _log("WARN", message)


def info(message):
    """Writes a message about a notable fact."""
    _log("INFO", message)


def debug(message):
    """Writes a message for fault finding."""
    _log("DEBUG", message)


def trace(message):
    """Writes a message of the most detailed level."""
    _log("TRACE", message)
