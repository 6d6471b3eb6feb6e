//! Tells Valgrind's memcheck what is secret: as memory without a value, on which it allows neither branch nor address
//! (Langley 2010, "ctgrind"). Only with the feature `memcheck`, for examples/secrets.rs; without Valgrind it does nothing.

/// The client requests of memcheck.h.
const UNDEFINED: usize = 0x4d43_0001;
const DEFINED: usize = 0x4d43_0002;

fn request(which: usize, bytes: &[u8]) {
    let arguments = [which, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: four rotations by 128 bits in all and an exchange of a register with itself, which Valgrind knows as a
    // request (valgrind.h, amd64-linux). It writes its answer into rdx, and touches no value of the memory.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(), inout("rdx") 0usize => _, inout("rdi") 0usize => _,
        );
    }
}

pub fn secret(bytes: &[u8]) {
    request(UNDEFINED, bytes);
}

/// What everybody may see, such as an ephemeral public key, and whether a box opens.
pub fn shown(bytes: &[u8]) {
    request(DEFINED, bytes);
}
