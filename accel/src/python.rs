//! The crate as a Python module. Every argument is checked here; work runs without the interpreter's lock.

use crate::ed25519;
use crate::engine::{self, Engine as Inner, Signature};
use crate::paths::available;
use crate::ristretto;
use crate::sealed::OVERHEAD;
use crate::signing;
use crate::words::Bytes;
use curve25519_dalek::ristretto::RistrettoPoint;
use curve25519_dalek::scalar::Scalar;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use zeroize::{Zeroize, Zeroizing};

fn refused(message: String) -> PyErr {
    PyValueError::new_err(message)
}

fn key(bytes: &[u8]) -> PyResult<Bytes> {
    bytes.try_into().map_err(|_| refused(format!("a key has 32 bytes, not {}", bytes.len())))
}

fn keys(bytes: &[u8]) -> PyResult<Vec<Bytes>> {
    let (keys, rest) = bytes.as_chunks::<32>();
    if !rest.is_empty() {
        return Err(refused(format!("{} bytes are not a whole number of keys of 32 bytes", bytes.len())));
    }
    Ok(keys.to_vec())
}

/// The paths of this processor, fastest first; only those that are faster than a library unless `all`.
#[pyfunction]
#[pyo3(signature = (*, all = false))]
fn paths(all: bool) -> Vec<&'static str> {
    available().filter(|path| all || path.fast).map(|path| path.name).collect()
}

/// Batches by one path, such as "avx2". `ValueError` if this processor does not have it.
#[pyclass(frozen, module = "shuffledp_accel")]
struct Engine(Inner);

#[pymethods]
impl Engine {
    #[new]
    fn new(path: &str) -> PyResult<Self> {
        let known = || available().map(|path| path.name).collect::<Vec<_>>().join(", ");
        Inner::named(path).map(Self).ok_or_else(|| refused(format!("no path {path:?} here; there are {}", known())))
    }

    /// The path's name.
    #[getter]
    fn path(&self) -> &'static str {
        self.0.path().name
    }

    /// Multiplications at a time.
    #[getter]
    fn lanes(&self) -> usize {
        self.0.path().lanes
    }

    /// X25519 of the i-th secret and the i-th point, 32 bytes each, packed; zeros where the point has low order.
    fn x25519_batch<'py>(&self, py: Python<'py>, secrets: &[u8], points: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let (secrets, points) = (Zeroizing::new(keys(secrets)?), keys(points)?);
        if secrets.len() != points.len() {
            return Err(refused(format!("{} secrets for {} points", secrets.len(), points.len())));
        }
        let shared = py.detach(|| self.0.x25519(&secrets, &points));
        Ok(PyBytes::new(py, shared.as_flattened()))
    }

    /// Opens sealed boxes of `width` bytes each: the plaintexts of those that open, and the places of the others.
    fn open_batch<'py>(
        &self,
        py: Python<'py>,
        secret: &[u8],
        packed: &[u8],
        width: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<usize>)> {
        let secret = Zeroizing::new(key(secret)?);
        if width < OVERHEAD || !packed.len().is_multiple_of(width) {
            let size = packed.len();
            return Err(refused(format!("{size} bytes are not a whole number of sealed boxes of {width} bytes")));
        }
        let mut opened = py.detach(|| self.0.open(&secret, packed, width));
        let plain = PyBytes::new(py, &opened.plain);
        opened.plain.zeroize();
        Ok((plain, opened.closed))
    }

    /// For each packed signature whether the equation of Ed25519 holds, as `ed25519_holds` says it of one.
    ///
    /// `ValueError` for wrong lengths. Which keys and nonces count at all is the caller's to decide.
    fn ed25519_hold(&self, py: Python<'_>, public: &[u8], packed: &[u8], challenges: &[u8]) -> PyResult<Vec<bool>> {
        let (public, signatures) = (keys(public)?, signatures(packed, challenges)?);
        if public.len() != signatures.len() {
            return Err(refused(format!("{} keys for {} signatures", public.len(), signatures.len())));
        }
        Ok(py.detach(|| self.0.hold(&public, &signatures)))
    }

    /// The same for signatures under one key. See `Signer`.
    fn ed25519_hold_under(
        &self,
        py: Python<'_>,
        signer: &Signer,
        packed: &[u8],
        challenges: &[u8],
    ) -> PyResult<Vec<bool>> {
        let signatures = signatures(packed, challenges)?;
        Ok(py.detach(|| self.0.hold_under(&signer.0, &signatures)))
    }

    /// Seals plaintexts of `width` bytes each, the i-th under the i-th ephemeral secret. See `Recipient`.
    fn seal_batch<'py>(
        &self,
        py: Python<'py>,
        to: &Recipient,
        ephemerals: &[u8],
        packed: &[u8],
        width: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let ephemerals = Zeroizing::new(keys(ephemerals)?);
        if ephemerals.len().checked_mul(width) != Some(packed.len()) {
            let (count, size) = (ephemerals.len(), packed.len());
            return Err(refused(format!("{count} ephemeral keys for {size} bytes in plaintexts of {width} bytes")));
        }
        let sealed = py.detach(|| self.0.seal(&to.0, &ephemerals, packed, width));
        let sealed = sealed.ok_or_else(|| refused("the public key has low order: nothing is sealed to it".into()))?;
        Ok(PyBytes::new(py, &sealed))
    }
}

/// S and R of packed signatures, with the hashes of nonce, key and text.
fn signatures(packed: &[u8], challenges: &[u8]) -> PyResult<Vec<Signature>> {
    let ((packed, []), (challenges, [])) = (packed.as_chunks::<64>(), challenges.as_chunks::<64>()) else {
        return Err(refused("a signature and a hash have 64 bytes each".into()));
    };
    if packed.len() != challenges.len() {
        return Err(refused(format!("{} signatures for {} hashes", packed.len(), challenges.len())));
    }
    let pairs = packed.iter().zip(challenges);
    Ok(pairs
        .map(|(signature, challenge)| {
            let ([r, s], []) = signature.as_chunks::<32>() else { unreachable!("64 bytes") };
            Signature { r: *r, s: *s, challenge: *challenge }
        })
        .collect())
}

/// A public key under which signatures are checked. After some dozen it keeps a table, which makes the next ones faster.
#[pyclass(frozen, module = "shuffledp_accel")]
struct Signer(engine::Signer);

#[pymethods]
impl Signer {
    #[new]
    fn new(public: &[u8]) -> PyResult<Self> {
        Ok(Self(engine::Signer::new(key(public)?)))
    }

    /// Whether there is a table by now; what encodes no point never has one.
    #[getter]
    fn has_table(&self) -> bool {
        self.0.has_table()
    }
}

/// The public keys of packed private keys of 32 bytes each, packed.
#[pyfunction]
fn ed25519_public_keys<'py>(py: Python<'py>, private: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let private = Zeroizing::new(keys(private)?);
    Ok(packed(py, &py.detach(|| signing::public_keys(&private))))
}

/// Signatures of the messages under one private key, or under as many as there are messages; packed, 64 bytes each.
#[pyfunction]
fn ed25519_sign<'py>(
    py: Python<'py>,
    private: &[u8],
    messages: Vec<PyBackedBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let private = Zeroizing::new(keys(private)?);
    if private.len() != 1 && private.len() != messages.len() {
        return Err(refused(format!("{} private keys for {} messages", private.len(), messages.len())));
    }
    let texts: Vec<&[u8]> = messages.iter().map(|message| &**message).collect();
    let signed = py.detach(|| signing::sign(&private, &texts));
    Ok(PyBytes::new(py, signed.as_flattened()))
}

/// A public key to which boxes are sealed. After some dozen seals it keeps a table, which makes the next ones faster.
#[pyclass(frozen, module = "shuffledp_accel")]
struct Recipient(engine::Recipient);

#[pymethods]
impl Recipient {
    #[new]
    fn new(public: &[u8]) -> PyResult<Self> {
        Ok(Self(engine::Recipient::new(key(public)?)))
    }

    /// Whether there is a table by now; a key outside the prime-order group never has one.
    #[getter]
    fn has_table(&self) -> bool {
        self.0.has_table()
    }
}

/// Overwritten when it is dropped: it may be secret.
fn scalar(bytes: &[u8]) -> PyResult<Zeroizing<Scalar>> {
    let bytes = Zeroizing::new(key(bytes)?);
    ristretto::scalar(&bytes).map(Zeroizing::new).ok_or_else(too_large)
}

fn scalars(bytes: &[u8]) -> PyResult<Zeroizing<Vec<Scalar>>> {
    let bytes = Zeroizing::new(keys(bytes)?);
    // All of its room at once: a vector that grows leaves behind what it held. The same where a later one is refused.
    let mut found = Zeroizing::new(Vec::with_capacity(bytes.len()));
    for each in bytes.iter() {
        found.push(ristretto::scalar(each).ok_or_else(too_large)?);
    }
    Ok(found)
}

fn too_large() -> PyErr {
    refused("a scalar is not below the group's order".into())
}

fn point(bytes: &[u8]) -> PyResult<RistrettoPoint> {
    ristretto::element(&key(bytes)?).ok_or_else(|| refused("the base is no element, or the identity".into()))
}

fn packed<'py>(py: Python<'py>, found: &[Bytes]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, found.as_flattened())
}

/// Elements of ristretto255, packed, 32 bytes each; decoded once. `ValueError` for what is none, and for the identity.
#[pyclass(frozen, module = "shuffledp_accel")]
struct Elements(ristretto::Elements);

#[pymethods]
impl Elements {
    #[new]
    fn new(py: Python<'_>, encoded: &[u8]) -> PyResult<Self> {
        let encoded = keys(encoded)?;
        let found = py.detach(|| ristretto::Elements::new(&encoded));
        found.map(Self).map_err(|place| refused(format!("number {place} is no group element, or the identity")))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Every element times a secret factor, packed.
    fn times<'py>(&self, py: Python<'py>, factor: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let factor = scalar(factor)?;
        Ok(packed(py, &py.detach(|| self.0.times(&factor))))
    }

    /// The sum; zeros for the identity.
    fn total<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        packed(py, &[py.detach(|| self.0.total())])
    }

    /// The sum of c^(first + 1), c^(first + 2), .. times the elements in turn; zeros for the identity. Not for secrets.
    fn powers<'py>(&self, py: Python<'py>, c: &[u8], first: u64) -> PyResult<Bound<'py, PyBytes>> {
        let c = scalar(c)?;
        Ok(packed(py, &[py.detach(|| self.0.powers(&c, first))]))
    }

    /// z base - c element for each element with its c and z, packed; zeros for the identity. Not for secrets.
    fn commitments<'py>(&self, py: Python<'py>, base: &[u8], c: &[u8], z: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let (base, c, z) = (point(base)?, scalars(c)?, scalars(z)?);
        if c.len() != self.0.len() || z.len() != self.0.len() {
            return Err(refused(format!("{} and {} scalars for {} elements", c.len(), z.len(), self.0.len())));
        }
        Ok(packed(py, &py.detach(|| self.0.commitments(&base, &c, &z))))
    }
}

/// An element of ristretto255 that secrets are multiplied with. After some hundred it keeps a table (30 KB).
#[pyclass(frozen, module = "shuffledp_accel")]
struct Base(ristretto::Base);

#[pymethods]
impl Base {
    #[new]
    fn new(encoded: &[u8]) -> PyResult<Self> {
        Ok(Self(ristretto::Base::new(point(encoded)?)))
    }

    /// Whether there is a table by now.
    #[getter]
    fn has_table(&self) -> bool {
        self.0.has_table()
    }

    /// The element times each of the secret factors, packed.
    fn times<'py>(&self, py: Python<'py>, factors: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let factors = scalars(factors)?;
        Ok(packed(py, &py.detach(|| self.0.times(&factors))))
    }
}

/// Whether the equation of Ed25519 holds, without the cofactor, for a key, a signature and the hash of nonce, key and text.
///
/// `ValueError` for wrong lengths. Which keys and nonces count at all is the caller's to decide.
#[pyfunction]
fn ed25519_holds(py: Python<'_>, public: &[u8], signature: &[u8], challenge: &[u8]) -> PyResult<bool> {
    let public = key(public)?;
    let ([r, s], []) = signature.as_chunks::<32>() else {
        return Err(refused(format!("a signature has 64 bytes, not {}", signature.len())));
    };
    let size = challenge.len();
    let challenge = challenge.try_into().map_err(|_| refused(format!("a hash has 64 bytes, not {size}")))?;
    Ok(py.detach(|| ed25519::holds(&public, r, s, challenge)))
}

#[pymodule]
fn shuffledp_accel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Engine>()?;
    module.add_class::<Recipient>()?;
    module.add_class::<Signer>()?;
    module.add_class::<Elements>()?;
    module.add_class::<Base>()?;
    module.add_function(wrap_pyfunction!(ed25519_holds, module)?)?;
    module.add_function(wrap_pyfunction!(ed25519_public_keys, module)?)?;
    module.add_function(wrap_pyfunction!(ed25519_sign, module)?)?;
    module.add_function(wrap_pyfunction!(paths, module)?)
}
