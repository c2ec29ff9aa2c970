//go:build !wasm

package peal

import "unsafe"

// Imports of a component have nobody to answer them elsewhere.

func outside() {
	panic("peal: only a host answers this; a test gives a function a NewEvent, NewRequest or NewLogRequest")
}

func importSource(to unsafe.Pointer) { outside() }

func importCredentials(to unsafe.Pointer) { outside() }

func importUnixGroups(to unsafe.Pointer) { outside() }

func importServerIdentity(to unsafe.Pointer) { outside() }

func importTargets(to unsafe.Pointer) { outside() }

func importTargetOwners(to unsafe.Pointer) { outside() }

func importPeer(to unsafe.Pointer) { outside() }

func importInfos(to unsafe.Pointer) { outside() }

func importDirectives(to unsafe.Pointer) { outside() }

func importGet(key string, to unsafe.Pointer) { outside() }

func importPreviousResults(to unsafe.Pointer) { outside() }

func importPush(key string, flags, tag int32, first, second int64, third int32, arrays unsafe.Pointer, arrayCount uint32) {
	outside()
}

func importAmend(infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32) {
	outside()
}

func importNarrowRange(narrowed int32, to unsafe.Pointer) { outside() }

func importRewriteData(infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer) {
	outside()
}

func importDescribe(text string, places unsafe.Pointer, count uint32) { outside() }

func importLog(level int32, message string) { outside() }

func importNow() int64 {
	outside()
	return 0
}

func importNotify(code, within int32, infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer) {
	outside()
}

func importRegister(tag uint32, isNamed int32, name unsafe.Pointer, size uint32, codes unsafe.Pointer, codeCount uint32, infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer) {
	outside()
}

func importDeregister(registration int64, to unsafe.Pointer) { outside() }

func importSinkNames(to unsafe.Pointer) { outside() }

func importSinkWrite(sink string, data unsafe.Pointer, size uint32, to unsafe.Pointer) { outside() }

func importSinkSendMail(sink string, hasSender int32, sender string, recipients unsafe.Pointer, count uint32, subject, text string, hasServer int32, server string, hasPort, port int32, to unsafe.Pointer) {
	outside()
}

func importStateGet(key string, to unsafe.Pointer) { outside() }

func importStateSet(key string, value unsafe.Pointer, size uint32, to unsafe.Pointer) { outside() }

func importStateDelete(key string, to unsafe.Pointer) { outside() }

func importStateKeys(prefix string, to unsafe.Pointer) { outside() }

func importRandomBytes(count int32, to unsafe.Pointer) { outside() }

func importRandomUint64() int64 {
	outside()
	return 0
}

func importFileDirectories(to unsafe.Pointer) { outside() }

func importFileRead(directory, path string, to unsafe.Pointer) { outside() }

func importFileWrite(directory, path string, data unsafe.Pointer, size uint32, to unsafe.Pointer) {
	outside()
}

func importFileAppend(directory, path string, data unsafe.Pointer, size uint32, to unsafe.Pointer) {
	outside()
}

func importFileRemove(directory, path string, to unsafe.Pointer) { outside() }

func importFileList(directory, path string, to unsafe.Pointer) { outside() }

func importJobControl(targets unsafe.Pointer, count uint32, infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer) {
	outside()
}

func importLogRequest(data unsafe.Pointer, dataCount uint32, dataArrays unsafe.Pointer, dataArrayCount uint32, infos unsafe.Pointer, infoCount uint32, arrays unsafe.Pointer, arrayCount uint32, to unsafe.Pointer) {
	outside()
}

func importResourceUsage(procs unsafe.Pointer, count uint32, to unsafe.Pointer) { outside() }

func importExit(status int32) { outside() }
