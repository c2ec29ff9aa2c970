"""What a handler, a log channel or a policy says."""
from . import component, status
from .values import Info


class Outcome:
    """What a handler did about an event, or a log channel about a request: a status, and infos for those after it."""

    def __init__(self, status_code, infos=()):
        self.status = status_code
        self.infos = list(infos)

    def add(self, key, value, flags=0):
        """The same, with one more info for those that come after."""
        self.infos.append(Info(key, value, flags))
        return self

    def _deliver(self):
        for info in self.infos:
            arrays = []
            component.call.push(component.tree.lower_info(info, arrays), arrays)


def no_action():
    """Nothing was done."""
    return Outcome(status.PMIX_EVENT_NO_ACTION_TAKEN)


def partial():
    """Something was done; others may do more."""
    return Outcome(status.PMIX_EVENT_PARTIAL_ACTION_TAKEN)


def deferred():
    """Something will be done later."""
    return Outcome(status.PMIX_EVENT_ACTION_DEFERRED)


def complete():
    """All is done: ends this owner's chain. No other status does."""
    return Outcome(status.PMIX_EVENT_ACTION_COMPLETE)


def success():
    """It was logged."""
    return Outcome(status.PMIX_SUCCESS)


REASON = "peal.reason"
"""The key under which a reason in words is shown to the requester."""


class PolicyOutcome(Outcome):
    """What a policy says of a request: `says` is "pass", "grant" or "deny"."""

    def __init__(self, says, status_code=0):
        super().__init__(status_code)
        self.says = says
        self.amended = None
        self.range = None
        self.rewritten = None

    def because(self, words):
        """The same with a reason in words."""
        return self.add(REASON, words)

    def amend(self, infos):
        """The same with these in the place of the request's directives or, where it is about an event or a connection, of its
        infos; without effect if it denies."""
        self.amended = list(infos)
        return self

    def narrow(self, range):
        """The same with this range in the place of the event's; without effect for one that is not within it."""
        self.range = range
        return self

    def rewrite(self, data):
        """The same with these in the place of what is to be logged: other texts, or other channels for them. Without effect where
        something else is decided about, or if it denies."""
        self.rewritten = list(data)
        return self

    def _deliver(self):
        super()._deliver()
        if self.amended is not None:
            component.amendment.amend(component.tree.lower_content(self.amended))
        if self.range is not None:
            try:
                component.amendment.narrow(component.types.Range(int(self.range)))
            except component.Err:
                pass  # changes nothing, as is said above
        if self.rewritten is not None:
            try:
                component.amendment.rewrite(component.tree.lower_content(self.rewritten))
            except component.Err:
                pass  # here, too


def pass_():
    """Nothing: those after it decide, and if none does, the site's default."""
    return PolicyOutcome("pass")


def grant():
    """Yes; those after it are not asked."""
    return PolicyOutcome("grant")


def deny(status_code=status.PMIX_ERR_NO_PERMISSIONS, reason=None):
    """No, with the status that the requester is told, and a reason in words; those after it are not asked."""
    outcome = PolicyOutcome("deny", status_code)
    return outcome if reason is None else outcome.because(reason)
