"""All installed attacks: this project's, by module, and other packages', by entry point.

Importing attacks is slow, so one attack is found by its name without importing the others, and
lists are made from their sources.
"""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

from shuffledp_adversary import attacks

if TYPE_CHECKING:
    from shuffledp_adversary.attacks.attack import Attack

GROUP: Final = "shuffledp.attacks"
"""Group of entry points; each has the name of an attack and refers to its `Attack`."""

ATTRIBUTE: Final = "ATTACK"


def attack_named(name: str) -> Attack | None:
    """The attack with this name, this project's first; None if there is none."""
    module = _our_module(name)
    if module is not None:
        return _check_attack(name, getattr(import_module(module), ATTRIBUTE))
    points = entry_points(group=GROUP, name=name)
    return _check_attack(name, next(iter(points)).load()) if points else None


def summaries() -> dict[str, str]:
    """Summary of each attack by its name, read from the sources where it is a plain string."""
    names = [
        module.name
        for module in iter_modules(attacks.__path__)
        if _our_module(module.name) is not None
    ]
    by_name = {
        point.name: _summary(point.name, find_spec(point.module))
        for point in entry_points(group=GROUP)
    }
    by_name |= {name: _summary(name, _spec_of(name)) for name in names}
    return dict(sorted(by_name.items()))


def _our_module(name: str) -> str | None:
    """The module `attacks/NAME.py` or `attacks/NAME/attack.py`, if it defines `ATTACK`."""
    spec = _spec_of(name)
    return None if spec is None or _definition(spec) is None else spec.name


def _spec_of(name: str) -> ModuleSpec | None:
    """Import specification of an attack.

    Unlike `find_spec` with a dotted name this imports nothing.
    """
    spec = (
        PathFinder.find_spec(f"{attacks.__name__}.{name}", attacks.__path__)
        if name.isidentifier()
        else None
    )
    if spec is None or spec.submodule_search_locations is None:
        return spec
    return PathFinder.find_spec(f"{spec.name}.attack", spec.submodule_search_locations)


def _definition(spec: ModuleSpec | None) -> ast.expr | None:
    """The expression that a module's source assigns to `ATTACK`."""
    if spec is None or spec.origin is None:
        return None
    source = Path(spec.origin).read_text(encoding="utf-8")
    for node in ast.parse(source).body if f"\n{ATTRIBUTE}" in source else ():
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.Assign(targets=[ast.Name(id=name)], value=value)
            ) if name == ATTRIBUTE:
                return value
    return None


def _summary(name: str, spec: ModuleSpec | None) -> str:
    match _definition(spec):
        case ast.Call(keywords=keywords):
            for keyword in keywords:
                if keyword.arg == "summary" and isinstance(keyword.value, ast.Constant):
                    return str(keyword.value.value)
    attack = attack_named(name)
    return "" if attack is None else attack.summary


def _check_attack(name: str, candidate: object) -> Attack:
    from shuffledp_adversary.attacks.attack import Attack

    if not isinstance(candidate, Attack) or candidate.name != name:
        raise TypeError(
            f"the entry point of attack {name!r} must name an Attack of that name, not "
            f"{candidate!r}"
        )
    return candidate
