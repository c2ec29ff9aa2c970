"""Decorators that export a function as a role of the component. Each adds a class of the name that the contract requires to the
module of the function; outside of a component they only return the function."""
import sys
from dataclasses import dataclass, field
from importlib import import_module
from typing import Optional

from .component import Err, call, tree, types
from .exceptions import described
from .outcome import Outcome, PolicyOutcome
from .requests import Event, LogRequest, Request
from .values import Info


@dataclass
class Registration:
    """Registration that a module requests. Without codes it is a default registration, called for every event. `directives` are
    placement and filters, a dict or a list of `Info`."""

    codes: list = field(default_factory=list)
    name: Optional[str] = None
    tag: int = 0
    directives: object = field(default_factory=dict)

    def _lower(self):
        infos = self.directives
        if isinstance(infos, dict):
            infos = [Info(key, value) for key, value in infos.items()]
        return types.Registration(self.tag, self.name, list(self.codes), tree.lower_flat_infos(infos))


def _export(function, name, methods):
    """Adds the methods to the class of this name in the module of the function."""
    if call is None:
        return function
    module = sys.modules[function.__module__]
    for method, body in methods.items():
        # A decorated method of a role is looked up on an instance.
        setattr(_class_in(module, name), method, described(body, function))
    return function


def _class_in(module, name):
    if not hasattr(module, name):
        setattr(module, name, type(name, (), {"__module__": module.__name__}))
    return getattr(module, name)


def event_handler(function):
    """Handles events by a function from `Event` to `Outcome`, or to None if no action was taken."""

    def handle(event):
        return _said(function(event), "event handler", -331)

    if call is not None:
        # As in tree.py: the runtime makes the event itself of what the host passes.
        import_module("wit_world.exports.event_handler").EventHead = Event._live_one
    return _export(function, "EventHandler", {"handle": handle})


def log_channel(function):
    """Writes log requests by a function from `LogRequest` to `Outcome`, or to None for success."""

    def log(head):
        request = LogRequest(head.channel, timestamp=head.timestamp or None, live=True)
        request.previous_count = head.previous
        return _said(function(request), "log channel", 0)

    return _export(function, "LogChannel", {"log": log})


def _said(outcome, role, otherwise):
    if outcome is None:
        return otherwise
    if isinstance(outcome, PolicyOutcome) or not isinstance(outcome, Outcome):
        raise TypeError(f"a function of an {role} returned {outcome!r}; it returns an Outcome or None")
    outcome._deliver()
    return outcome.status


def _decided(outcome):
    if not isinstance(outcome, PolicyOutcome):
        raise TypeError(f"a policy returned {outcome!r}; it returns pass_(), grant() or deny(status, reason)")
    outcome._deliver()
    if outcome.kind == "deny":
        return types.PolicyOutcome_Deny(outcome.status)
    return types.PolicyOutcome_Grant() if outcome.kind == "grant" else types.PolicyOutcome_Pass()


def _live(head, subject, **rest):
    request = Request(subject, live=True, **rest)
    request.previous_count = head.previous
    return request


def connection_policy(function):
    """Decides about connections by a function from `Request` to `PolicyOutcome`."""

    def decide(head):
        return _decided(function(_live(head, "connection", kind=("client", "tool")[head.kind.value])))

    return _export(function, "ConnectionPolicy", {"decide": decide})


def event_policy(function):
    """Decides about events and registrations by a function from `Request` to `PolicyOutcome`."""

    def decide(head):
        return _decided(function(_live(head, "event", code=head.code, range=head.range)))

    def decide_registration(head):
        return _decided(function(_live(head, "registration", codes=head.codes)))

    return _export(function, "EventPolicy", {"decide": decide, "decide_registration": decide_registration})


def job_control_policy(function):
    """Decides about job control by a function from `Request` to `PolicyOutcome`."""

    def decide(head):
        return _decided(function(_live(head, "job-control")))

    return _export(function, "JobControlPolicy", {"decide": decide})


def monitor_policy(function):
    """Decides about monitors by a function from `Request` to `PolicyOutcome`; the monitor is the request's info."""

    def decide(head):
        return _decided(function(_live(head, "monitor")))

    return _export(function, "MonitorPolicy", {"decide": decide})


def provision_policy(function):
    """Provides nodes by a function from `Request` to `PolicyOutcome`. The requester receives the infos of a grant."""

    def decide(head):
        return _decided(function(_live(head, "provision", nodes=head.nodes, image=head.image)))

    return _export(function, "ProvisionPolicy", {"decide": decide})


def log_policy(function):
    """Decides about log requests by a function from `Request` to `PolicyOutcome`."""

    def decide(head):
        return _decided(function(_live(head, "log")))

    return _export(function, "LogPolicy", {"decide": decide})


def group_policy(function):
    """Decides about groups and invitations by a function from `Request` to `PolicyOutcome`."""

    def decide(head):
        kind = ("construct", "destruct", "invite", "join")[head.kind.value]
        return _decided(function(_live(head, "group", kind=kind, group_name=head.name)))

    return _export(function, "GroupPolicy", {"decide": decide})


def spawn_policy(function):
    """Decides about spawned jobs by a function from `Request` to `PolicyOutcome`."""

    def decide(head):
        return _decided(function(_live(head, "spawn", applications=head.applications)))

    return _export(function, "SpawnPolicy", {"decide": decide})


def init(function):
    """Initialises a module by a function that is called first, with the settings of the admin's configuration, a dict. It returns a
    list of `Registration` (None or empty: as configured), and raises ValueError to keep the module from starting."""

    def lifecycle_init(config):
        try:
            requested = function({info.key: info.value for info in config}) or []
        except ValueError as refusal:
            raise Err(str(refusal))
        return [registration._lower() for registration in requested]

    return _export(function, "Lifecycle", {"init": lifecycle_init, "stop": lambda _: None})


def stop(function):
    """Stops a module by a function that is called before an instance is dropped. Has to come after `init`."""
    return _export(function, "Lifecycle", {"stop": lambda _: function()})
