"""How inner loops are compiled: loosely where no digit is lost, kept on disk, with the widest vectors."""

import mmap
from typing import Any, no_type_check

import numba
from numba import types
from numba.extending import intrinsic

# `no_type_check` also keeps run-time checks of shapes, which tests put on every function, out of compiled code.
# No `afn` and no `arcp`: square roots and quotients stay correctly rounded.
LOOSE = {"contract", "reassoc", "nsz", "nnan", "ninf"}
LLVM_BYTES = 256 << 20  # more than it took for any of our loops


def compiled(function: Any) -> Any:
    """Compile when first called; keep the machine code on disk where that is possible."""
    loop: Any
    try:
        loop = numba.njit(fastmath=LOOSE, nogil=True, cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache folder can be written
        loop = numba.njit(fastmath=LOOSE, nogil=True)(function)
    compile_for = loop.compile

    def compile_with_room(signature: Any) -> Any:
        try:
            mmap.mmap(-1, LLVM_BYTES).close()
        except OSError as error:  # LLVM would end the process
            raise MemoryError from error
        return compile_for(signature)

    loop.compile = compile_with_room
    return loop


@intrinsic
@no_type_check
def vector_loops(_context):
    """Promise that the calling function's arrays do not overlap, and let it use the widest vectors there are.

    Without the promise LLVM compiles every loop twice and runs out of registers. Where a processor has vectors of 512
    bits it stays at 256, for fear of a lower clock in code that needs them now and then; these loops do nothing else.
    """

    def generate(context, builder, _signature, _arguments):
        for argument in builder.function.args:
            if (
                argument.type.is_pointer and str(argument.type) != "i8*"
            ):  # not the counters of references, which are shared
                argument.add_attribute("noalias")
        attributes = builder.function.attributes
        if isinstance(attributes, set):  # llvmlite's own `add` knows only attributes without a value
            set.add(attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate
