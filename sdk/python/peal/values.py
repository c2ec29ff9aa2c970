"""Values and infos as authors use them.

| PMIx | Python |
|---|---|
| no value, a NULL string | `None` |
| boolean, string, double, byte object | `bool`, `str`, `float`, `bytes` |
| integers | `Byte`, `Size`, `Pid`, `Int` ... `Uint64`, `Time`, `Status`, `Rank`: each an `int` |
| namespace, single precision | `Nspace` (a `str`), `Float32` (a `float`) |
| array of infos, procs or anything else | `Array` (a `list`) |

Values that are returned may also be a plain `int` (64 bits, signed if it fits) or `list` (of the type of its first element).
"""
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple, Optional


class Number(int):
    """Integer that keeps its PMIx type. Its range is checked."""

    data_type = 0
    low, high = 0, 0

    def __new__(cls, value=0):
        number = super().__new__(cls, value)
        if not cls.low <= number <= cls.high:
            raise ValueError(f"{cls.__name__}({value}): it must be between {cls.low} and {cls.high}")
        return number

    def __repr__(self):
        return f"{type(self).__name__}({int(self)})"


def _number(name, data_type, bits, signed, doc):
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    body = {"__doc__": doc, "__slots__": (), "data_type": data_type, "low": low, "high": high, "__module__": __name__}
    return type(name, (Number,), body)


Byte = _number("Byte", 2, 8, False, "One byte.")
Size = _number("Size", 4, 64, False, "A size or count.")
Pid = _number("Pid", 5, 32, False, "A process id.")
Int = _number("Int", 6, 32, True, "A C `int`.")
Int8 = _number("Int8", 7, 8, True, "8 bits, signed.")
Int16 = _number("Int16", 8, 16, True, "16 bits, signed.")
Int32 = _number("Int32", 9, 32, True, "32 bits, signed.")
Int64 = _number("Int64", 10, 64, True, "64 bits, signed.")
Uint = _number("Uint", 11, 32, False, "A C `unsigned int`.")
Uint8 = _number("Uint8", 12, 8, False, "8 bits.")
Uint16 = _number("Uint16", 13, 16, False, "16 bits.")
Uint32 = _number("Uint32", 14, 32, False, "32 bits.")
Uint64 = _number("Uint64", 15, 64, False, "64 bits.")
Time = _number("Time", 19, 64, False, "Seconds since the epoch.")
Status = _number("Status", 20, 32, True, "A status or event code.")
Rank = _number("Rank", 40, 32, False, "A rank.")


class Float32(float):
    """Single precision."""

    data_type = 16

    def __repr__(self):
        return f"Float32({float(self)})"


class Nspace(str):
    """Namespace."""

    data_type = 60

    def __repr__(self):
        return f"Nspace({str(self)!r})"


class Timeval(NamedTuple):
    """Span or point of time."""

    seconds: int
    microseconds: int


class Proc(NamedTuple):
    """Proc: namespace and rank."""

    nspace: str
    rank: int

    def __str__(self):
        return f"{self.nspace}:{self.rank}"


class UserIdentity(NamedTuple):
    """User and group of a process, as reported by the kernel."""

    uid: int
    gid: int


class Opaque(NamedTuple):
    """Value of a type that the contract does not define, or string that is not UTF-8. It can be passed on within the same call."""

    data_type: int
    handle: int


class Range(IntEnum):
    """Range of an event."""

    UNDEF = 0
    RM = 1
    LOCAL = 2
    NAMESPACE = 3
    SESSION = 4
    GLOBAL = 5
    CUSTOM = 6
    PROC_LOCAL = 7


class InfoFlags(IntFlag):
    """Flags of an info."""

    NONE = 0
    REQUIRED = 1
    ARRAY_END = 2
    REQUIRED_PROCESSED = 4
    QUALIFIER = 8
    PERSISTENT = 16


@dataclass(slots=True)
class Info:
    """Info or directive."""

    key: str
    value: Any = None
    flags: InfoFlags = InfoFlags.NONE


@dataclass
class ChainResult:
    """Result of one module of a chain: its name, its status (-1000000 and below for a module that failed), its infos."""

    name: str
    status: int
    infos: list


class Array(list):
    """Array of values of one type, which is given even if the array is empty: `element`, a PMIx type number."""

    def __init__(self, items=(), element: Optional[int] = None):
        super().__init__(items)
        self.element = element_of(self) if element is None else element

    def __eq__(self, other):
        return list.__eq__(self, other) and self.element == getattr(other, "element", self.element)

    def __repr__(self):
        return f"Array({list.__repr__(self)}, element={self.element})"


PROC, INFO = 22, 24


def data_type(value) -> int:
    """Returns the PMIx type number of a value."""
    own = getattr(value, "data_type", None)
    if own is not None:
        return own
    plain = (
        (type(None), 0), (bool, 1), (str, 3), (Range, 33), (float, 17), (Timeval, 18), (Proc, PROC), (Info, INFO),
        ((bytes, bytearray), 27), ((list, tuple), 39),
    )
    for kind, number in plain:
        if isinstance(value, kind):
            return number
    if isinstance(value, int):
        return 10 if value < 1 << 63 else 15
    raise TypeError(f"{value!r} is no value of PMIx: see peal.values for those that are")


def element_of(items) -> int:
    """Returns the type of the first item that has one."""
    return next((data_type(item) for item in items if item is not None), 0)


def find(infos, key):
    """Returns the value of the last info with this key, or None."""
    return next((info.value for info in reversed(infos) if info.key == key), None)
