//! The crate as a Python module. Every argument is checked here; work runs without the interpreter's lock.

use crate::engine::{self, Engine as Inner};
use crate::paths::available;
use crate::sealed::OVERHEAD;
use crate::words::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
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

#[pymodule]
fn shuffledp_accel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Engine>()?;
    module.add_class::<Recipient>()?;
    module.add_function(wrap_pyfunction!(paths, module)?)
}
