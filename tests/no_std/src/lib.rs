//! The engine on nothing but `core` and `alloc`.
//!
//! Built with the profile `no-std` (`cargo build -p barebell-no-std --profile no-std`) this library
//! has a panic handler and an allocator of its own. Where any crate below it brings in `std`, the
//! build fails with "duplicate lang item `panic_impl`". With other profiles it is an ordinary
//! library, so that it is in nobody's way.
#![cfg_attr(panic = "abort", no_std)]

extern crate alloc;

#[cfg(panic = "abort")]
mod machine;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use lock_api::{GuardSend, RawMutex};
use sip::{Instant, Transport};
use sip_server::{Config, Flow, Output, Server};
use srtp::{MasterKey, Policy, Receiver, Sender, Suite};

/// A lock for a machine with one thread of execution.
#[derive(Debug)]
pub struct Lock(AtomicBool);

// SAFETY: `try_lock` succeeds only for the one who changed the flag from false to true, and only
// `unlock` changes it back.
unsafe impl RawMutex for Lock {
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardSend;

    fn lock(&self) {
        while !self.try_lock() {
            core::hint::spin_loop();
        }
    }

    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Gives one message to an engine, and returns how many bytes it has to say to it.
///
/// # Safety
/// `bytes` must point to `length` bytes that can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn barebell_answer(bytes: *const u8, length: usize) -> usize {
    // SAFETY: the caller says so.
    let bytes = unsafe { core::slice::from_raw_parts(bytes, length) };
    let server = Arc::new(Server::<Lock>::new(Config::default(), &[0; 32]));
    let flow = Flow {
        transport: Transport::Udp,
        local: ([192, 0, 2, 1], 5060).into(),
        remote: ([192, 0, 2, 9], 5060).into(),
        connection: None,
    };
    let mut out = Output::default();
    let mut worker = server.worker();
    worker.receive(Instant::ZERO, &flow, bytes, &mut out);
    if let Some(next) = worker.next_timer() {
        worker.on_timer(next, &mut out);
    }
    out.bytes.len()
}

/// Protects one RTP packet and takes it in again; returns its length, or 0.
///
/// # Safety
/// `bytes` must point to `length` bytes that can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn barebell_protect(bytes: *mut u8, length: usize) -> usize {
    // SAFETY: the caller says so.
    let buffer = unsafe { core::slice::from_raw_parts_mut(bytes, length) };
    let mut protect = || {
        let policy = Policy::new(Suite::AeadAes128Gcm);
        let key = MasterKey::new(policy.suite, &[0; 28]).ok()?;
        let mut sender = Sender::new(&policy, alloc::vec![key.clone()]).ok()?;
        let mut receiver = Receiver::new(&policy, alloc::vec![key]).ok()?;
        let length = sender.protect(buffer, 12).ok()?;
        receiver.unprotect(&mut buffer[..length]).ok().map(|packet| packet.len())
    };
    protect().unwrap_or(0)
}
