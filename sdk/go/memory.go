package peal

import (
	"runtime"
	"unsafe"
)

// Memory that the host writes to. The collector moves nothing and sees pointers into it, so texts are used where the host wrote
// them: it is never written twice, and goes when nothing refers to it.
var (
	chunk []uint64
	used  uintptr
	// held keeps chunks that are full until the call ends: what the host has written so far is not referred to yet.
	held [][]uint64
)

const chunkWords = 512

// allocate returns memory that is aligned to 8 bytes.
func allocate(size uintptr) unsafe.Pointer {
	size = (size + 7) &^ 7
	if used+size > uintptr(len(chunk))*8 {
		held = append(held, chunk)
		chunk, used = make([]uint64, max(chunkWords, size/8)), 0
	}
	at := unsafe.Pointer(&chunk[used/8])
	used += size
	return at
}

// reallocate is cabi_realloc, by which the host asks for memory.
func reallocate(from, oldSize, align, size uint32) unsafe.Pointer {
	if size == 0 {
		return at(align)
	}
	to := allocate(uintptr(size))
	copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(at(from)), min(oldSize, size)))
	return to
}

// area is what imports write their results to. One call runs at a time.
var area [6]uint64

func result() unsafe.Pointer { return unsafe.Pointer(&area) }

// at returns the pointer to an address of the component's memory.
func at(address uint32) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(nil), uintptr(address)) }

// address returns the address of what a pointer points to.
func address[T any](pointer *T) uint32 { return uint32(uintptr(unsafe.Pointer(pointer))) }

func read[T any](from unsafe.Pointer, offset uintptr) T { return *(*T)(unsafe.Add(from, offset)) }

// Structures of the canonical ABI.
type (
	list struct {
		address, len uint32
	}
	rawValue struct {
		tag     uint8
		_       [7]uint8
		payload [2]uint64
	}
	rawInfo struct {
		key   list
		flags uint8
		_     [7]uint8
		value rawValue
	}
	rawArray struct {
		element uint16
		_       uint16
		items   uint8 // 0 infos, 1 procs, 2 values
		_       [3]uint8
		list    list
	}
	rawProc struct {
		nspace list
		rank   uint32
	}
	rawResult struct {
		name   list
		status int32
		infos  list
	}
	rawFlatInfos struct {
		infos, arrays list
	}
	rawOptionalText struct {
		isSome uint8
		_      [3]uint8
		text   list
	}
	rawRegistration struct {
		tag        uint32
		name       rawOptionalText
		codes      list
		directives rawFlatInfos
	}
	rawApplication struct {
		command, arguments, environment list
		directory                       rawOptionalText
		procs, directives               uint32
	}
)

// Tags of values.
const (
	tagUndef = iota
	tagBoolean
	tagByte
	tagText
	tagSize
	tagPid
	tagInt
	tagInt8
	tagInt16
	tagInt32
	tagInt64
	tagUint
	tagUint8
	tagUint16
	tagUint32
	tagUint64
	tagFloat32
	tagFloat64
	tagTimeval
	tagTime
	tagStatus
	tagProc
	tagNspace
	tagRank
	tagRange
	tagBytes
	tagArray
	tagOther
)

// ---- from the host

func items[T any](from list) []T { return unsafe.Slice((*T)(at(from.address)), from.len) }

func liftText(from list) string { return unsafe.String((*byte)(at(from.address)), from.len) }

func liftBytes(from list) []byte {
	if from.len == 0 {
		return nil
	}
	return items[byte](from)
}

func liftTexts(from list) []string {
	texts := make([]string, 0, from.len)
	for _, text := range items[list](from) {
		texts = append(texts, liftText(text))
	}
	return texts
}

func liftOptionalText(from rawOptionalText) string {
	if from.isSome == 0 {
		return ""
	}
	return liftText(from.text)
}

func liftProc(from rawProc) Proc { return Proc{liftText(from.nspace), from.rank} }

func liftProcs(from list) []Proc {
	procs := make([]Proc, 0, from.len)
	for _, proc := range items[rawProc](from) {
		procs = append(procs, liftProc(proc))
	}
	return procs
}

// liftArrays lifts arrays in order: an array refers only to earlier ones.
func liftArrays(from list) []Array {
	if from.len == 0 {
		return nil
	}
	arrays := make([]Array, 0, from.len)
	for _, raw := range items[rawArray](from) {
		array := Array{Element: Type(raw.element)}
		switch raw.items {
		case 0:
			array.Infos = liftInfos(raw.list, arrays)
		case 1:
			array.Procs = liftProcs(raw.list)
		default:
			array.Values = make([]Value, 0, raw.list.len)
			values := items[rawValue](raw.list)
			for at := range values {
				array.Values = append(array.Values, liftValue(&values[at], arrays))
			}
		}
		arrays = append(arrays, array)
	}
	return arrays
}

func liftInfos(from list, arrays []Array) []Info {
	infos := make([]Info, 0, from.len)
	raw := items[rawInfo](from)
	for at := range raw {
		info := &raw[at]
		infos = append(infos, Info{liftText(info.key), liftValue(&info.value, arrays), Flags(info.flags)})
	}
	return infos
}

func liftFlatInfos(from rawFlatInfos) []Info { return liftInfos(from.infos, liftArrays(from.arrays)) }

// liftValue makes nil of a reference to a missing array.
func liftValue(raw *rawValue, arrays []Array) Value {
	first := raw.payload[0]
	text := list{uint32(first), uint32(first >> 32)}
	payload := unsafe.Pointer(&raw.payload)
	switch raw.tag {
	case tagBoolean:
		return Bool(uint8(first) != 0)
	case tagByte:
		return Byte(first)
	case tagText:
		return String(liftText(text))
	case tagSize:
		return Size(first)
	case tagPid:
		return Pid(first)
	case tagInt:
		return Int(first)
	case tagInt8:
		return Int8(first)
	case tagInt16:
		return Int16(first)
	case tagInt32:
		return Int32(first)
	case tagInt64:
		return Int64(first)
	case tagUint:
		return Uint(first)
	case tagUint8:
		return Uint8(first)
	case tagUint16:
		return Uint16(first)
	case tagUint32:
		return Uint32(first)
	case tagUint64:
		return Uint64(first)
	case tagFloat32:
		return read[Float32](payload, 0)
	case tagFloat64:
		return read[Float64](payload, 0)
	case tagTimeval:
		return Timeval{int64(first), int64(raw.payload[1])}
	case tagTime:
		return Time(first)
	case tagStatus:
		return Status(first)
	case tagProc:
		return Proc{liftText(text), uint32(raw.payload[1])}
	case tagNspace:
		return Nspace(liftText(text))
	case tagRank:
		return Rank(first)
	case tagRange:
		return Range(first)
	case tagBytes:
		return Bytes(liftBytes(text))
	case tagArray:
		if at := uint32(first); int(at) < len(arrays) {
			return arrays[at]
		}
	case tagOther:
		return Opaque{Type(uint16(first)), uint32(first >> 32)}
	}
	return nil
}

// ---- to the host

// lowering holds what is lowered until the host has read it: the structures refer to each other by address, which the collector
// does not see.
type lowering struct {
	arrays []rawArray
	keep   []any
}

func listOf[T any](from []T) list { return list{address(unsafe.SliceData(from)), uint32(len(from))} }

func lowerText(text string) list { return list{address(unsafe.StringData(text)), uint32(len(text))} }

func lowerOptionalText(text string) rawOptionalText {
	if text == "" {
		return rawOptionalText{}
	}
	return rawOptionalText{isSome: 1, text: lowerText(text)}
}

func (low *lowering) texts(texts []string) list {
	raw := make([]list, 0, len(texts))
	for _, text := range texts {
		raw = append(raw, lowerText(text))
	}
	low.keep = append(low.keep, raw, texts)
	return listOf(raw)
}

func (low *lowering) procs(procs []Proc) list {
	raw := make([]rawProc, 0, len(procs))
	for _, proc := range procs {
		raw = append(raw, rawProc{lowerText(proc.Nspace), proc.Rank})
	}
	low.keep = append(low.keep, raw, procs)
	return listOf(raw)
}

func (low *lowering) infos(infos []Info) list {
	raw := make([]rawInfo, 0, len(infos))
	for at := range infos {
		info := &infos[at]
		raw = append(raw, rawInfo{key: lowerText(info.Key), flags: uint8(info.Flags), value: low.value(info.Value)})
	}
	low.keep = append(low.keep, raw, infos)
	return listOf(raw)
}

func (low *lowering) flatInfos(infos []Info) rawFlatInfos {
	raw := rawFlatInfos{infos: low.infos(infos)}
	raw.arrays = low.allArrays()
	return raw
}

// allArrays takes the arrays that were lowered since it was last called.
func (low *lowering) allArrays() list {
	arrays := low.arrays
	low.arrays = nil
	if len(arrays) > 0 {
		low.keep = append(low.keep, arrays)
	}
	return listOf(arrays)
}

func (low *lowering) array(array Array) uint32 {
	raw := rawArray{element: uint16(array.Element)}
	switch {
	case array.Element == TypeInfo:
		raw.list = low.infos(array.Infos)
	case array.Element == TypeProc:
		raw.items, raw.list = 1, low.procs(array.Procs)
	default:
		values := make([]rawValue, 0, len(array.Values))
		for _, value := range array.Values {
			values = append(values, low.value(value))
		}
		low.keep = append(low.keep, values)
		raw.items, raw.list = 2, listOf(values)
	}
	// Arrays within this one were added before it.
	low.arrays = append(low.arrays, raw)
	return uint32(len(low.arrays) - 1)
}

func pair(from list) uint64 { return uint64(from.address) | uint64(from.len)<<32 }

func (low *lowering) value(value Value) rawValue {
	plain := func(tag uint8, payload uint64) rawValue { return rawValue{tag: tag, payload: [2]uint64{payload}} }
	switch v := value.(type) {
	case nil:
		return rawValue{}
	case Bool:
		if v {
			return plain(tagBoolean, 1)
		}
		return plain(tagBoolean, 0)
	case Byte:
		return plain(tagByte, uint64(v))
	case String:
		return plain(tagText, pair(lowerText(string(v))))
	case Size:
		return plain(tagSize, uint64(v))
	case Pid:
		return plain(tagPid, uint64(v))
	case Int:
		return plain(tagInt, uint64(uint32(v)))
	case Int8:
		return plain(tagInt8, uint64(uint32(v)))
	case Int16:
		return plain(tagInt16, uint64(uint32(v)))
	case Int32:
		return plain(tagInt32, uint64(uint32(v)))
	case Int64:
		return plain(tagInt64, uint64(v))
	case Uint:
		return plain(tagUint, uint64(v))
	case Uint8:
		return plain(tagUint8, uint64(v))
	case Uint16:
		return plain(tagUint16, uint64(v))
	case Uint32:
		return plain(tagUint32, uint64(v))
	case Uint64:
		return plain(tagUint64, uint64(v))
	case Float32:
		return plain(tagFloat32, uint64(read[uint32](unsafe.Pointer(&v), 0)))
	case Float64:
		return plain(tagFloat64, read[uint64](unsafe.Pointer(&v), 0))
	case Timeval:
		return rawValue{tag: tagTimeval, payload: [2]uint64{uint64(v.Seconds), uint64(v.Microseconds)}}
	case Time:
		return plain(tagTime, uint64(v))
	case Status:
		return plain(tagStatus, uint64(uint32(v)))
	case Proc:
		return rawValue{tag: tagProc, payload: [2]uint64{pair(lowerText(v.Nspace)), uint64(v.Rank)}}
	case Nspace:
		return plain(tagNspace, pair(lowerText(string(v))))
	case Rank:
		return plain(tagRank, uint64(v))
	case Range:
		return plain(tagRange, uint64(v))
	case Bytes:
		return plain(tagBytes, pair(listOf(v)))
	case Array:
		return plain(tagArray, uint64(low.array(v)))
	case Opaque:
		return plain(tagOther, uint64(v.DataType)|uint64(v.Handle)<<32)
	}
	panic("a Value is one of the types of this package")
}

// flat returns a value as parameters of a function: the tag, and three more that all types share.
func (raw *rawValue) flat() (tag int32, first, second int64, third int32) {
	first, second = int64(raw.payload[0]), int64(raw.payload[1])
	switch raw.tag {
	case tagText, tagNspace, tagBytes:
		return int32(raw.tag), first & 0xffffffff, int64(raw.payload[0] >> 32), 0
	case tagProc:
		return int32(raw.tag), first & 0xffffffff, int64(raw.payload[0] >> 32), int32(raw.payload[1])
	case tagOther:
		return int32(raw.tag), first & 0xffff, int64(raw.payload[0] >> 32), 0
	}
	return int32(raw.tag), first, second, 0
}

// push adds an info to the result of this module.
func push(info *Info) {
	var low lowering
	raw := low.value(info.Value)
	tag, first, second, third := raw.flat()
	arrays := low.allArrays()
	importPush(info.Key, int32(info.Flags), tag, first, second, third, at(arrays.address), arrays.len)
	runtime.KeepAlive(low.keep)
	runtime.KeepAlive(info)
}
