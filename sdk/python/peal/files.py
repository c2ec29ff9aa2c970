"""Capability `files`: files in directories that the admin named for this module.

A path is relative to its directory and leads nowhere else. Whatever is done takes effect at once, also if the call then fails.
Everything may raise `Refused`: PMIX_ERR_NOT_FOUND for what is not there, PMIX_ERR_NO_PERMISSIONS for a path that leads out of its
directory and for what may not be read or changed, PMIX_ERR_BAD_PARAM for a path that is none or names no regular file, and
PMIX_ERR_OUT_OF_RESOURCE beyond 16 MiB, 10,000 entries or the directory's quota."""
from .capability import ask, imported

host = imported("files")


def directories():
    """The names of the directories, in their order."""
    return host.directories()


def read(directory, path):
    """All of a file, bytes."""
    return ask(host.read, directory, path)


def write(directory, path, data):
    """Puts this, bytes or text, in the place of a file's, or makes it; no directories are made."""
    ask(host.write, directory, path, _bytes(data))


def append(directory, path, data):
    """Puts this, bytes or text, behind what a file has, or makes it."""
    ask(host.append, directory, path, _bytes(data))


def remove(directory, path):
    """Drops a file."""
    ask(host.remove, directory, path)


def entries(directory, path="."):
    """The names of what is in a directory, in their order."""
    return ask(host.entries, directory, path)


def _bytes(data):
    return data.encode() if isinstance(data, str) else bytes(data)
