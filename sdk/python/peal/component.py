"""Bindings of a component; None elsewhere. Imported here once, while the component is built: when it runs there are no files to
import from."""
try:
    from componentize_py_types import Err
    from wit_world.imports import amendment, call, exception, types

    from . import tree
except ImportError:  # any Python outside of a component
    Err = amendment = call = exception = types = tree = None
