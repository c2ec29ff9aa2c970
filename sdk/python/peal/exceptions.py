"""Description of exceptions to the host before they end the call."""
from .component import exception

# Directory of this library, whose functions are no part of an author's code.
_LIBRARY = __file__.rpartition("/")[0] + "/"


def described(body, function):
    """Makes a method of `body`, which calls an author's function with what the host passed, if it passed anything: exceptions are described to the host first. For an exception that is
    a result, such as `Err` of `init`, the description has no effect."""
    root = function.__code__.co_filename.rpartition("/")[0] + "/" if hasattr(function, "__code__") else ""

    def method(_self, head=None):
        try:
            return body(head)
        except BaseException as error:
            exception.describe(_text(error), _places(error.__traceback__, root))
            raise

    return method


def _text(error):
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be made)"
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def _places(traceback, root):
    """Returns file, line and function of each call, innermost first, with files relative to the author's directory. Calls within this
    library are left out, unless there are no others."""
    own, others = [], []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        is_own = not code.co_filename.startswith(_LIBRARY)
        file = code.co_filename.removeprefix(root) if is_own else "peal/" + code.co_filename.removeprefix(_LIBRARY)
        (own if is_own else others).append(f"{file}:{traceback.tb_lineno} in {code.co_qualname}")
        traceback = traceback.tb_next
    return (own or others)[::-1]
