"""Decorators that make a function what the component exports. Each puts a class of the name that the contract asks for beside
the function; outside of a component they only hand it back."""
import sys
from dataclasses import dataclass, field
from typing import Optional

from .component import Err, call, tree, types
from .exceptions import described
from .outcome import Outcome, PolicyOutcome
from .requests import Event, LogRequest, Request
from .values import Info, Range


@dataclass
class Registration:
    """What a module wishes to handle. Without codes it is a default registration, called for every event. `directives` are
    placement words and filters, a dict or a list of `Info`."""

    codes: list = field(default_factory=list)
    name: Optional[str] = None
    tag: int = 0
    directives: object = field(default_factory=dict)

    def _lower(self):
        infos = self.directives
        if isinstance(infos, dict):
            infos = [Info(key, value) for key, value in infos.items()]
        return types.Registration(self.tag, self.name, list(self.codes), tree.lower_content(infos))


def _export(function, name, methods):
    """Puts the class into the module in which the function was defined, adding to what is there."""
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
    """Handles events by a function from `Event` to `Outcome`, or to None where nothing was done."""

    def handle(_self, head):
        event = Event(
            head.code, range=Range(head.range.value), registration=head.registration, tag=head.tag, live=True
        )
        event.info_count, event.step_count = head.infos, head.steps
        return _said(function(event), "event handler", -331)

    return _export(function, "EventHandler", {"handle": handle})


def log_channel(function):
    """Logs by a function from `LogRequest` to `Outcome`, or to None where it was logged."""

    def log(_self, head):
        request = LogRequest(head.channel, timestamp=head.timestamp or None, live=True)
        request.step_count = head.steps
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
    if outcome.says == "deny":
        return types.Outcome_Deny(outcome.status)
    return types.Outcome_Grant() if outcome.says == "grant" else types.Outcome_Pass()


def _live(head, matter, **rest):
    request = Request(matter, live=True, **rest)
    request.step_count = head.steps
    return request


def connection_policy(function):
    """Decides who may connect, by a function from `Request` to `PolicyOutcome`."""

    def decide(_self, head):
        return _decided(function(_live(head, "connection", kind=("client", "tool")[head.kind.value])))

    return _export(function, "ConnectionPolicy", {"decide": decide})


def event_policy(function):
    """Decides which events may be raised and heard, by a function from `Request` to `PolicyOutcome`."""

    def decide(_self, head):
        return _decided(function(_live(head, "event", code=head.code, range=Range(head.range.value))))

    def decide_registration(_self, head):
        return _decided(function(_live(head, "registration", codes=head.codes)))

    return _export(function, "EventPolicy", {"decide": decide, "decide_registration": decide_registration})


def job_control_policy(function):
    """Decides which procs may be controlled, by a function from `Request` to `PolicyOutcome`."""

    def decide(_self, head):
        return _decided(function(_live(head, "job-control")))

    return _export(function, "JobControlPolicy", {"decide": decide})


def monitor_policy(function):
    """Decides who may watch what, by a function from `Request` to `PolicyOutcome`; the monitor is the request's info."""

    def decide(_self, head):
        return _decided(function(_live(head, "monitor")))

    return _export(function, "MonitorPolicy", {"decide": decide})


def provision_policy(function):
    """Provides nodes, by a function from `Request` to `PolicyOutcome`. What is added to a grant the requester is told."""

    def decide(_self, head):
        return _decided(function(_live(head, "provision", nodes=head.nodes, image=head.image)))

    return _export(function, "ProvisionPolicy", {"decide": decide})


def log_policy(function):
    """Decides what may be logged, by a function from `Request` to `PolicyOutcome`."""

    def decide(_self, head):
        return _decided(function(_live(head, "log")))

    return _export(function, "LogPolicy", {"decide": decide})


def group_policy(function):
    """Decides who may form groups, invite and join, by a function from `Request` to `PolicyOutcome`."""

    def decide(_self, head):
        kind = ("construct", "destruct", "invite", "join")[head.kind.value]
        return _decided(function(_live(head, "group", kind=kind, group_name=head.name)))

    return _export(function, "GroupPolicy", {"decide": decide})


def spawn_policy(function):
    """Decides what may be spawned, by a function from `Request` to `PolicyOutcome`."""

    def decide(_self, head):
        return _decided(function(_live(head, "spawn", applications=head.applications)))

    return _export(function, "SpawnPolicy", {"decide": decide})


def init(function):
    """Called before anything else with the settings from the admin's file, a dict. Returns a list of `Registration` (None or
    empty: what the admin's file says); raises ValueError to say why the module will not start."""

    def lifecycle_init(_self, config):
        try:
            wishes = function({info.key: info.value for info in tree.lift_content(config)}) or []
        except ValueError as refusal:
            raise Err(str(refusal))
        return [wish._lower() for wish in wishes]

    return _export(function, "Lifecycle", {"init": lifecycle_init, "stop": lambda _self: None})


def stop(function):
    """Called when the module is taken out of service. Stands behind `init`."""
    return _export(function, "Lifecycle", {"stop": lambda _self: function()})
