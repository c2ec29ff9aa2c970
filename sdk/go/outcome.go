package peal

import "peal/status"

// Outcome is the outcome of a handler's or a log channel's call: a status, and infos for later modules of the chain.
type Outcome struct {
	Status int32
	Infos  []Info
}

// NewOutcome makes an outcome of any status: one of the Standard, or a number that programs agreed upon.
func NewOutcome(status int32) *Outcome { return &Outcome{Status: status} }

// NoAction makes an outcome: no action was taken.
func NoAction() *Outcome { return NewOutcome(status.PMIX_EVENT_NO_ACTION_TAKEN) }

// Partial makes an outcome: an action was taken; others may take more.
func Partial() *Outcome { return NewOutcome(status.PMIX_EVENT_PARTIAL_ACTION_TAKEN) }

// Deferred makes an outcome: an action will be taken later.
func Deferred() *Outcome { return NewOutcome(status.PMIX_EVENT_ACTION_DEFERRED) }

// Complete makes an outcome: all actions were taken. This status alone ends the chain of its owner.
func Complete() *Outcome { return NewOutcome(status.PMIX_EVENT_ACTION_COMPLETE) }

// Success makes an outcome: the request was logged.
func Success() *Outcome { return NewOutcome(status.PMIX_SUCCESS) }

// OfError makes an outcome of a log channel: success, or the status of a refusal.
func OfError(err error) *Outcome {
	if err == nil {
		return Success()
	}
	if refused, ok := err.(Refused); ok {
		return NewOutcome(int32(refused))
	}
	return NewOutcome(status.PMIX_ERROR)
}

// With adds an info for later modules of the chain.
func (outcome *Outcome) With(key string, value Value) *Outcome {
	outcome.Infos = append(outcome.Infos, Info{Key: key, Value: value})
	return outcome
}

// Decision is the decision of a policy.
type Decision uint8

// Decisions of policies.
const (
	Passed  Decision = iota // later policies decide or, if none does, the site's default
	Granted                 // later policies are not called
	Denied                  // later policies are not called
)

// PolicyOutcome is the outcome of one policy about a request. Pass, Grant and Deny make one.
type PolicyOutcome struct {
	Decision Decision
	Status   int32 // of a denial, for the requester
	Infos    []Info

	amended, rewritten     []Info
	isAmended, isRewritten bool
	narrowed               Range
	isNarrowed             bool
}

// Pass makes an outcome without a decision.
func Pass() *PolicyOutcome { return &PolicyOutcome{} }

// Grant makes an outcome that grants the request.
func Grant() *PolicyOutcome { return &PolicyOutcome{Decision: Granted} }

// Reason is the key of a reason in plain text, which the requester receives.
const Reason = "peal.reason"

// Deny makes an outcome that denies the request with a status for the requester, and a reason in plain text unless it is empty.
func Deny(status int32, reason string) *PolicyOutcome {
	outcome := &PolicyOutcome{Decision: Denied, Status: status}
	if reason == "" {
		return outcome
	}
	return outcome.With(Reason, String(reason))
}

// With adds an info for later modules of the chain and, for a grant of nodes, for the requester.
func (outcome *PolicyOutcome) With(key string, value Value) *PolicyOutcome {
	outcome.Infos = append(outcome.Infos, Info{Key: key, Value: value})
	return outcome
}

// Amend replaces the directives of the request or, for an event or a connection, its infos. It has no effect for a denial.
func (outcome *PolicyOutcome) Amend(infos []Info) *PolicyOutcome {
	outcome.amended, outcome.isAmended = infos, true
	return outcome
}

// NarrowRange replaces the range of the event. It has no effect if the new range is not within the old one.
func (outcome *PolicyOutcome) NarrowRange(to Range) *PolicyOutcome {
	outcome.narrowed, outcome.isNarrowed = to, true
	return outcome
}

// RewriteData replaces the data of a log request. It has no effect for other subjects and for a denial.
func (outcome *PolicyOutcome) RewriteData(data []Info) *PolicyOutcome {
	outcome.rewritten, outcome.isRewritten = data, true
	return outcome
}

// Rewritten returns the data of RewriteData, for tests.
func (outcome *PolicyOutcome) Rewritten() []Info { return outcome.rewritten }
