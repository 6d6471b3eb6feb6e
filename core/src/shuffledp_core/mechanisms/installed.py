"""Every mechanism that is installed: ours, and those that other packages name by entry points.

An entry point of the group `shuffledp.mechanisms` names a class derived from `base.Spec`. Its
module may import `base` and what that imports, but nothing that asks for `MECHANISMS`: it would ask
for itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Final, TypeAlias, Union

from shuffledp_core.mechanisms.base import Spec
from shuffledp_core.mechanisms.geo import GeoShuffle
from shuffledp_core.mechanisms.hadamard import HadamardHistogram
from shuffledp_core.mechanisms.krr import KRRHistogram
from shuffledp_core.mechanisms.one_bit import OneBitShuffle
from shuffledp_core.mechanisms.quantised import QuantisedRR
from shuffledp_core.mechanisms.rappor import RapporHistogram
from shuffledp_core.mechanisms.rr import RRShuffle
from shuffledp_core.mechanisms.sgdl import SGDLShuffle
from shuffledp_core.mechanisms.split import SplitMix
from shuffledp_core.runtime.installed import offered

GROUP: Final = "shuffledp.mechanisms"


def _with_installed(
    ours: Iterable[type[Spec]], points: Iterable[EntryPoint]
) -> dict[str, type[Spec]]:
    found = {spec.kind: spec for spec in ours}
    for point in sorted(points, key=lambda point: point.name):
        try:
            spec = point.load()
        except AttributeError as error:
            raise ImportError(
                f"the mechanism {point.value!r} is not there, or its module asks for all "
                f"mechanisms while it is one of "
                "them: at its top let it import only shuffledp_core.mechanisms.base and what that "
                "imports"
            ) from error
        if not (isinstance(spec, type) and issubclass(spec, Spec)):
            raise TypeError(
                f"the entry point {point.name!r} of {GROUP} names {point.value!r}, which is no Spec"
            )
        # The tag is what signed documents say, the kind what people say: a mechanism must not have
        # two names.
        if spec.kind in found or spec.__struct_config__.tag != spec.kind:
            raise ValueError(
                f"{point.value!r}: its kind {spec.kind!r} must be its tag, and no other "
                f"mechanism's: {', '.join(found)}"
            )
        found[spec.kind] = spec
    return found


MECHANISMS: Final[dict[str, type[Spec]]] = _with_installed(
    (
        KRRHistogram,
        HadamardHistogram,
        RapporHistogram,
        OneBitShuffle,
        QuantisedRR,
        RRShuffle,
        GeoShuffle,
        SGDLShuffle,
        SplitMix,
    ),
    offered(GROUP),
)
"""Every spec by its name on command lines and on the wire: ours first, then others, by their entry
points' names.
"""

if TYPE_CHECKING:
    Mechanism: TypeAlias = Spec
else:
    Mechanism = Union[tuple(MECHANISMS.values())]  # noqa: UP007 - msgspec reads the classes from it
