"""Every mechanism that is installed: those of this folder, and those of other packages.

Another package names its class, derived from `base.Spec`, by an entry point of the group
`shuffledp.mechanisms`. Its module may import `base` and what that imports, but nothing that loads
`MECHANISMS`, of which it is a part.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final, TypeAlias, Union

from shuffledp_core.mechanisms.base import Spec
from shuffledp_core.runtime.installed import entry_points_of

GROUP: Final = "shuffledp.mechanisms"


def _specs_of_folder() -> list[type[Spec]]:
    """The specs that the modules next to this one define: histograms first, each kind by name."""
    folder = __name__.rpartition(".")[0]
    names = {module.name for module in iter_modules(import_module(folder).__path__, f"{folder}.")}
    specs = {
        value
        for name in names - {__name__}
        for value in vars(import_module(name)).values()
        if isinstance(value, type) and issubclass(value, Spec) and "kind" in vars(value)
    }
    return sorted(specs, key=lambda spec: (spec.answers, spec.kind))


def _with_installed(
    ours: Iterable[type[Spec]], points: Iterable[EntryPoint]
) -> dict[str, type[Spec]]:
    specs = {spec.kind: spec for spec in ours}
    for point in sorted(points, key=lambda point: point.name):
        try:
            spec = point.load()
        except AttributeError as error:
            raise ImportError(
                f"the mechanism {point.value!r} does not exist, or its module imports the list "
                "of all mechanisms while it is itself being loaded: at the top of the module, "
                "import only shuffledp_core.mechanisms.base and what that imports"
            ) from error
        if not (isinstance(spec, type) and issubclass(spec, Spec)):
            raise TypeError(
                f"the entry point {point.name!r} of {GROUP} names {point.value!r}, which is not "
                "a Spec"
            )
        # The tag is what signed documents say, the kind what people say: a mechanism must not have
        # two names.
        if spec.kind in specs or spec.__struct_config__.tag != spec.kind:
            raise ValueError(
                f"the kind of {point.value!r}, {spec.kind!r}, must equal its tag and differ from "
                f"all other kinds: {', '.join(specs)}"
            )
        specs[spec.kind] = spec
    return specs


MECHANISMS: Final[dict[str, type[Spec]]] = _with_installed(
    _specs_of_folder(), entry_points_of(GROUP)
)
"""Every spec by its name on command lines and on the wire: those of this folder, then those of
other packages in the order of their entry points' names.
"""

if TYPE_CHECKING:
    Mechanism: TypeAlias = Spec
else:
    Mechanism = Union[tuple(MECHANISMS.values())]  # noqa: UP007 - msgspec reads the classes from it
