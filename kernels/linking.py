"""Kernels that become machine code inside of those that Python calls, and nowhere else.

numba makes machine code of a function when it compiles it, and again, together with all that it calls, for
each of its callers: on the way to the search every kernel was optimised and translated half a dozen times.
Nothing runs those copies. Here a kernel that kernels alone call stays LLVM's intermediate code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import PassManager

PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.RewriteSemanticConstants,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    untyped_passes.DeadBranchPrune,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.NoPythonSupportedFeatureValidation,
    typed_passes.IRLegalization,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)
"""What numba does to a kernel, in this order: of its own list, what changes the kernels there are.

Each pass costs an analysis of the whole function. Left out are closures, comprehensions, expressions of whole
arrays, `literally`, `literal_unroll`, `with` and numba's own joining: what needs one of them is not compiled.
"""


class InnerCompiler(Compiler):  # type: ignore[misc]  # numba has no types
    """numba's compiler, with fewer passes, and an `InnerLibrary` in the place of machine code."""

    def __init__(
        self,
        typing_context: Any,
        target_context: Any,
        library: Any,
        args: Any,
        return_type: Any,
        flags: Flags,
        locals_: Any,
    ) -> None:
        options = _shared(flags)
        super().__init__(typing_context, target_context, library, args, return_type, options, locals_)

    def define_pipelines(self) -> list[PassManager]:
        """The one list of passes."""
        manager = PassManager("kernels")
        for each in PASSES:
            manager.add_pass(each, each.__name__)
        manager.finalize()
        return [manager]

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        """Compile a kernel as far as its callers need it."""
        library = InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library = library
        return super().compile_extra(function)


class _SharedFlags(Flags):  # type: ignore[misc]  # numba has no types
    """Options of kernels, one object for all that have the same.

    numba looks up its own functions by the options of the caller, some dozens of times for each operator: by
    value, with the same hash for all options, this was a tenth of a compilation.
    """

    __slots__ = ()

    def copy(self) -> _SharedFlags:
        """Itself: nobody changes the options of a kernel once it is being compiled."""
        return self

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


_flags: dict[str, _SharedFlags] = {}


def _shared(flags: Flags) -> _SharedFlags:
    return _flags.setdefault(flags.summary(), _SharedFlags(flags))


class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Intermediate code of one kernel and of all that it calls; its callers optimise it with their own."""

    @property
    def codegen(self) -> Any:
        """Stands for numba's generator of code, of which no more than `set_env` is asked."""
        return _NoEnvironment

    def finalize(self) -> None:
        """Link what the kernel calls."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Address of the way in from Python: 0, there is none."""
        self._ensure_finalized()
        return 0


class _NoEnvironment:
    """Kernels make no Python objects, and so do not read the environment that numba gives to a function."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Do nothing: the address would be looked up among machine code."""
