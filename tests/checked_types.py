"""The type checker that the tests put around all functions of firstlight: beartype, compiled once per signature."""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from types import FunctionType
from typing import Any

from beartype import BeartypeConf, beartype
from jaxtyping import _decorator

_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))
_checkers: dict[Hashable, Any] = {}


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a checker of arguments and results, or return the one of an equal signature.

    jaxtyping hands over an empty function with the signature of the real one, so two with the same name, parameters
    and annotations are the same. A function inside another is defined at every call of it, and to compile its checker
    takes 2 ms each time. Most functions are never called in a process, so compiling waits for the first call.
    """
    if not isinstance(function, FunctionType):
        return _beartype(function)
    code = function.__code__
    signature = (
        function.__module__,
        function.__qualname__,
        code.co_varnames,
        (code.co_posonlyargcount, code.co_argcount, code.co_kwonlyargcount, code.co_flags),
        tuple(function.__annotations__.items()),
    )
    try:
        known = _checkers.get(signature)
    except TypeError:  # an annotation that cannot be hashed
        return _beartype(function)
    if known is None:
        known = _checkers[signature] = _on_first_call(function)
    return known


def _once_per_signature(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what was made before: jaxtyping writes and compiles the empty functions anew at every definition."""
    made = lru_cache(maxsize=10_000)(make)

    @wraps(make)
    def make_or_return(*args: Any, **kwargs: Any) -> Any:
        try:
            return made(*args, **kwargs)
        except TypeError:  # a default or an annotation that cannot be hashed
            return make(*args, **kwargs)

    return make_or_return


_decorator._make_fn_with_signature = _once_per_signature(_decorator._make_fn_with_signature)


def _on_first_call(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: list[Callable[..., Any]] = []

    def check(*args: Any, **kwargs: Any) -> Any:
        if not compiled:
            compiled.append(_beartype(function))
        return compiled[0](*args, **kwargs)

    return check
