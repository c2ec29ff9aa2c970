package peal

import (
	"runtime"
	"unsafe"
)

// What the host says of the current call.

func callSource() (Proc, bool) {
	importSource(result())
	if read[uint8](result(), 0) == 0 {
		return Proc{}, false
	}
	return liftProc(read[rawProc](result(), 4)), true
}

func identity(isSome uint8, from unsafe.Pointer) (UserIdentity, bool) {
	if isSome == 0 {
		return UserIdentity{}, false
	}
	return *(*UserIdentity)(from), true
}

func callCredentials() (UserIdentity, bool) {
	importCredentials(result())
	return identity(read[uint8](result(), 0), unsafe.Add(result(), 4))
}

func callServerIdentity() (UserIdentity, bool) {
	importServerIdentity(result())
	return identity(read[uint8](result(), 0), unsafe.Add(result(), 4))
}

func callTargets() []Proc {
	importTargets(result())
	return liftProcs(read[list](result(), 0))
}

func callTargetProcs() []TargetProc {
	type optionalIdentity struct {
		isSome   uint8
		identity UserIdentity
	}
	procs := callTargets()
	importTargetOwners(result())
	owners := items[optionalIdentity](read[list](result(), 0))
	targets := make([]TargetProc, 0, len(procs))
	for at, proc := range procs {
		target := TargetProc{Proc: proc}
		if at < len(owners) && owners[at].isSome != 0 {
			target.Owner = &owners[at].identity
		}
		targets = append(targets, target)
	}
	return targets
}

func callPeer() (PeerInfo, bool) {
	importPeer(result())
	if read[uint8](result(), 0) == 0 {
		return PeerInfo{}, false
	}
	peer := PeerInfo{Release: liftText(read[list](result(), 12))}
	if read[uint8](result(), 4) != 0 {
		peer.Pid = read[uint32](result(), 8)
	}
	return peer, true
}

func callUnixGroups() []UnixGroup {
	type rawGroup struct {
		gid  uint32
		name rawOptionalText
	}
	importUnixGroups(result())
	raw := items[rawGroup](read[list](result(), 0))
	groups := make([]UnixGroup, 0, len(raw))
	for _, group := range raw {
		groups = append(groups, UnixGroup{group.gid, liftOptionalText(group.name)})
	}
	return groups
}

func callInfos() []Info {
	importInfos(result())
	return liftFlatInfos(read[rawFlatInfos](result(), 0))
}

func callDirectives() []Info {
	importDirectives(result())
	return liftFlatInfos(read[rawFlatInfos](result(), 0))
}

func callGet(key string) Value {
	importGet(key, result())
	if read[uint8](result(), 0) == 0 {
		return nil
	}
	return liftValue((*rawValue)(unsafe.Add(result(), 8)), liftArrays(read[list](result(), 32)))
}

func callPreviousResults() []ChainResult {
	importPreviousResults(result())
	raw := read[rawFlatInfos](result(), 0)
	arrays := liftArrays(raw.arrays)
	results := make([]ChainResult, 0, raw.infos.len)
	for _, one := range items[rawResult](raw.infos) {
		results = append(results, ChainResult{liftText(one.name), one.status, liftInfos(one.infos, arrays)})
	}
	return results
}

// describe tells the host of a panic, which then ends the call.
func describe(text string, places []string) {
	var low lowering
	raw := low.texts(places)
	importDescribe(text, at(raw.address), raw.len)
	runtime.KeepAlive(low.keep)
}
