"""Event or request of the current call.

Within a component every property calls the host, so keep a value that is needed twice. Elsewhere the values are those of the
keywords, for tests."""
from itertools import islice
from typing import NamedTuple, Optional

from .component import call as _call
from .values import UserIdentity, Proc, Range, find


class TargetProc(NamedTuple):
    """Target proc of a request, and its owner: user and group of its job, or None if this server does not know the job."""

    proc: Proc
    owner: Optional[UserIdentity]


class UnixGroup(NamedTuple):
    """Unix group: its number, and its name if the host knows one."""

    gid: int
    name: Optional[str] = None


class PeerInfo(NamedTuple):
    """Peer of a connection: its process id by the kernel, if known, and the release of its PMIx library as stated by the peer, such
    as "4.2.2"."""

    pid: Optional[int]
    release: str


class Application(NamedTuple):
    """Application of the job to be spawned: program as requested, arguments without its name, environment in addition to the
    server's ("NAME=value"), working directory unless a directive names another, number of procs, and its directives."""

    command: str
    arguments: list = []
    environment: list = []
    directory: Optional[str] = None
    procs: int = 1
    directives: list = []


class _View:
    """Common part of events and requests."""

    def __init__(
        self, *, source=None, identity=None, server_identity=None, targets=(), infos=(), directives=(), previous_results=(), live=False
    ):
        self._live = live
        if not live:
            self._source, self._identity, self._server_identity = source, identity, server_identity
            self._targets = [target if isinstance(target, TargetProc) else TargetProc(target, None) for target in targets]
            self._infos, self._directives, self._previous_results = list(infos), list(directives), list(previous_results)
            self.previous_count = len(self._previous_results)

    @property
    def source(self):
        """Source of the event or the requester. None: the resource manager, or a tool without a name."""
        return _call.source() if self._live else self._source

    @property
    def identity(self):
        """User and group of the source, as reported by the kernel. None where no process is the source."""
        return _call.credentials() if self._live else self._identity

    @property
    def infos(self):
        """All infos, in their order."""
        return _call.infos() if self._live else list(self._infos)

    @property
    def directives(self):
        """Directives: how a request is carried out. Events have none."""
        return _call.directives() if self._live else list(self._directives)

    @property
    def previous_results(self):
        """Results of the modules that ran earlier in the chain, oldest first."""
        return _call.previous_results() if self._live else list(self._previous_results)

    def get(self, key):
        """Returns the value of a key among the infos or else the directives, or None. Of a repeated key the last value counts."""
        if self._live:
            return _call.get(key)
        found = find(self._infos, key)
        return find(self._directives, key) if found is None else found


class Event(_View):
    """Event of the current call: `code`, `range`, `registration`, `tag`, `previous_count`, and the properties of `_View`."""

    def __init__(self, code, *, range=Range.NAMESPACE, registration=0, tag=0, **rest):
        super().__init__(**rest)
        self.code, self.range, self.registration, self.tag = code, range, registration, tag

    @classmethod
    def _live_one(cls, registration, tag, code, range, infos, previous):
        # The fields of the contract, in their order. `__init__` with its keywords would take longer than all the rest.
        event = cls.__new__(cls)
        event._live = True
        event.code, event.range, event.registration, event.tag = code, range, registration, tag
        event.info_count, event.previous_count = infos, previous
        return event

    @property
    def targets(self):
        """Target procs of the event, if it names any."""
        if self._live:
            return _call.targets()
        return [target.proc for target in self._targets]


class Request(_View):
    """Request to decide about: `subject` ("connection", "event", "registration", "job-control", "monitor", "provision",
    "log", "group" or "spawn"), of a connection its `kind` ("client" or "tool"), of an event `code` and `range`, of a registration `codes` (none
    meaning all), of nodes that are to be provided `nodes` and `image`, of a group its `group_name` and the `kind` of request
    ("construct", "destruct", "invite" or "join")."""

    def __init__(
        self,
        subject,
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
        unix_groups=(),
        **rest,
    ):
        super().__init__(**rest)
        self._peer, self._unix_groups, self._applications = peer, list(unix_groups), list(applications)
        self.nodes, self.image, self.group_name = list(nodes), image, group_name
        self.subject, self.kind, self.code, self.range, self.codes = subject, kind, code, range, list(codes)

    @property
    def peer(self):
        """Peer that requests a connection, a `PeerInfo`; None for other subjects."""
        if not self._live:
            return self._peer
        peer = _call.peer()
        return None if peer is None else PeerInfo(peer.pid, peer.release)

    @property
    def unix_groups(self):
        """Unix groups of the requester's process, as reported by the kernel, each a `UnixGroup`: its effective group first."""
        if not self._live:
            return list(self._unix_groups)
        return [UnixGroup(group.gid, group.name) for group in _call.unix_groups()]

    @property
    def applications(self):
        """Applications of the job to be spawned, each an `Application`."""
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
    def server_identity(self):
        """User and group of the server."""
        return _call.server_identity() if self._live else self._server_identity

    @property
    def targets(self):
        """Target procs, each a `TargetProc` with its owner."""
        if not self._live:
            return list(self._targets)
        return [TargetProc(*both) for both in zip(_call.targets(), _call.target_owners())]


class LogRequest(_View):
    """Log request of the current call: `channel`, the key of the channel, and `timestamp`, in seconds since the epoch or None.
    `infos` are the data to be written."""

    def __init__(self, channel, *, timestamp=None, **rest):
        super().__init__(**rest)
        self.channel, self.timestamp = channel, timestamp
