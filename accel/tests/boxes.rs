//! Sealed boxes: round trips of all counts and widths on every path; damage is found at its place.

use shuffledp_accel::engine::{Engine, Recipient};
use shuffledp_accel::paths::available;

fn keys(count: usize, salt: u8) -> Vec<[u8; 32]> {
    (0..count)
        .map(|i| core::array::from_fn(|j| (i as u8).wrapping_mul(31) ^ (j as u8).wrapping_mul(89) ^ salt))
        .collect()
}

#[test]
fn what_is_sealed_opens_for_all_counts_and_widths() {
    let (counts, widths): (_, &[usize]) = if cfg!(miri) { (2..3, &[17]) } else { (0..18, &[0, 1, 15, 16, 17, 64, 97]) };
    let secret = [7; 32];
    for engine in available().map(|path| Engine::named(path.name).expect("available")) {
        let recipient = Recipient::new(engine.public_keys(&[secret])[0]);
        for count in counts.clone() {
            for width in widths {
                let plain: Vec<u8> = (0..count * width).map(|i| i as u8).collect();
                let sealed = engine.seal(&recipient, &keys(count, 1), &plain, *width).expect("a good key");
                let opened = engine.open(&secret, &sealed, width + 48);
                assert_eq!((opened.plain, opened.closed), (plain, vec![]), "{count} of {width}");
            }
        }
    }
}

#[cfg(not(miri))]
#[test]
fn damage_in_any_lane_closes_that_box_alone() {
    let secret = [7; 32];
    for engine in available().map(|path| Engine::named(path.name).expect("available")) {
        let recipient = Recipient::new(engine.public_keys(&[secret])[0]);
        let plain: Vec<u8> = (0..17 * 10).map(|i| i as u8).collect();
        let sealed = engine.seal(&recipient, &keys(17, 2), &plain, 10).expect("a good key");
        for place in 0..17 {
            for byte in [0, 31, 32, 47, 48, 57] {
                let mut torn = sealed.clone();
                torn[place * 58 + byte] ^= 0x80;
                let opened = engine.open(&secret, &torn, 58);
                assert_eq!(opened.closed, [place], "byte {byte}");
                assert_eq!(opened.plain, [&plain[..place * 10], &plain[place * 10 + 10..]].concat());
            }
            let mut low = sealed.clone();
            low[place * 58..place * 58 + 32].fill(0);
            assert_eq!(engine.open(&secret, &low, 58).closed, [place]);
        }
    }
}

#[test]
fn nothing_is_sealed_to_a_key_of_low_order() {
    let engine = Engine::named("emulated-avx2").expect("always there");
    assert!(engine.seal(&Recipient::new([0; 32]), &keys(1, 3), &[1, 2], 2).is_none());
}
