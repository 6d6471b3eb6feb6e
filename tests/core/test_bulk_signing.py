"""Keys and signatures in bulk are OpenSSL's, byte for byte, with the accelerator and without."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shuffledp_core.documents import signing
from shuffledp_core.documents.models import Credential
from shuffledp_core.documents.signed import sign, sign_all, sign_each
from shuffledp_core.documents.signing import (
    agrees,
    generate_keys,
    public_keys,
    sign_messages,
)
from shuffledp_core.onion.acceleration import AcceleratorWarning, wheel

WHEELS: list[Any] = [None, *([wheel()] if hasattr(wheel(), "ed25519_sign") else [])]

RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9"
        "b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f1"
        "1d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
]
"""Section 7.1: private key, public key, message, signature."""


@pytest.fixture(params=WHEELS, ids=lambda library: "wheel" if library else "openssl")
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(signing, "_wheel", lambda: request.param)
    return request.param


def test_vectors_of_rfc_8032(library: Any) -> None:
    del library
    private, public, messages, signatures = (
        [bytes.fromhex(each[part]) for each in RFC_8032] for part in range(4)
    )
    assert public_keys(private) == public
    assert signing.sign_each(private, messages) == signatures
    for key, message, signature in zip(private, messages, signatures, strict=True):
        signer = Ed25519PrivateKey.from_private_bytes(key)
        assert sign_messages(signer, [message] * 5) == [signature] * 5


@pytest.mark.parametrize("count", [0, 1, 3, 4, 9, 70])
def test_any_number_is_signed_as_one_by_one(library: Any, count: int) -> None:
    del library
    keys = generate_keys(count)
    assert len(set(keys)) == count
    signers = [Ed25519PrivateKey.from_private_bytes(key) for key in keys]
    publics = [signer.public_key().public_bytes_raw() for signer in signers]
    assert public_keys(keys) == publics
    documents = [Credential(population="people", public_key=public.hex()) for public in publics]
    names = [public.hex() for public in publics]
    triples = list(zip(documents, names, signers, strict=True))
    assert sign_each(documents, names, keys) == [sign(*triple) for triple in triples]
    authority = Ed25519PrivateKey.generate()
    assert sign_all(documents, "people", authority) == [
        sign(document, "people", authority) for document in documents
    ]


def test_every_message_needs_a_key(library: Any) -> None:
    del library
    with pytest.raises(ValueError, match="1 private keys for 2 messages"):
        signing.sign_each(generate_keys(1), [b"", b""])


class Forger:
    """A wheel that makes the right keys, and signatures of nothing."""

    def ed25519_public_keys(self, private: bytes) -> bytes:
        keys = [private[start : start + 32] for start in range(0, len(private), 32)]
        signers = [Ed25519PrivateKey.from_private_bytes(key) for key in keys]
        return b"".join(signer.public_key().public_bytes_raw() for signer in signers)

    def ed25519_sign(self, private: bytes, messages: list[bytes]) -> bytes:
        assert private
        return bytes(64) * len(messages)


def test_a_wheel_that_signs_otherwise_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not agrees(Forger())
    monkeypatch.setattr("shuffledp_core.onion.acceleration.wheel", Forger)
    signing._wheel.cache_clear()
    try:
        with pytest.warns(AcceleratorWarning, match="not those of OpenSSL"):
            assert signing._wheel() is None
    finally:
        signing._wheel.cache_clear()


@pytest.mark.parametrize("library", WHEELS[1:], ids=lambda _: "wheel")
def test_the_wheel_passes_its_own_test(library: Any) -> None:
    assert agrees(library)
