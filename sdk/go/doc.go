// Package peal is the SDK for Peal modules in Go.
//
// A module is a package main that has one function for each role of its peal-module.toml, under the name of the role:
//
//	func EventHandler(event *peal.Event) *peal.Outcome {
//		return peal.NoAction().With("first.code", peal.Int32(event.Code))
//	}
//
// The others are ConnectionPolicy, EventPolicy, JobControlPolicy, MonitorPolicy, ProvisionPolicy, LogPolicy, GroupPolicy and
// SpawnPolicy, each a func(*Request) *PolicyOutcome, LogChannel, a func(*LogRequest) *Outcome, and for the role lifecycle
// Init, a func(Config) ([]Registration, error), and Stop, a func(). `peal module build` writes the exports for them.
//
// Packages key and status have the names of the Standard. Capabilities are functions, such as WriteSink; a component imports those
// that it uses. The error of a capability is a Refused with the status. A panic ends the call as a failure with its text and places.
//
// A component has no network, files, environment, arguments or clock of its own: time.Now stands still, and time.Sleep ends the
// call. Goroutines run while the function of a role does.
//
// The package can be used without a host as well, so that functions are tested by `go test`: see NewEvent, NewRequest and
// NewLogRequest.
package peal
