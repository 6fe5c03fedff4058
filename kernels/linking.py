"""Kernels that become machine code inside of those that Python calls, and nowhere else.

numba makes machine code of a function when it compiles it, and again, together with all that it calls, for
each of its callers: on the way to the search every kernel was optimised and translated half a dozen times.
Nothing runs those copies. Here a kernel that kernels alone call stays LLVM's intermediate code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class InnerCompiler(Compiler):  # type: ignore[misc]  # numba has no types
    """numba's compiler, with an `InnerLibrary` in the place of machine code."""

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        """Compile a kernel as far as its callers need it."""
        library = InnerLibrary(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library = library
        return super().compile_extra(function)


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
