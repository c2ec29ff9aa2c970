package peal

import "unsafe"

// Imports of the contract, in the canonical ABI. `to` is where the host writes the result. A component imports those that are used.

//go:wasmimport peal:pmix/call@0.1.0 source
func importSource(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 credentials
func importCredentials(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 unix-groups
func importUnixGroups(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 server-identity
func importServerIdentity(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 targets
func importTargets(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 target-owners
func importTargetOwners(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 peer
func importPeer(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 infos
func importInfos(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 directives
func importDirectives(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 get
func importGet(key string, to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 previous-results
func importPreviousResults(to unsafe.Pointer)

//go:wasmimport peal:pmix/call@0.1.0 push
func importPush(key string, flags, tag int32, first, second int64, third int32, arrays unsafe.Pointer, arrayCount uint32)

//go:wasmimport peal:pmix/amendment@0.1.0 amend
func importAmend(infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32)

//go:wasmimport peal:pmix/amendment@0.1.0 narrow-range
func importNarrowRange(narrowed int32, to unsafe.Pointer)

//go:wasmimport peal:pmix/amendment@0.1.0 rewrite-data
func importRewriteData(infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer)

//go:wasmimport peal:pmix/exception@0.1.0 describe
func importDescribe(text string, places unsafe.Pointer, count uint32)

//go:wasmimport peal:pmix/logging@0.1.0 log
func importLog(level int32, message string)

//go:wasmimport peal:pmix/clock@0.1.0 now
func importNow() int64

//go:wasmimport peal:pmix/notify@0.1.0 notify
func importNotify(code, within int32, infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer)

//go:wasmimport peal:pmix/registration@0.1.0 register
func importRegister(tag uint32, isNamed int32, name unsafe.Pointer, size uint32, codes unsafe.Pointer, codeCount uint32, infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer)

//go:wasmimport peal:pmix/registration@0.1.0 deregister
func importDeregister(registration int64, to unsafe.Pointer)

//go:wasmimport peal:pmix/sink@0.1.0 names
func importSinkNames(to unsafe.Pointer)

//go:wasmimport peal:pmix/sink@0.1.0 write
func importSinkWrite(sink string, data unsafe.Pointer, size uint32, to unsafe.Pointer)

//go:wasmimport peal:pmix/sink@0.1.0 send-mail
func importSinkSendMail(sink string, hasSender int32, sender string, recipients unsafe.Pointer, count uint32, subject, text string, hasServer int32, server string, hasPort, port int32, to unsafe.Pointer)

//go:wasmimport peal:pmix/state@0.1.0 get
func importStateGet(key string, to unsafe.Pointer)

//go:wasmimport peal:pmix/state@0.1.0 set
func importStateSet(key string, value unsafe.Pointer, size uint32, to unsafe.Pointer)

//go:wasmimport peal:pmix/state@0.1.0 delete
func importStateDelete(key string, to unsafe.Pointer)

//go:wasmimport peal:pmix/state@0.1.0 keys
func importStateKeys(prefix string, to unsafe.Pointer)

//go:wasmimport peal:pmix/random@0.1.0 get-random-bytes
func importRandomBytes(count int32, to unsafe.Pointer)

//go:wasmimport peal:pmix/random@0.1.0 get-random-u64
func importRandomUint64() int64

//go:wasmimport peal:pmix/files@0.1.0 directories
func importFileDirectories(to unsafe.Pointer)

//go:wasmimport peal:pmix/files@0.1.0 read
func importFileRead(directory, path string, to unsafe.Pointer)

//go:wasmimport peal:pmix/files@0.1.0 write
func importFileWrite(directory, path string, data unsafe.Pointer, size uint32, to unsafe.Pointer)

//go:wasmimport peal:pmix/files@0.1.0 append
func importFileAppend(directory, path string, data unsafe.Pointer, size uint32, to unsafe.Pointer)

//go:wasmimport peal:pmix/files@0.1.0 remove
func importFileRemove(directory, path string, to unsafe.Pointer)

//go:wasmimport peal:pmix/files@0.1.0 list
func importFileList(directory, path string, to unsafe.Pointer)

//go:wasmimport peal:pmix/job-control@0.1.0 request
func importJobControl(targets unsafe.Pointer, count uint32, infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer)

//go:wasmimport peal:pmix/log-request@0.1.0 submit
func importLogRequest(data unsafe.Pointer, dataCount uint32, dataArrays unsafe.Pointer, dataArrayCount uint32, infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer)

//go:wasmimport peal:pmix/resource-usage@0.1.0 query
func importResourceUsage(procs unsafe.Pointer, count uint32, to unsafe.Pointer)

// importExit ends the call: the adapter of the build answers it with a trap.
//
//go:wasmimport wasi_snapshot_preview1 proc_exit
func importExit(status int32)

//go:wasmexport cabi_realloc
func exportReallocate(from, oldSize, align, size uint32) unsafe.Pointer {
	return reallocate(from, oldSize, align, size)
}
