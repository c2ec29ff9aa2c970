package peal

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

// Functions that the exports of a component call, which `peal module build` writes; not for authors. Their parameters are those of
// the canonical ABI.

// called runs a function of the author. A panic is described to the host and then ends the call.
func called[T any](body func() T) T {
	defer func() {
		// What the host wrote before the next call is lifted by now.
		clear(held)
		held = held[:0]
		if reason := recover(); reason != nil {
			describe(panicText(reason), panicPlaces())
			importExit(1)
		}
	}()
	return body()
}

func panicText(reason any) string {
	switch reason := reason.(type) {
	case error:
		return "panic: " + reason.Error()
	case string:
		return "panic: " + reason
	case int:
		return "panic: " + strconv.Itoa(reason)
	case interface{ String() string }:
		return "panic: " + reason.String()
	}
	return "panic with a value that is no error and no text"
}

// panicPlaces returns file, line and function of each call, innermost first. Calls of this library and of Go's are left out, unless
// there are no others.
func panicPlaces() []string {
	var counters [64]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(3, counters[:])])
	var own, all []string
	for {
		frame, more := frames.Next()
		// A file is named after its module, as built with -trimpath.
		_, file, _ := strings.Cut(frame.File, "/")
		function, isOwn := strings.CutPrefix(frame.Function, "main.")
		place := file + ":" + strconv.Itoa(frame.Line) + " in " + function
		all = append(all, place)
		if isOwn && !strings.HasPrefix(function, "export") {
			own = append(own, place)
		}
		if !more {
			break
		}
	}
	if len(own) > 0 {
		return own
	}
	return all
}

func deliver(outcome *Outcome, otherwise int32) int32 {
	if outcome == nil {
		return otherwise
	}
	for at := range outcome.Infos {
		push(&outcome.Infos[at])
	}
	return outcome.Status
}

// RunEventHandler calls an event handler. A nil outcome is that no action was taken.
func RunEventHandler(handle func(*Event) *Outcome, registration int64, tag, code, to, _, previous int32) int32 {
	return called(func() int32 {
		event := Event{View: View{PreviousCount: int(previous)}, Code: code, Range: Range(to),
			Registration: uint64(registration), Tag: uint32(tag)}
		return deliver(handle(&event), NoAction().Status)
	})
}

// RunLogChannel calls a log channel. A nil outcome is success.
func RunLogChannel(log func(*LogRequest) *Outcome, channel unsafe.Pointer, size int32, timestamp int64, _, _, previous int32) int32 {
	return called(func() int32 {
		request := LogRequest{View: View{PreviousCount: int(previous)}, Channel: unsafe.String((*byte)(channel), size),
			Timestamp: uint64(timestamp)}
		return deliver(log(&request), Success().Status)
	})
}

// decided is a decision in the canonical ABI; the host reads it when the export has returned.
var decided struct {
	tag    uint8
	status int32
}

func decide(policy func(*Request) *PolicyOutcome, previous int32, fill func(*Request)) unsafe.Pointer {
	return called(func() unsafe.Pointer {
		request := Request{View: View{PreviousCount: int(previous)}}
		fill(&request)
		outcome := policy(&request)
		for at := range outcome.Infos {
			push(&outcome.Infos[at])
		}
		var low lowering
		if outcome.isAmended {
			raw := low.flatInfos(outcome.amended)
			importAmend(at(raw.infos.address), raw.infos.len, at(raw.arrays.address), raw.arrays.len)
		}
		if outcome.isNarrowed {
			importNarrowRange(int32(outcome.narrowed), result())
		}
		if outcome.isRewritten {
			raw := low.flatInfos(outcome.rewritten)
			importRewriteData(at(raw.infos.address), raw.infos.len, at(raw.arrays.address), raw.arrays.len, result())
		}
		runtime.KeepAlive(low.keep)
		decided.tag, decided.status = uint8(outcome.Decision), outcome.Status
		return unsafe.Pointer(&decided)
	})
}

// RunConnectionPolicy calls a connection policy.
func RunConnectionPolicy(policy func(*Request) *PolicyOutcome, kind, _, _, previous int32) unsafe.Pointer {
	return decide(policy, previous, func(request *Request) {
		request.Subject, request.IsTool = Connection, kind == 1
	})
}

// RunEventPolicy calls an event policy for an event.
func RunEventPolicy(policy func(*Request) *PolicyOutcome, code, to, _, _, previous int32) unsafe.Pointer {
	return decide(policy, previous, func(request *Request) {
		request.Subject, request.Code, request.Range = EventRaised, code, Range(to)
	})
}

// RunRegistrationPolicy calls an event policy for a registration.
func RunRegistrationPolicy(policy func(*Request) *PolicyOutcome, codes unsafe.Pointer, count, _, previous int32) unsafe.Pointer {
	return decide(policy, previous, func(request *Request) {
		request.Subject, request.Codes = RegistrationMade, unsafe.Slice((*int32)(codes), count)
	})
}

// RunJobControlPolicy calls a job control policy.
func RunJobControlPolicy(policy func(*Request) *PolicyOutcome, _, _, previous int32) unsafe.Pointer {
	return decide(policy, previous, func(request *Request) { request.Subject = JobControl })
}

// RunMonitorPolicy calls a monitor policy.
func RunMonitorPolicy(policy func(*Request) *PolicyOutcome, _, _, _, previous int32) unsafe.Pointer {
	return decide(policy, previous, func(request *Request) { request.Subject = Monitor })
}

// RunLogPolicy calls a log policy.
func RunLogPolicy(policy func(*Request) *PolicyOutcome, _, _, previous int32) unsafe.Pointer {
	return decide(policy, previous, func(request *Request) { request.Subject = Log })
}

// RunProvisionPolicy calls a provision policy.
func RunProvisionPolicy(policy func(*Request) *PolicyOutcome, nodes unsafe.Pointer, count, hasImage int32, image unsafe.Pointer, size, _, previous int32) unsafe.Pointer {
	return decide(policy, previous, func(request *Request) {
		request.Subject = Provision
		for _, node := range unsafe.Slice((*list)(nodes), count) {
			request.Nodes = append(request.Nodes, liftText(node))
		}
		if hasImage != 0 {
			request.Image = unsafe.String((*byte)(image), size)
		}
	})
}

// RunGroupPolicy calls a group policy.
func RunGroupPolicy(policy func(*Request) *PolicyOutcome, kind, isNamed int32, name unsafe.Pointer, size, _, _, previous int32) unsafe.Pointer {
	return decide(policy, previous, func(request *Request) {
		request.Subject, request.Operation = Group, Operation(kind)
		if isNamed != 0 {
			request.GroupName = unsafe.String((*byte)(name), size)
		}
	})
}

// RunSpawnPolicy calls a spawn policy.
func RunSpawnPolicy(policy func(*Request) *PolicyOutcome, applications unsafe.Pointer, count, _, _, previous int32) unsafe.Pointer {
	return decide(policy, previous, func(request *Request) {
		request.Subject = Spawn
		raw := unsafe.Slice((*rawApplication)(applications), count)
		var wanted uint32
		for at := range raw {
			wanted |= raw[at].directives
		}
		// The infos hold the directives of all applications in order.
		var left []Info
		if wanted > 0 {
			left = callInfos()
		}
		for at := range raw {
			from := &raw[at]
			own := min(int(from.directives), len(left))
			request.Applications = append(request.Applications, Application{
				Command:     liftText(from.command),
				Arguments:   liftTexts(from.arguments),
				Environment: liftTexts(from.environment),
				Directory:   liftOptionalText(from.directory),
				Procs:       from.procs,
				Directives:  left[:own],
			})
			left = left[own:]
		}
	})
}

// started is the result of Init in the canonical ABI. It and what it refers to stay, since the host reads them when the export has
// returned.
var started struct {
	tag     uint8
	content list
	keep    []any
}

// RunInit calls the start of a module.
func RunInit(start func(Config) ([]Registration, error), infos unsafe.Pointer, infoCount int32, arrays unsafe.Pointer, arrayCount int32) unsafe.Pointer {
	return called(func() unsafe.Pointer {
		raw := rawFlatInfos{list{address((*byte)(infos)), uint32(infoCount)}, list{address((*byte)(arrays)), uint32(arrayCount)}}
		registrations, err := start(liftFlatInfos(raw))
		if err != nil {
			text := err.Error()
			started.tag, started.content, started.keep = 1, lowerText(text), []any{text}
			return unsafe.Pointer(&started)
		}
		var low lowering
		lowered := make([]rawRegistration, 0, len(registrations))
		for at := range registrations {
			lowered = append(lowered, low.registration(&registrations[at]))
		}
		started.tag, started.content, started.keep = 0, listOf(lowered), append(low.keep, lowered)
		return unsafe.Pointer(&started)
	})
}

// RunStop calls the end of a module.
func RunStop(stop func()) {
	called(func() struct{} {
		stop()
		return struct{}{}
	})
}
