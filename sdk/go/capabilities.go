package peal

import (
	"runtime"
	"strconv"
	"unsafe"
)

// Capabilities: a module that calls one of these functions needs its grant.

// Refused is the status with which the host refused something.
type Refused int32

// Error returns the refusal as text.
func (refused Refused) Error() string {
	return "the host refused with status " + strconv.Itoa(int(refused))
}

// done reads a result that is the status of a refusal, or something at an offset.
func done(offset uintptr) error {
	if read[uint8](result(), 0) == 0 {
		return nil
	}
	return Refused(read[int32](result(), offset))
}

func bytesOf(data []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(data)), uint32(len(data))
}

// Level is a level of the host's trace.
type Level uint8

// Levels of the host's trace.
const (
	LevelError Level = iota
	LevelWarn
	LevelInfo
	LevelDebug
	LevelTrace
)

// LogMessage writes to the trace of the host (capability logging).
func LogMessage(level Level, message string) { importLog(int32(level), message) }

// Now returns milliseconds since the epoch (capability clock).
func Now() uint64 { return uint64(importNow()) }

// Notify raises an event after this call has returned (capability notify).
func Notify(code int32, to Range, infos ...Info) error {
	var low lowering
	raw := low.flatInfos(infos)
	importNotify(code, int32(to), at(raw.infos.address), raw.infos.len, at(raw.arrays.address), raw.arrays.len, result())
	runtime.KeepAlive(low.keep)
	return done(8)
}

// Register adds a registration of this module after this call has returned (capability registration).
func Register(registration Registration) error {
	var low lowering
	raw := low.registration(&registration)
	importRegister(raw.tag, int32(raw.name.isSome), at(raw.name.text.address), raw.name.text.len,
		at(raw.codes.address), raw.codes.len, at(raw.directives.infos.address), raw.directives.infos.len,
		at(raw.directives.arrays.address), raw.directives.arrays.len, result())
	runtime.KeepAlive(low.keep)
	runtime.KeepAlive(&registration)
	return done(4)
}

func (low *lowering) registration(registration *Registration) rawRegistration {
	low.keep = append(low.keep, registration)
	return rawRegistration{
		tag:        registration.Tag,
		name:       lowerOptionalText(registration.Name),
		codes:      listOf(registration.Codes),
		directives: low.flatInfos(registration.Directives),
	}
}

// Deregister removes a registration of this module after this call has returned (capability registration).
func Deregister(registration uint64) error {
	importDeregister(int64(registration), result())
	return done(4)
}

// SinkNames returns the names of the sinks that the admin opened for this module, sorted (capability sink).
func SinkNames() []string {
	importSinkNames(result())
	return liftTexts(read[list](result(), 0))
}

// WriteSink writes data to a sink at once (capability sink).
func WriteSink(sink string, data []byte) error {
	bytes, size := bytesOf(data)
	importSinkWrite(sink, bytes, size, result())
	return done(4)
}

// Mail has the parts of a mail; the host composes the message. Sender, server and port that are empty are as the admin configured.
type Mail struct {
	Recipients     []string
	Subject, Text  string
	Sender, Server string
	Port           uint16
}

// SendMail passes a mail to a mail sink (capability sink).
func SendMail(sink string, mail Mail) error {
	var low lowering
	recipients := low.texts(mail.Recipients)
	isGiven := func(is bool) int32 {
		if is {
			return 1
		}
		return 0
	}
	importSinkSendMail(sink, isGiven(mail.Sender != ""), mail.Sender, at(recipients.address), recipients.len, mail.Subject, mail.Text,
		isGiven(mail.Server != ""), mail.Server, isGiven(mail.Port != 0), int32(mail.Port), result())
	runtime.KeepAlive(low.keep)
	return done(4)
}

// GetState reads a key of the module's store, which survives restarts (capability state). False: there is no such key.
func GetState(key string) ([]byte, bool, error) {
	importStateGet(key, result())
	if err := done(4); err != nil || read[uint8](result(), 4) == 0 {
		return nil, false, err
	}
	return liftBytes(read[list](result(), 8)), true, nil
}

// SetState writes a key of the module's store (capability state).
func SetState(key string, value []byte) error {
	bytes, size := bytesOf(value)
	importStateSet(key, bytes, size, result())
	return done(4)
}

// DeleteState removes a key of the module's store (capability state).
func DeleteState(key string) error {
	importStateDelete(key, result())
	return done(4)
}

func lifted[T any](lift func(list) T) (T, error) {
	if err := done(4); err != nil {
		var none T
		return none, err
	}
	return lift(read[list](result(), 4)), nil
}

// StateKeys returns the keys of the module's store that begin with a prefix, sorted (capability state).
func StateKeys(prefix string) ([]string, error) {
	importStateKeys(prefix, result())
	return lifted(liftTexts)
}

// RandomUint64 reads the random source of the host system (capability random).
func RandomUint64() uint64 { return uint64(importRandomUint64()) }

// RandomBytes reads the random source of the host system (capability random).
func RandomBytes(count int) ([]byte, error) {
	const atOnce = 65536
	all := make([]byte, 0, count)
	for len(all) < count {
		importRandomBytes(int32(min(count-len(all), atOnce)), result())
		some, err := lifted(liftBytes)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// FileDirectories returns the names of the directories that the admin granted (capability files).
//
// A path of the functions below is relative to its directory and cannot leave it. They take effect immediately, also if the call
// then fails. They are refused with PMIX_ERR_NOT_FOUND for a file that does not exist, PMIX_ERR_NO_PERMISSIONS for a path that
// leaves its directory and for missing access rights, PMIX_ERR_BAD_PARAM for a path that is invalid or not that of a regular file,
// and PMIX_ERR_OUT_OF_RESOURCE beyond 16 MiB, 10,000 entries or the directory's quota.
func FileDirectories() []string {
	importFileDirectories(result())
	return liftTexts(read[list](result(), 0))
}

// ReadFile reads a file (capability files).
func ReadFile(directory, path string) ([]byte, error) {
	importFileRead(directory, path, result())
	return lifted(liftBytes)
}

// WriteFile replaces the content of a file, or creates the file; it creates no directories (capability files).
func WriteFile(directory, path string, data []byte) error {
	bytes, size := bytesOf(data)
	importFileWrite(directory, path, bytes, size, result())
	return done(4)
}

// AppendFile appends to a file, or creates the file (capability files).
func AppendFile(directory, path string, data []byte) error {
	bytes, size := bytesOf(data)
	importFileAppend(directory, path, bytes, size, result())
	return done(4)
}

// RemoveFile removes a file (capability files).
func RemoveFile(directory, path string) error {
	importFileRemove(directory, path, result())
	return done(4)
}

// ListFiles returns the names of the entries of a directory, sorted; the path "." is the directory itself (capability files).
func ListFiles(directory, path string) ([]string, error) {
	importFileList(directory, path, result())
	return lifted(liftTexts)
}

// RequestJobControl requests job control after this call has returned; without targets, of the job that owns this module
// (capability job-control).
func RequestJobControl(targets []Proc, directives ...Info) error {
	var low lowering
	procs := low.procs(targets)
	raw := low.flatInfos(directives)
	importJobControl(at(procs.address), procs.len, at(raw.infos.address), raw.infos.len, at(raw.arrays.address), raw.arrays.len,
		result())
	runtime.KeepAlive(low.keep)
	return done(8)
}

// SubmitLog submits a log request after this call has returned; the directive PMIX_LOG_SOURCE names the subject (capability
// log-request).
func SubmitLog(data []Info, directives ...Info) error {
	var low lowering
	raw := low.flatInfos(data)
	how := low.flatInfos(directives)
	importLogRequest(at(raw.infos.address), raw.infos.len, at(raw.arrays.address), raw.arrays.len, at(how.infos.address),
		how.infos.len, at(how.arrays.address), how.arrays.len, result())
	runtime.KeepAlive(low.keep)
	return done(4)
}

// QueryUsage returns the resources that procs use, one info for each (capability resource-usage).
func QueryUsage(procs ...Proc) ([]Info, error) {
	var low lowering
	raw := low.procs(procs)
	importResourceUsage(at(raw.address), raw.len, result())
	runtime.KeepAlive(low.keep)
	if err := done(4); err != nil {
		return nil, err
	}
	return liftFlatInfos(read[rawFlatInfos](result(), 4)), nil
}
