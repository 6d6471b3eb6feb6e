//! Does a branch or an address depend on a secret? Under Valgrind, whose memcheck is told that secrets have no value:
//! `make accel-sanitize`; with LEAK=1 the ladder has a branch that it must find.
//!
//! Every path but `ifma`, whose instructions Valgrind does not know; the algorithms are the same.

use shuffledp_accel::engine::{Engine, Recipient};
use shuffledp_accel::memcheck::{secret, shown};
use shuffledp_accel::paths::available;

const WIDTH: usize = 65;

fn main() {
    for path in available() {
        println!("{}", path.name);
        let engine = Engine::named(path.name).expect("available");
        let count = 2 * path.lanes + 1;
        let ephemerals: Vec<[u8; 32]> = (0..count).map(|i| [i as u8 + 1; 32]).collect();
        let (own, plain) = ([77; 32], vec![9; count * WIDTH]);
        let to = Recipient::new(engine.public_keys(&[own])[0]);
        engine.agreed(&to, &vec![[5; 32]; 100]);
        assert!(to.has_table());
        secret(ephemerals.as_flattened());
        secret(&own);
        secret(&plain);
        engine.x25519(&ephemerals, &vec![[9; 32]; count]);
        let sealed = engine.seal(&to, &ephemerals, &plain, WIDTH).expect("a good key");
        shown(&sealed);
        let opened = engine.open(&own, &sealed, WIDTH + 48);
        shown(&opened.plain);
        shown(&plain);
        assert!(opened.plain == plain && opened.closed.is_empty());
    }
}
