"""Capability `files`: reads and writes files in directories that the admin granted to this module.

A path is relative to its directory and cannot leave it. Operations take effect immediately, also if the call then fails. All
functions may raise `Refused`: PMIX_ERR_NOT_FOUND for a file that does not exist, PMIX_ERR_NO_PERMISSIONS for a path that leaves its
directory and for missing access rights, PMIX_ERR_BAD_PARAM for a path that is invalid or not that of a regular file, and
PMIX_ERR_OUT_OF_RESOURCE beyond 16 MiB, 10,000 entries or the directory's quota."""
from .capability import ask, imported

host = imported("files")


def directories():
    """Returns the names of the granted directories, sorted."""
    return host.directories()


def read(directory, path):
    """Returns the content of a file, bytes."""
    return ask(host.read, directory, path)


def write(directory, path, data):
    """Replaces the content of a file by bytes or text, or creates the file; creates no directories."""
    ask(host.write, directory, path, _bytes(data))


def append(directory, path, data):
    """Appends bytes or text to a file, or creates the file."""
    ask(host.append, directory, path, _bytes(data))


def remove(directory, path):
    """Removes a file."""
    ask(host.remove, directory, path)


def list(directory, path="."):
    """Returns the names of the entries of a directory, sorted."""
    return ask(host.list, directory, path)


def _bytes(data):
    return data.encode() if isinstance(data, str) else bytes(data)
