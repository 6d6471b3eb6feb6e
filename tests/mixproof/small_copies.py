"""The package with ideal algebra, and without one of its checks: for searches through small
rounds."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from mixing_cuts import without_check

import shuffledp_core.mixproof

NAME = "mixing_with_ideal_algebra"
PACKAGE = Path(shuffledp_core.mixproof.__file__).parent
TESTS = Path(__file__).parent
OURS = [path.stem for path in (*TESTS.glob("small_*.py"), *TESTS.glob("mixing_*.py"))]
IDEAL = {
    "import rbcl\n": f"import {NAME}.ideal_algebra as rbcl\n",
    "from shuffledp_core.onion.acceleration import VARIABLE, AcceleratorWarning, wheel\n": (
        f"from {NAME}.ideal_algebra import VARIABLE, AcceleratorWarning, wheel\n"
    ),
    "from shuffledp_core.mixproof.vectors import first_failure\n": (
        f"from {NAME}.ideal_algebra import first_failure\n"
    ),
    "from nacl import bindings\n": f"import {NAME}.ideal_algebra as bindings\n",
    "from shuffledp_core.documents.signatures import check_signature\n": (
        f"from {NAME}.ideal_algebra import check_signature\n"
    ),
}


def copy_of_all(folder: Path) -> ModuleType:
    """`small_rounds` over a copy of the package that computes with `ideal_algebra`.

    Imported once: see `forget`.
    """
    (folder / NAME).mkdir()
    sources = [
        TESTS / "ideal_algebra.py",
        *PACKAGE.glob("*.py"),
        *(TESTS / f"{stem}.py" for stem in OURS),
    ]
    for source in sources:
        text = source.read_text()
        for real, ideal in IDEAL.items():
            text = text.replace(real, ideal)
        text = text.replace("shuffledp_core.mixproof", NAME)
        for stem in OURS:
            text = text.replace(f"from {stem} import", f"from {NAME}.{stem} import")
            text = text.replace(f"import {stem} as", f"import {NAME}.{stem} as")
        (folder / NAME / source.name).write_text(text)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(f"{NAME}.small_rounds")
    finally:
        sys.path.remove(str(folder))


def forget() -> None:
    """Removes the copy from memory."""
    for module in [module for module in sys.modules if module.split(".")[0] == NAME]:
        del sys.modules[module]


@contextmanager
def without(where: str, cuts: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Run with the functions of a module of the copy as they are without these checks."""
    module = sys.modules[f"{NAME}.{where}"]
    file = str(module.__file__)
    source = Path(file).read_text()
    for old, new in cuts:
        source = without_check(source, old, new)
    codes = dict(_codes(compile(source, file, "exec")))
    functions = list(_functions(vars(module), file))
    kept = [function.__code__ for function in functions]
    assert any(codes[code.co_qualname].co_code != code.co_code for code in kept)
    for function in functions:
        function.__code__ = codes[function.__code__.co_qualname]
    _forget_results()
    try:
        yield
    finally:
        for function, code in zip(functions, kept, strict=True):
            function.__code__ = code
        _forget_results()


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    yield code.co_qualname, code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions(namespace: Any, file: str) -> Iterator[FunctionType]:
    """The functions and methods that a file defines; not those that a dataclass makes."""
    for value in namespace.values():
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if (
            isinstance(value, type)
            and getattr(sys.modules.get(value.__module__), "__file__", "") == file
        ):
            yield from _functions(vars(value), file)
        elif isinstance(inner, FunctionType) and inner.__code__.co_filename == file:
            yield inner


def _forget_results() -> None:
    """Empties what was kept of earlier runs."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == NAME:
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
