package peal

// Given is what a test gives to a function instead of a host.
type Given struct {
	Source          *Proc
	Identity        *UserIdentity
	Infos           []Info
	Directives      []Info
	Targets         []TargetProc
	PreviousResults []ChainResult
	Peer            *PeerInfo
	UnixGroups      []UnixGroup
	ServerIdentity  *UserIdentity
}

// View is the common part of events, requests and log requests. Its methods call the host, so keep a value that is needed twice.
type View struct {
	// PreviousCount is the number of modules that ran earlier in the chain.
	PreviousCount int
	given         *Given
}

func given[T any](value *T) (T, bool) {
	if value == nil {
		var none T
		return none, false
	}
	return *value, true
}

// Source returns the source of the event or the requester. False: the resource manager, or a tool without a name.
func (view *View) Source() (Proc, bool) {
	if view.given != nil {
		return given(view.given.Source)
	}
	return callSource()
}

// Identity returns user and group of the source, as reported by the kernel. False where no process is the source.
func (view *View) Identity() (UserIdentity, bool) {
	if view.given != nil {
		return given(view.given.Identity)
	}
	return callCredentials()
}

// Infos returns all infos, in their order.
func (view *View) Infos() []Info {
	if view.given != nil {
		return view.given.Infos
	}
	return callInfos()
}

// Directives returns the directives: how a request is carried out. Events have none.
func (view *View) Directives() []Info {
	if view.given != nil {
		return view.given.Directives
	}
	return callDirectives()
}

// PreviousResults returns the results of the modules that ran earlier in the chain, oldest first.
func (view *View) PreviousResults() []ChainResult {
	if view.given != nil {
		return view.given.PreviousResults
	}
	return callPreviousResults()
}

// Get returns the value of a key among the infos or else the directives, or nil. Of a repeated key the last value counts.
func (view *View) Get(key string) Value {
	if view.given == nil {
		return callGet(key)
	}
	if found := Find(view.given.Infos, key); found != nil {
		return found
	}
	return Find(view.given.Directives, key)
}

// Event is the event of the current call.
type Event struct {
	View
	Code  int32
	Range Range
	// Registration is the number of the registration that this call is for.
	Registration uint64
	// Tag is the tag that this module gave to its registration; 0 if the configuration made it.
	Tag uint32
}

// NewEvent makes an event for a test.
func NewEvent(code int32, given Given) *Event {
	return &Event{View: ofTest(given), Code: code, Range: RangeNamespace}
}

func ofTest(given Given) View { return View{PreviousCount: len(given.PreviousResults), given: &given} }

// Targets returns the target procs of the event, if it names any.
func (event *Event) Targets() []Proc {
	if event.given == nil {
		return callTargets()
	}
	procs := make([]Proc, 0, len(event.given.Targets))
	for _, target := range event.given.Targets {
		procs = append(procs, target.Proc)
	}
	return procs
}

// TargetProc is a target proc of a request, and its owner: user and group of its job, or nil if this server does not know the job.
type TargetProc struct {
	Proc  Proc
	Owner *UserIdentity
}

// UnixGroup is a Unix group; its name is empty if the host knows none.
type UnixGroup struct {
	GID  uint32
	Name string
}

// PeerInfo is the peer of a connection: its process id by the kernel, 0 if unknown, and the release of its PMIx library as stated
// by the peer, such as "4.2.2".
type PeerInfo struct {
	Pid     uint32
	Release string
}

// Application is an application of the job to be spawned.
type Application struct {
	Command     string   // as requested; empty if none is named
	Arguments   []string // without the program's name
	Environment []string // in addition to the server's, each NAME=value
	Directory   string   // working directory, unless a directive names another; or empty
	Procs       uint32   // 0 for an invalid number
	Directives  []Info   // of the application
}

// Subject is what a policy decides about.
type Subject uint8

// Subjects of requests.
const (
	Connection Subject = iota
	EventRaised
	RegistrationMade
	JobControl
	Log
	Monitor
	Provision
	Group
	Spawn
)

// Operation is an operation on a group.
type Operation uint8

// Operations on groups.
const (
	Construct Operation = iota
	Destruct
	Invite
	Join
)

// Request is a request to decide about. Fields that its subject does not have are zero.
type Request struct {
	View
	Subject      Subject
	IsTool       bool          // of a connection: the peer is a tool
	Code         int32         // of an event
	Range        Range         // of an event
	Codes        []int32       // of a registration; none: all codes
	Nodes        []string      // names of the nodes to be provided
	Image        string        // image for the nodes, or empty
	Operation    Operation     // on a group
	GroupName    string        // name of the group, or empty
	Applications []Application // of the job to be spawned
}

// NewRequest makes a request for a test; its other fields are set afterwards.
func NewRequest(subject Subject, given Given) *Request {
	return &Request{View: ofTest(given), Subject: subject}
}

// Targets returns the target procs, with their owners.
func (request *Request) Targets() []TargetProc {
	if request.given != nil {
		return request.given.Targets
	}
	return callTargetProcs()
}

// Peer returns the peer that requests a connection. False for other subjects.
func (request *Request) Peer() (PeerInfo, bool) {
	if request.given != nil {
		return given(request.given.Peer)
	}
	return callPeer()
}

// UnixGroups returns the Unix groups of the requester's process, as reported by the kernel: its effective group first.
func (request *Request) UnixGroups() []UnixGroup {
	if request.given != nil {
		return request.given.UnixGroups
	}
	return callUnixGroups()
}

// ServerIdentity returns user and group of the server.
func (request *Request) ServerIdentity() (UserIdentity, bool) {
	if request.given != nil {
		return given(request.given.ServerIdentity)
	}
	return callServerIdentity()
}

// LogRequest is the log request of the current call; its infos are the data to be written.
type LogRequest struct {
	View
	// Channel is the key of the channel.
	Channel string
	// Timestamp is the time of the request in seconds since the epoch, or 0.
	Timestamp uint64
}

// NewLogRequest makes a log request for a test.
func NewLogRequest(channel string, given Given) *LogRequest {
	return &LogRequest{View: ofTest(given), Channel: channel}
}

// Config has the settings of this module in the admin's configuration.
type Config []Info

// Get returns a setting, or nil.
func (config Config) Get(name string) Value { return Find(config, name) }

// Registration is a registration that a module requests. Without codes it is called for every event.
type Registration struct {
	Tag        uint32
	Name       string // or empty
	Codes      []int32
	Directives []Info // placement and filters
}
