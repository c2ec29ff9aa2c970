"""Outcomes of handlers, log channels and policies."""
from . import component, status
from .values import Info, Range


class Outcome:
    """Outcome of a handler's or a log channel's call: a status, and infos for later modules of the chain."""

    def __init__(self, status_code, infos=()):
        self.status = status_code
        self.infos = list(infos)

    def add(self, key, value, flags=0):
        """Adds an info for later modules of the chain."""
        self.infos.append(Info(key, value, flags))
        return self

    def _deliver(self):
        if self.infos:
            component.tree.pass_each(self.infos, component.call.push)


def no_action():
    """Creates an outcome: no action was taken."""
    return Outcome(status.PMIX_EVENT_NO_ACTION_TAKEN)


def partial():
    """Creates an outcome: an action was taken; others may take more."""
    return Outcome(status.PMIX_EVENT_PARTIAL_ACTION_TAKEN)


def deferred():
    """Creates an outcome: an action will be taken later."""
    return Outcome(status.PMIX_EVENT_ACTION_DEFERRED)


def complete():
    """Creates an outcome: all actions were taken. This status alone ends the chain of its owner."""
    return Outcome(status.PMIX_EVENT_ACTION_COMPLETE)


def success():
    """Creates an outcome: the request was logged."""
    return Outcome(status.PMIX_SUCCESS)


REASON = "peal.reason"
"""Key of a reason in plain text, which the requester receives."""


class PolicyOutcome(Outcome):
    """Outcome of one policy about a request: `kind` is "pass", "grant" or "deny"."""

    def __init__(self, kind, status_code=0):
        super().__init__(status_code)
        self.kind = kind
        self.amended = None
        self.range = None
        self.rewritten = None

    def with_reason(self, words):
        """Adds a reason in plain text."""
        return self.add(REASON, words)

    def amend(self, infos):
        """Replaces the directives of the request or, for an event or a connection, its infos. Without effect if the outcome is a
        denial."""
        self.amended = list(infos)
        return self

    def narrow_range(self, range):
        """Replaces the range of the event. Without effect if the new range is not within the old one."""
        self.range = range
        return self

    def rewrite_data(self, data):
        """Replaces the data of a log request: other texts, or other channels for them. Without effect for other subjects, or if the
        outcome is a denial."""
        self.rewritten = list(data)
        return self

    def _deliver(self):
        super()._deliver()
        if self.amended is not None:
            component.amendment.amend(component.tree.lower_flat_infos(self.amended))
        if self.range is not None:
            try:
                component.amendment.narrow_range(Range(self.range))
            except component.Err:
                pass  # no effect, as documented
        if self.rewritten is not None:
            try:
                component.amendment.rewrite_data(component.tree.lower_flat_infos(self.rewritten))
            except component.Err:
                pass  # no effect, as documented


def pass_():
    """Creates an outcome without a decision: later policies decide or, if none does, the site's default."""
    return PolicyOutcome("pass")


def grant():
    """Creates an outcome that grants the request; later policies are not called."""
    return PolicyOutcome("grant")


def deny(status_code=status.PMIX_ERR_NO_PERMISSIONS, reason=None):
    """Creates an outcome that denies the request with a status for the requester, and a reason in plain text; later policies are not
    called."""
    outcome = PolicyOutcome("deny", status_code)
    return outcome if reason is None else outcome.with_reason(reason)
