"""The call at hand: an event being handled, a request being decided about or logged.

Within a component each is a view of the call being made, and every question is answered by the host; keep an answer that is
needed twice. Elsewhere they are what the keywords say, for tests."""
from itertools import islice
from typing import NamedTuple, Optional

from .component import call as _call
from .component import tree as _tree
from .values import Identity, Proc, Range, find


class Target(NamedTuple):
    """A proc that a request is about, and user and group of its job; None where that job is not known here."""

    proc: Proc
    owner: Optional[Identity]


class Group(NamedTuple):
    """A group of the system's: its number, and its name where the host knows one."""

    gid: int
    name: Optional[str] = None


class Peer(NamedTuple):
    """What is at the other end of a connection: its process by the kernel's word, if that is known, and the release of its library
    by its own word, such as "4.2.2"."""

    pid: Optional[int]
    release: str


class Application(NamedTuple):
    """An application that is to be started: its program as it was asked for, its arguments without that name, its environment beside
    the server's own ("NAME=value"), where it starts unless a directive says otherwise, how many procs, and its own directives."""

    command: str
    arguments: list = []
    environment: list = []
    directory: Optional[str] = None
    procs: int = 1
    directives: list = []


class _View:
    """What events and requests have in common."""

    def __init__(
        self, *, source=None, identity=None, server=None, targets=(), infos=(), directives=(), steps=(), live=False
    ):
        self._live = live
        if not live:
            self._source, self._identity, self._server = source, identity, server
            self._targets = [target if isinstance(target, Target) else Target(target, None) for target in targets]
            self._infos, self._directives, self._steps = list(infos), list(directives), list(steps)
            self.step_count = len(self._steps)

    @property
    def source(self):
        """Who caused it; None means the resource manager, or a tool without a name."""
        return _tree.lift_proc(_call.source()) if self._live else self._source

    @property
    def identity(self):
        """User and group of the source, as the kernel told the server; None where nobody is behind it."""
        return _tree.lift_identity(_call.credentials()) if self._live else self._identity

    @property
    def infos(self):
        """All infos, in their order."""
        return _tree.lift_content(_call.infos()) if self._live else list(self._infos)

    @property
    def directives(self):
        """How it is to be done; events have none."""
        return _tree.lift_content(_call.directives()) if self._live else list(self._directives)

    @property
    def steps(self):
        """What those before this one in the chain returned, oldest first."""
        return _tree.lift_chain(_call.steps()) if self._live else list(self._steps)

    def get(self, key):
        """The value of this key among the infos or else the directives, or None. A repeated key means the last."""
        if self._live:
            return _tree.lift_found(_call.get(key))
        found = find(self._infos, key)
        return find(self._directives, key) if found is None else found


class Event(_View):
    """The event being handled: `code`, `range`, `registration`, `tag`, `step_count`, and what `_View` reads."""

    def __init__(self, code, *, range=Range.NAMESPACE, registration=0, tag=0, **rest):
        super().__init__(**rest)
        self.code, self.range, self.registration, self.tag = code, range, registration, tag

    @property
    def targets(self):
        """The procs it is aimed at, where it names any."""
        if self._live:
            return [_tree.lift_proc(proc) for proc in _call.targets()]
        return [target.proc for target in self._targets]


class Request(_View):
    """The request being decided about: `matter` ("connection", "event", "registration", "job-control", "monitor", "provision",
    "log", "group" or "spawn"), of a connection its `kind` ("client" or "tool"), of an event `code` and `range`, of a registration `codes` (none
    meaning all), of nodes that are to be provided `nodes` and `image`, of a group its `group_name` and the `kind` of request
    ("construct", "destruct", "invite" or "join")."""

    def __init__(
        self,
        matter,
        *,
        kind=None,
        code=None,
        range=None,
        codes=(),
        nodes=(),
        image=None,
        group_name=None,
        applications=(),
        peer=None,
        groups=(),
        **rest,
    ):
        super().__init__(**rest)
        self._peer, self._groups, self._applications = peer, list(groups), list(applications)
        self.nodes, self.image, self.group_name = list(nodes), image, group_name
        self.matter, self.kind, self.code, self.range, self.codes = matter, kind, code, range, list(codes)

    @property
    def peer(self):
        """What connects, a `Peer`; None where it is not about a connection."""
        if not self._live:
            return self._peer
        peer = _call.connection()
        return None if peer is None else Peer(peer.pid, peer.release)

    @property
    def groups(self):
        """The groups of the requester's process by the kernel's word, each a `Group`: the one that it runs as comes first."""
        if not self._live:
            return list(self._groups)
        return [Group(group.gid, group.name) for group in _call.groups()]

    @property
    def applications(self):
        """What is to be spawned, each an `Application`."""
        if not self._live:
            return list(self._applications)
        infos = iter(self.infos if any(head.directives for head in self._applications) else ())
        return [
            Application(
                head.command, head.arguments, head.environment, head.directory, head.procs, list(islice(infos, head.directives))
            )
            for head in self._applications
        ]

    @property
    def server(self):
        """As whom the server runs."""
        return _tree.lift_identity(_call.server()) if self._live else self._server

    @property
    def targets(self):
        """The procs that it is about, each a `Target` with its owner."""
        if not self._live:
            return list(self._targets)
        owners = [_tree.lift_identity(owner) for owner in _call.owners()]
        return [Target(_tree.lift_proc(proc), owner) for proc, owner in zip(_call.targets(), owners)]


class LogRequest(_View):
    """The request being logged: `channel`, the key of the one that is meant, and `timestamp`, in seconds since the epoch or
    None. `infos` are what is to be written."""

    def __init__(self, channel, *, timestamp=None, **rest):
        super().__init__(**rest)
        self.channel, self.timestamp = channel, timestamp
