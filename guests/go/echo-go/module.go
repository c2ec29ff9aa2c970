// Returns every info of the event, pushes the names of earlier handlers, and counts its calls.
package main

import "peal"

var calls peal.Uint32

// EventHandler echoes an event.
func EventHandler(event *peal.Event) *peal.Outcome {
	outcome := peal.NoAction()
	outcome.Infos = event.Infos()
	before := ""
	if event.PreviousCount > 0 {
		for at, result := range event.PreviousResults() {
			if at > 0 {
				before += " "
			}
			before += result.Name
		}
	}
	calls++
	return outcome.With("echo.before", peal.String(before)).With("echo.calls", calls)
}

func main() {}
