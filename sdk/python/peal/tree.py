"""Conversion between the tree of values that authors use and the flat form of the contract, where arrays lie beside the infos and
values refer to them. Imported only within a component.

The runtime of `componentize-py` imports the author's module and then looks up, by their names in `types`, what it calls to make the
values that the host passes. This module puts its own constructors there, so that a call makes an author's value at once, and not one of
a generated class that is converted afterwards. Of values that are passed to the host the runtime reads the fields by name, whatever
their class is; only the case of a variant is found by the class."""
from functools import partial

from wit_world.imports import types

from . import values as v

_new = object.__new__


class _Case:
    """Case of a variant, as it is passed to the host."""

    __slots__ = ("value",)


def _case(name, lift):
    """Puts the class of a case into `types`, and returns it. A call of it, which only the runtime makes, returns `lift` of the
    payload."""
    # A class is called by a method of its own class. A static one that is written in C costs a tenth of one in Python.
    kind = type(name, (type,), {"__call__": staticmethod(lift)})
    case = kind(name, (_Case,), {"__slots__": ()})
    setattr(types, name, case)
    return case


def _same(payload):
    return payload


class _ArrayRef(int):
    """Reference to an array, until the arrays are known."""


_NUMBERS = (
    "Byte", "Size", "Pid", "Int", "Int8", "Int16", "Int32", "Int64", "Uint", "Uint8", "Uint16", "Uint32", "Uint64", "Time",
    "Status", "Rank",
)
# What the host passes is in its range, so the constructors of numbers need not check that again.
_LOWER = {kind: _case(f"Value_{kind.__name__}", partial(int.__new__, kind)) for kind in map(partial(getattr, v), _NUMBERS)}
_LOWER.update({kind: _case(f"Value_{kind.__name__}", kind) for kind in (v.Float32, v.Nspace)})
_LOWER.update({kind: _case(f"Value_{kind.__name__}", _same) for kind in (v.Proc, v.Range)})
_LOWER[type(None)] = _case("Value_Undef", type(None))
_LOWER[bool] = _case("Value_Boolean", bool)
_LOWER[str] = _case("Value_Text", str)
_LOWER[float] = _case("Value_Float64", float)
_LOWER[bytes] = _case("Value_Bytes", bytes)
_LOWER[v.Timeval] = _case("Value_Timeval", v.Timeval._make)
_LOWER[v.Opaque] = _case("Value_Other", _same)
_ARRAY = _case("Value_Array", _ArrayRef)
_INFOS, _PROCS, _VALUES = (_case(f"ArrayItems_{name}", _same) for name in ("Infos", "Procs", "Values"))

types.Proc, types.UserIdentity, types.Opaque, types.ChainResult = v.Proc, v.UserIdentity, v.Opaque, v.ChainResult
types.Range = tuple(v.Range).__getitem__
types.InfoFlags = tuple(map(v.InfoFlags, range(32))).__getitem__
types.Array = lambda element, items: v.Array(items, element)


def _lift_info(key, flags, value):
    info = _new(v.Info)
    info.key = key
    info.value = value
    info.flags = flags
    return info


types.Info = _lift_info



def _lift_infos(infos, arrays):
    if arrays:
        _settle(infos, _settled(arrays))
    return infos


def _lift_value(value, arrays):
    return _array(value, _settled(arrays)) if arrays else value


def _lift_results(results, arrays):
    if arrays:
        arrays = _settled(arrays)
        for result in results:
            _settle(result.infos, arrays)
    return results


types.FlatInfos, types.FlatValue, types.ChainResults = _lift_infos, _lift_value, _lift_results


def _array(value, arrays):
    """Returns the array for a reference, other values as they are. A reference to a missing array becomes None."""
    if type(value) is not _ArrayRef:
        return value
    return arrays[value] if value < len(arrays) else None


def _settle(infos, arrays):
    for info in infos:
        info.value = _array(info.value, arrays)


def _settled(arrays):
    # In order: an array refers only to earlier ones.
    for array in arrays:
        for at, item in enumerate(array):
            if type(item) is v.Info:
                item.value = _array(item.value, arrays)
            else:
                array[at] = _array(item, arrays)
    return arrays


class _Flags:
    """Flags of an info, as they are passed to the host."""

    __slots__ = ("value",)

    def __init__(self, bits):
        self.value = bits


_FLAGS = tuple(map(_Flags, range(32)))


class _Info:
    """Info, as it is passed to the host."""

    __slots__ = ("key", "flags", "value")

    def __init__(self, key, flags, value):
        self.key = key
        self.flags = flags
        self.value = value


class _Array:
    """Array, as it is passed to the host."""

    __slots__ = ("element", "items")

    def __init__(self, element, items):
        self.element = element
        self.items = items


class _FlatInfos:
    """Infos with their arrays, as they are passed to the host."""

    __slots__ = ("infos", "arrays")

    def __init__(self, infos, arrays):
        self.infos = infos
        self.arrays = arrays


def _flat(case, value):
    flat = _new(case)
    flat.value = value
    return flat


def lower_value(value, arrays):
    case = _LOWER.get(type(value))
    if case is not None:
        return _flat(case, value)
    if isinstance(value, bytearray):
        return _flat(_LOWER[bytes], bytes(value))
    if isinstance(value, (list, tuple)):
        return _flat(_ARRAY, _lower_array(value, arrays))
    if isinstance(value, int):
        return _flat(_LOWER[v.Int64], v.Int64(value)) if value < 1 << 63 else _flat(_LOWER[v.Uint64], v.Uint64(value))
    v.data_type(value)  # raises, naming what it is
    raise TypeError(f"{value!r} stands alone; it belongs into an array")


def _lower_array(items, arrays):
    element = getattr(items, "element", None)
    element = v.element_of(items) if element is None else element
    if element == v.INFO:
        lowered = _flat(_INFOS, lower_infos(items, arrays))
    elif element == v.PROC:
        lowered = _flat(_PROCS, list(items))
    else:
        lowered = _flat(_VALUES, [lower_value(item, arrays) for item in items])
    arrays.append(_Array(element, lowered))
    return len(arrays) - 1


def lower_info(info, arrays):
    return _Info(info.key, _FLAGS[info.flags], lower_value(info.value, arrays))


def lower_infos(infos, arrays):
    return [lower_info(info, arrays) for info in infos]


# The host reads what is passed to it at once, so one object of each kind serves for all infos that are passed one by one.
_PASSED = _Info("", _FLAGS[0], None)
_PLAIN = {kind: _new(case) for kind, case in _LOWER.items()}


def pass_each(infos, host):
    """Passes each info, with the arrays that it refers to, to a function of the host."""
    for info in infos:
        value, arrays = info.value, []
        flat = _PLAIN.get(type(value))
        if flat is None:
            flat = lower_value(value, arrays)
        else:
            flat.value = value
        _PASSED.key = info.key
        _PASSED.flags = _FLAGS[info.flags]
        _PASSED.value = flat
        host(_PASSED, arrays)


def lower_flat_infos(infos):
    arrays = []
    return _FlatInfos(lower_infos(infos, arrays), arrays)
