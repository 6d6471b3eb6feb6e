"""One group everywhere: the vectors of RFC 9496, and both libraries against an independent
decoder."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import ristretto
from mixing_model import World, randomness
from mixing_spellings import ShareRespeller

import shuffledp_analyst
import shuffledp_client
import shuffledp_core
import shuffledp_shuffler
from shuffledp_core.errors import BadBlameError, ConfigError, ProofError
from shuffledp_core.mixproof import acceleration, group
from shuffledp_core.mixproof.group import GENERATOR, add_points, element, multiply, random_scalar
from shuffledp_core.mixproof.vectors import INVALID, MULTIPLES, first_failure, with_bit_255
from shuffledp_core.onion.acceleration import AcceleratorWarning

WHEEL = acceleration.points()


def by_libsodium(data: bytes) -> bool:
    try:
        element(data)
    except ProofError:
        return False
    return True


def by_accelerator(data: bytes) -> bool:
    try:
        WHEEL.Elements(data)
    except ValueError:
        return False
    return True


def by_the_standard(data: bytes) -> bool:
    return ristretto.decode(data) not in (None, (0, 1))


ENGINES = [
    pytest.param(by_libsodium, id="libsodium"),
    pytest.param(
        by_accelerator,
        id="accelerator",
        marks=pytest.mark.skipif(
            WHEEL is None, reason="make accel installs shuffledp-accel, where cargo is"
        ),
    ),
]


def encodings() -> Iterator[bytes]:
    """Valid encodings, ways to change them, and edges of the field."""
    random = randomness("encodings")
    for _ in range(300):
        valid = multiply(random_scalar(random), GENERATOR)
        number = int.from_bytes(valid, "little")
        place = random(1)[0]
        yield valid
        yield with_bit_255(valid)
        yield (number ^ 1 << place).to_bytes(32, "little")
        yield (ristretto.FIELD - number).to_bytes(32, "little")
        yield random(32)
        yield (int.from_bytes(random(32), "little") >> 1 & ~1).to_bytes(32, "little")
    for number in range(20):
        for edge in (
            number,
            ristretto.FIELD - number,
            ristretto.FIELD + number,
            2**255 - 1 - number,
        ):
            yield edge.to_bytes(32, "little")
            yield with_bit_255(edge.to_bytes(32, "little"))
    # As Edwards25519 writes its points of order 1, 2, 4 and 8.
    for order in ("01" + "00" * 31, "ec" + "ff" * 30 + "7f", "00" * 32, "00" * 31 + "80"):
        yield bytes.fromhex(order)
    yield bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
    yield bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")


@pytest.mark.parametrize("decodes", ENGINES)
def test_every_library_decodes_what_the_standard_does_and_nothing_else(
    decodes: Callable[[bytes], bool],
) -> None:
    tried = list(encodings())
    expected = [by_the_standard(data) for data in tried]
    assert [decodes(data) for data in tried] == expected
    assert 400 < sum(expected) < len(tried) - 400


@pytest.mark.parametrize("decodes", ENGINES)
def test_every_invalid_encoding_of_the_standard_is_refused(
    decodes: Callable[[bytes], bool],
) -> None:
    for encoded in (text for encodings in INVALID.values() for text in encodings):
        assert not decodes(bytes.fromhex(encoded))


def test_products_and_sums_are_those_of_the_standard() -> None:
    random = randomness("products")
    for _ in range(4):
        factor = random_scalar(random)
        point = multiply(random_scalar(random), GENERATOR)
        plain = ristretto.decode(point)
        assert plain is not None
        assert multiply(factor, point) == ristretto.encode(
            ristretto.multiply(int.from_bytes(factor, "little"), plain)
        )
        other = ristretto.decode(GENERATOR)
        assert other is not None
        assert add_points([point, GENERATOR]) == ristretto.encode(ristretto.add(plain, other))


def test_the_independent_decoder_passes_the_vectors_of_the_standard() -> None:
    def decoded(data: bytes) -> ristretto.Point:
        found = ristretto.decode(data)
        assert found is not None
        return found

    assert not first_failure(
        by_the_standard,
        lambda factor, point: ristretto.encode(
            ristretto.multiply(int.from_bytes(factor, "little"), decoded(point))
        ),
        lambda left, right: ristretto.encode(ristretto.add(decoded(left), decoded(right))),
    )


def changed_library(**functions: Callable[..., object]) -> SimpleNamespace:
    """The installed library, with some functions replaced."""
    names = [name for name in dir(group._rbcl()) if name.startswith("crypto_")]
    real = {name: getattr(group._rbcl(), name) for name in names}
    return SimpleNamespace(**{**real, **functions})


def refuse_everything(_: bytes) -> bool:
    return False


def swapped(_factor: bytes) -> bytes:
    return MULTIPLES[1]


# A decoder that accepts both spellings and encodes them again as they came: re-encoding cannot see
# it.
UNSTABLE: dict[str, Callable[..., object]] = {
    "crypto_core_ristretto255_add": lambda left, right: left if right == bytes(32) else right,
}


@pytest.mark.parametrize(
    ("functions", "failure"),
    [
        ({"crypto_core_ristretto255_is_valid_point": refuse_everything}, "refuses e2f2ae"),
        (UNSTABLE, "accepts .*80: bit 255 is set"),
        (
            {"crypto_scalarmult_ristretto255_base": swapped},
            "computes 1 times the generator wrongly",
        ),
        ({"crypto_scalarmult_ristretto255": lambda _, point: point}, "doubles 2 times"),
    ],
    ids=["refuses elements", "keeps bit 255", "wrong products", "wrong doubles"],
)
def test_a_library_that_fails_a_vector_is_not_used_and_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, functions: dict[str, Callable[..., object]], failure: str
) -> None:
    changed = changed_library(**functions)
    monkeypatch.setattr(group, "_rbcl", lambda: changed)
    group._library.cache_clear()
    try:
        with pytest.raises(ConfigError, match=f"{failure}.*reinstall rbcl"):
            element(GENERATOR)
    finally:
        group._library.cache_clear()


def lax_elements(packed: bytes) -> SimpleNamespace:
    """Elements of an accelerator that ignores bit 255, as libsodium 1.0.18 does."""
    parts = [packed[start : start + 32] for start in range(0, len(packed), 32)]
    try:
        points = [element(part[:31] + bytes([part[31] & 0x7F])) for part in parts]
    except ProofError as error:
        raise ValueError("no element") from error
    return SimpleNamespace(
        times=lambda factor: multiply(factor, points[0]),
        total=lambda: add_points(points),
    )


def test_an_accelerator_that_accepts_a_second_encoding_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """libsodium computes instead: an error would end rounds that need no accelerator."""
    lax = SimpleNamespace(Elements=lax_elements, Base=object)
    monkeypatch.setattr(acceleration, "wheel", lambda: lax)
    acceleration.points.cache_clear()
    try:
        with pytest.warns(AcceleratorWarning, match="accepts .*bit 255 is set, and is not used"):
            assert acceleration.points() is None
    finally:
        acceleration.points.cache_clear()


def test_a_round_of_a_lax_build_is_refused_later_and_its_node_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As SECURITY.md says: such a round was published without an honest user, and verified then."""
    world = World().put(ShareRespeller, 3)
    with monkeypatch.context() as lax:
        lax.setattr(
            group,
            "_is_encoding",
            lambda library, data: library.crypto_core_ristretto255_is_valid_point(data),
        )
        world.play()
        assert len(world.analyst.chain.excluded) == 1
    with pytest.raises(BadBlameError, match=r"node 3: .* is not a group element"):
        world.check()


def test_product_code_makes_elements_by_decoding_or_from_a_librarys_results_alone() -> None:
    """So that equal elements are equal bytes wherever they are hashed, compared or kept in a
    set."""
    makers = set()
    for package in (shuffledp_core, shuffledp_shuffler, shuffledp_client, shuffledp_analyst):
        for source in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(source.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id == "Element"
                ):
                    makers.add(source.stem)
    assert makers == {"group", "batches"}
