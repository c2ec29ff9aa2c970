package peal

import "strconv"

// Type is a PMIx type number.
type Type uint16

// Types of values.
const (
	TypeUndef   Type = 0
	TypeBool    Type = 1
	TypeByte    Type = 2
	TypeString  Type = 3
	TypeSize    Type = 4
	TypePid     Type = 5
	TypeInt     Type = 6
	TypeInt8    Type = 7
	TypeInt16   Type = 8
	TypeInt32   Type = 9
	TypeInt64   Type = 10
	TypeUint    Type = 11
	TypeUint8   Type = 12
	TypeUint16  Type = 13
	TypeUint32  Type = 14
	TypeUint64  Type = 15
	TypeFloat32 Type = 16
	TypeFloat64 Type = 17
	TypeTimeval Type = 18
	TypeTime    Type = 19
	TypeStatus  Type = 20
	TypeProc    Type = 22
	TypeInfo    Type = 24 // elements of arrays only
	TypeBytes   Type = 27
	TypeRange   Type = 33
	TypeArray   Type = 39
	TypeRank    Type = 40
	TypeNspace  Type = 60
)

// Value is a value of one PMIx type: Bool, String, Uint32 and the other types below. A type switch tells which. No value, and a
// NULL string, is nil.
type Value interface {
	// Type returns the PMIx type number.
	Type() Type
}

// Values of one number, text or sequence of bytes. All integers are exact.
type (
	Bool    bool
	Byte    uint8
	String  string
	Size    uint64
	Pid     uint32
	Int     int32 // int of C
	Int8    int8
	Int16   int16
	Int32   int32
	Int64   int64
	Uint    uint32 // unsigned int of C
	Uint8   uint8
	Uint16  uint16
	Uint32  uint32
	Uint64  uint64
	Float32 float32
	Float64 float64
	Time    uint64 // seconds since the epoch
	Status  int32
	Rank    uint32
	Nspace  string
	Bytes   []byte
)

// Timeval is a span or point of time.
type Timeval struct {
	Seconds, Microseconds int64
}

// Proc is a namespace and a rank.
type Proc struct {
	Nspace string
	Rank   uint32
}

// String returns the proc as the command line writes it, such as "solver:3".
func (proc Proc) String() string {
	return proc.Nspace + ":" + strconv.FormatUint(uint64(proc.Rank), 10)
}

// Range is the range of an event.
type Range uint8

// Ranges of events.
const (
	RangeUndef Range = iota
	RangeRM
	RangeLocal
	RangeNamespace
	RangeSession
	RangeGlobal
	RangeCustom
	RangeProcLocal
)

// Array is an array of values of one type, which is given even if the array is empty. Infos and procs have fields of their own.
type Array struct {
	Element Type
	Infos   []Info // for TypeInfo
	Procs   []Proc // for TypeProc
	Values  []Value
}

// Infos makes an array of infos.
func Infos(infos ...Info) Array { return Array{Element: TypeInfo, Infos: infos} }

// Procs makes an array of procs.
func Procs(procs ...Proc) Array { return Array{Element: TypeProc, Procs: procs} }

// Values makes an array of values of one type.
func Values(element Type, values ...Value) Array { return Array{Element: element, Values: values} }

// Opaque is a value of a type that the contract does not define, or a string that is not UTF-8. It can be passed on within the same
// call.
type Opaque struct {
	DataType Type
	Handle   uint32
}

func (Bool) Type() Type          { return TypeBool }
func (Byte) Type() Type          { return TypeByte }
func (String) Type() Type        { return TypeString }
func (Size) Type() Type          { return TypeSize }
func (Pid) Type() Type           { return TypePid }
func (Int) Type() Type           { return TypeInt }
func (Int8) Type() Type          { return TypeInt8 }
func (Int16) Type() Type         { return TypeInt16 }
func (Int32) Type() Type         { return TypeInt32 }
func (Int64) Type() Type         { return TypeInt64 }
func (Uint) Type() Type          { return TypeUint }
func (Uint8) Type() Type         { return TypeUint8 }
func (Uint16) Type() Type        { return TypeUint16 }
func (Uint32) Type() Type        { return TypeUint32 }
func (Uint64) Type() Type        { return TypeUint64 }
func (Float32) Type() Type       { return TypeFloat32 }
func (Float64) Type() Type       { return TypeFloat64 }
func (Time) Type() Type          { return TypeTime }
func (Status) Type() Type        { return TypeStatus }
func (Rank) Type() Type          { return TypeRank }
func (Nspace) Type() Type        { return TypeNspace }
func (Bytes) Type() Type         { return TypeBytes }
func (Timeval) Type() Type       { return TypeTimeval }
func (Proc) Type() Type          { return TypeProc }
func (Range) Type() Type         { return TypeRange }
func (Array) Type() Type         { return TypeArray }
func (opaque Opaque) Type() Type { return opaque.DataType }

// AsUint64 reads an integer of any type. It returns false for other types, and for a negative number.
func AsUint64(value Value) (uint64, bool) {
	switch v := value.(type) {
	case Byte:
		return uint64(v), true
	case Uint8:
		return uint64(v), true
	case Uint16:
		return uint64(v), true
	case Uint32:
		return uint64(v), true
	case Uint64:
		return uint64(v), true
	case Uint:
		return uint64(v), true
	case Size:
		return uint64(v), true
	case Pid:
		return uint64(v), true
	case Time:
		return uint64(v), true
	case Rank:
		return uint64(v), true
	}
	number, ok := AsInt64(value)
	return uint64(number), ok && number >= 0
}

// AsInt64 reads an integer of any type. It returns false for other types, and for a number that does not fit.
func AsInt64(value Value) (int64, bool) {
	switch v := value.(type) {
	case Int:
		return int64(v), true
	case Int8:
		return int64(v), true
	case Int16:
		return int64(v), true
	case Int32:
		return int64(v), true
	case Int64:
		return int64(v), true
	case Status:
		return int64(v), true
	case Byte, Uint8, Uint16, Uint32, Uint64, Uint, Size, Pid, Time, Rank:
		number, _ := AsUint64(value)
		return int64(number), int64(number) >= 0
	}
	return 0, false
}

// AsText reads a string or a namespace.
func AsText(value Value) (string, bool) {
	switch v := value.(type) {
	case String:
		return string(v), true
	case Nspace:
		return string(v), true
	}
	return "", false
}

// Flags of an info, combined.
type Flags uint8

// Flags of infos.
const (
	Required Flags = 1 << iota
	ArrayEnd
	RequiredProcessed
	Qualifier
	Persistent
)

// Info is an info or directive: a value under a key.
type Info struct {
	Key   string
	Value Value
	Flags Flags
}

// Find returns the value of the last info with this key, or nil.
func Find(infos []Info, key string) Value {
	for at := len(infos) - 1; at >= 0; at-- {
		if infos[at].Key == key {
			return infos[at].Value
		}
	}
	return nil
}

// UserIdentity is the user and group of a process, as reported by the kernel.
type UserIdentity struct {
	UID, GID uint32
}

// ChainResult is the result of one module of a chain. A status of -1000000 or below is one of Peal's own, of a module that failed.
type ChainResult struct {
	Name   string
	Status int32
	Infos  []Info
}
