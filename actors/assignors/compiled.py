"""Run the kernels: plain Python on lists for small groups, compiled on arrays for big ones.

numpy costs a process 20 MB and a tenth of a second, numba 50 MB and a third, so only a big group makes a
process import them. numba's on-disk cache lies beside the kernels, or in the user's cache directory if nobody
may write there, so that only the first big group of an installation waits for the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction, signature
from struct import pack
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from actors.assignors import kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Int32s = NDArray[np.int32]

Kernels = SimpleNamespace
"""Every kernel by its name, and four functions for what kernels take: `full` makes it with a size and a
value; `pack` gives its bytes, big-endian; `listed` gives it as a list; `raised` gives the places that are not
0."""


class _Compiled:
    """A kernel that its first call compiles, or loads from the on-disk cache."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self._kernel = kernel
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.compile())(*arguments)

    def compile(self) -> Any:
        if self._compiled is None:
            try:
                self._compiled = _compile(self._kernel, cache=True)
            except (OSError, RuntimeError):
                # The cache cannot be written, so this process compiles for itself.
                self._compiled = _compile(self._kernel, cache=False)
        return self._compiled


def _compile(kernel: Callable[..., Any], *, cache: bool) -> Any:
    import numba

    inner = kernel is kernels.run_end_by_blocks
    if not inner:
        globals_ = {**vars(kernels), "run_end": _RUN_END.compile()}
        kernel = FunctionType(kernel.__code__, globals_, kernel.__name__)
        kernel.__annotations__ = vars(kernels)[kernel.__name__].__annotations__
    types = {"Ints": numba.int32[::1], "int": numba.int64}
    parameters = signature(kernel).parameters.values()
    taken = [tuple(types[each.annotation] for each in parameters)]
    return numba.njit(taken, cache=cache, nogil=True, forceinline=inner)(kernel)


def _full(size: int, value: int) -> Int32s:
    import numpy as np

    return np.full(size, value, dtype=np.int32)


def _raised(flags: Int32s) -> list[int]:
    found: list[int] = flags.nonzero()[0].tolist()
    return found


_RUN_END = _Compiled(kernels.run_end_by_blocks)
_FUNCTIONS = {name: each for name, each in vars(kernels).items() if isfunction(each)}
PLAIN = Kernels(
    full=lambda size, value: [value] * size,
    pack=lambda numbers: pack(f">{len(numbers)}i", *numbers),
    listed=lambda numbers: numbers,
    raised=lambda flags: [place for place, flag in enumerate(flags) if flag],
    **_FUNCTIONS,
)
COMPILED = Kernels(
    full=_full,
    pack=lambda numbers: numbers.astype(">i4").tobytes(),
    listed=lambda numbers: numbers.tolist(),
    raised=_raised,
    **{name: _Compiled(each) for name, each in _FUNCTIONS.items()},
)


class _Warming:
    """Whether a thread compiles or loads the kernels now."""

    def __init__(self) -> None:
        self.is_under_way = False


WARMING = _Warming()


def warm() -> None:
    """Compile every kernel (5 s of a processor), or load it from the on-disk cache (0.5 s). A worker thread
    calls this ahead of big groups: who needs an assignment meanwhile does better with plain Python."""
    WARMING.is_under_way = True
    try:
        for each in vars(COMPILED).values():
            if isinstance(each, _Compiled):
                each.compile()
    finally:
        WARMING.is_under_way = False
