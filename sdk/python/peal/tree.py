"""Conversion between the tree of values that authors use and the flat form of the contract, where arrays lie beside the infos and
values refer to them. Imported only within a component."""
from wit_world.imports import types

from . import values as v

_NUMBERS = (
    "Byte", "Size", "Pid", "Int", "Int8", "Int16", "Int32", "Int64", "Uint", "Uint8", "Uint16", "Uint32", "Uint64", "Time",
    "Status", "Rank",
)
_LIFT = {getattr(types, f"Value_{name}"): getattr(v, name) for name in _NUMBERS}
_LIFT.update({types.Value_Float32: v.Float32, types.Value_Nspace: v.Nspace, types.Value_Bytes: bytes})
_LIFT.update({types.Value_Boolean: bool, types.Value_Text: str, types.Value_Float64: float})
_LOWER = {wrapped: flat for flat, wrapped in _LIFT.items()}


def lift_proc(proc):
    return None if proc is None else v.Proc(proc.nspace, proc.rank)


def lift_identity(identity):
    return None if identity is None else v.UserIdentity(identity.uid, identity.gid)


class Lift:
    """Moves arrays into the values that refer to them. A reference to a missing array becomes None."""

    def __init__(self, arrays):
        self.arrays = []
        # In order: an array refers only to earlier ones.
        for array in arrays:
            items = array.items.value
            if isinstance(array.items, types.ArrayItems_Infos):
                items = self.infos(items)
            elif isinstance(array.items, types.ArrayItems_Procs):
                items = [lift_proc(proc) for proc in items]
            else:
                items = [self.value(item) for item in items]
            self.arrays.append(v.Array(items, array.element))

    def infos(self, infos):
        return [v.Info(info.key, self.value(info.value), v.InfoFlags(info.flags.value)) for info in infos]

    def value(self, flat):
        kind = type(flat)
        lift = _LIFT.get(kind)
        if lift is not None:
            return lift(flat.value)
        if kind is types.Value_Undef:
            return None
        if kind is types.Value_Proc:
            return lift_proc(flat.value)
        if kind is types.Value_Range:
            return v.Range(flat.value.value)
        if kind is types.Value_Timeval:
            return v.Timeval(*flat.value)
        if kind is types.Value_Array:
            return self.arrays[flat.value] if flat.value < len(self.arrays) else None
        return v.Opaque(flat.value.data_type, flat.value.handle)


def lift_infos(content):
    return Lift(content.arrays).infos(content.infos)


def lift_value(found):
    return None if found is None else Lift(found.arrays).value(found.value)


def lift_results(results):
    lift = Lift(results.arrays)
    return [v.ChainResult(step.name, step.status, lift.infos(step.infos)) for step in results.results]


def lower_value(value, arrays):
    flat = _LOWER.get(type(value))
    if flat is not None:
        return flat(value)
    if value is None:
        return types.Value_Undef()
    if isinstance(value, v.Proc):
        return types.Value_Proc(types.Proc(value.nspace, value.rank))
    if isinstance(value, v.Range):
        return types.Value_Range(types.Range(int(value)))
    if isinstance(value, v.Timeval):
        return types.Value_Timeval((value.seconds, value.microseconds))
    if isinstance(value, v.Opaque):
        return types.Value_Other(types.Opaque(value.data_type, value.handle))
    if isinstance(value, bytearray):
        return types.Value_Bytes(bytes(value))
    if isinstance(value, (list, tuple)):
        return types.Value_Array(_lower_array(value, arrays))
    if isinstance(value, int):
        return types.Value_Int64(v.Int64(value)) if value < 1 << 63 else types.Value_Uint64(v.Uint64(value))
    v.data_type(value)  # raises, naming what it is
    raise TypeError(f"{value!r} stands alone; it belongs into an array")


def _lower_array(items, arrays):
    element = getattr(items, "element", None)
    element = v.element_of(items) if element is None else element
    if element == v.INFO:
        lowered = types.ArrayItems_Infos(lower_infos(items, arrays))
    elif element == v.PROC:
        lowered = types.ArrayItems_Procs([types.Proc(proc.nspace, proc.rank) for proc in items])
    else:
        lowered = types.ArrayItems_Values([lower_value(item, arrays) for item in items])
    arrays.append(types.Array(element, lowered))
    return len(arrays) - 1


def lower_info(info, arrays):
    return types.Info(info.key, types.InfoFlags(int(info.flags)), lower_value(info.value, arrays))


def lower_infos(infos, arrays):
    return [lower_info(info, arrays) for info in infos]


def lower_flat_infos(infos):
    arrays = []
    return types.FlatInfos(lower_infos(infos, arrays), arrays)
