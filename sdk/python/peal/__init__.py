"""SDK for Peal modules in Python.

A handler is a function from an event to an outcome:

    import peal

    @peal.event_handler
    def handle(event):
        who = event.source or "the resource manager"
        return peal.no_action().add("first.greeting", f"well done, {who}")

A policy is a function from a request to its outcome, a log channel a function from a log request to an outcome:

    @peal.job_control_policy
    def decide(request):
        return peal.deny(peal.status.PMIX_ERR_NO_PERMISSIONS, "not on Mondays")

    @peal.log_channel
    def log(request):
        sink.write("journal", request.get(request.channel))

Each capability is a module (`from peal import logging, clock, notify, registration, sink, state, random, files`). Modules that are
imported must be listed in `peal-module.toml`: these are the capabilities that an admin is asked to grant.

Values have Python's types where they exist (`None`, `bool`, `str`, `float`, `bytes`), else small types that are integers, strings or
lists, such as `Uint32` and `Array`: see `peal.values`. All of the Standard's integers are exact.

Import modules at the top of the file: when a component runs there are no files, and an `import` within a function is a trap.

The package can be imported outside of a component as well, so that functions can be tested with any Python: create an `Event`,
`Request` or `LogRequest` by its keywords.
"""
from . import key, status
from .capability import Refused
from .outcome import (
    Outcome,
    PolicyOutcome,
    complete,
    deferred,
    deny,
    grant,
    no_action,
    partial,
    pass_,
    success,
)
from .requests import Application, Event, UnixGroup, LogRequest, PeerInfo, Request, TargetProc
from .roles import (
    Registration,
    connection_policy,
    event_handler,
    event_policy,
    group_policy,
    init,
    job_control_policy,
    log_channel,
    log_policy,
    monitor_policy,
    provision_policy,
    spawn_policy,
    stop,
)
from .values import (
    Array,
    Byte,
    Float32,
    UserIdentity,
    Info,
    InfoFlags,
    Int,
    Int8,
    Int16,
    Int32,
    Int64,
    Nspace,
    Opaque,
    Pid,
    Proc,
    Range,
    Rank,
    Size,
    Status,
    ChainResult,
    Time,
    Timeval,
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
)
