"""Every attack that is installed: ours, each found by its module, and those that other packages name by entry points.

Attacks import much, so that one is looked for by its name first; all are imported only to be listed.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Final

from shuffledp_adversary import attacks
from shuffledp_adversary.attacks.attack import Attack

GROUP: Final = "shuffledp.attacks"
"""Of entry points, each of which has the name of the attack and names its `Attack`."""


def attack_named(name: str) -> Attack | None:
    """The attack of this name; None where there is none."""
    if name.isidentifier() and (found := _ours(name)) is not None:
        return found
    points = entry_points(group=GROUP, name=name)
    return _checked(name, next(iter(points)).load()) if points else None


def attacks_by_name() -> dict[str, Attack]:
    """All of them, by name; ours hide others of the same name."""
    names = [module.name for module in iter_modules(attacks.__path__)]
    ours = {attack.name: attack for attack in map(_ours, names) if attack is not None}
    others = {point.name: _checked(point.name, point.load()) for point in entry_points(group=GROUP)}
    return dict(sorted((others | ours).items()))


def _ours(name: str) -> Attack | None:
    """What `attacks/NAME.py` or `attacks/NAME/attack.py` says of itself."""
    for module in (name, f"{name}.attack"):
        path = f"{attacks.__name__}.{module}"
        try:
            there = find_spec(path) is not None
        except ModuleNotFoundError:  # `name` is no package
            continue
        found = getattr(import_module(path), "ATTACK", None) if there else None
        if found is not None:
            return _checked(name, found)
    return None


def _checked(name: str, found: object) -> Attack:
    if not isinstance(found, Attack) or found.name != name:
        raise TypeError(f"what is named as attack {name!r} must be an Attack of that name, not {found!r}")
    return found
