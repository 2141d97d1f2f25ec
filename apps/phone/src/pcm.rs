//! Raw samples on standard input and output: 16 bits, signed, little-endian, one channel. Separate
//! threads read and write, so that the phone never blocks. The state is global, since a process has
//! one of each stream.

use crate::terminal;
use serde::Serialize;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Capacity of the input queue in blocks of 20 ms. If it is full, reading pauses and the writer
/// blocks, for example before the answer.
const MAX_UNPLAYED: usize = 25;
/// Capacity of the output queue in blocks of 20 ms.
const MAX_UNWRITTEN: usize = 100;
/// Time that the end of the program waits for the rest to be written.
const FAREWELL: Duration = Duration::from_secs(2);

/// The default sample rate in hertz.
const RATE: u32 = 8000;

static PCM_RATE: OnceLock<u32> = OnceLock::new();
static INPUT: OnceLock<Mutex<Input>> = OnceLock::new();
static OUTPUT: OnceLock<Output> = OnceLock::new();

/// Missing and dropped samples since the program began.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Lacks {
    /// Samples that did not arrive in time and were replaced by silence.
    missing: u64,
    /// Samples that were dropped because the output was not read in time.
    dropped: u64,
}

/// Sets the sample rate in hertz. The first call of this function or of [`rate`] decides.
pub(crate) fn set_rate(rate: u32) {
    PCM_RATE.get_or_init(|| rate);
}

/// The sample rate in hertz.
pub(crate) fn rate() -> u32 {
    *PCM_RATE.get_or_init(|| RATE)
}

fn is_used() -> bool {
    INPUT.get().is_some() || OUTPUT.get().is_some()
}

/// The sample rate in hertz; `None` if neither stream carries raw samples.
pub(crate) fn rate_in_use() -> Option<u32> {
    is_used().then(rate)
}

/// The missing and dropped samples so far; `None` if neither stream carries raw samples.
pub(crate) fn lacks() -> Option<Lacks> {
    let missing = INPUT.get().map_or(0, |input| lock(input).missing);
    let dropped = OUTPUT.get().map_or(0, |output| output.dropped.load(Ordering::Relaxed));
    is_used().then_some(Lacks { missing, dropped })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Input {
    blocks: Receiver<Vec<i16>>,
    /// Samples that were read and not sent yet.
    ready: Vec<i16>,
    has_begun: bool,
    missing: u64,
}

/// Starts the thread that reads the standard input, unless it runs.
pub(crate) fn open_input() {
    INPUT.get_or_init(|| {
        let (sender, blocks) = sync_channel(MAX_UNPLAYED);
        let rate = rate();
        std::thread::spawn(move || read(std::io::stdin().lock(), rate, &sender));
        Mutex::new(Input { blocks, ready: Vec::new(), has_begun: false, missing: 0 })
    });
}

/// Reads blocks of 20 ms until the end of input.
fn read(mut from: impl Read, rate: u32, blocks: &SyncSender<Vec<i16>>) {
    let length = rate as usize / 50 * 2;
    loop {
        let mut bytes = Vec::with_capacity(length);
        let taken = from.by_ref().take(length as u64).read_to_end(&mut bytes);
        let samples = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
        let is_over = taken.is_err() || bytes.len() < length;
        if blocks.send(samples.collect()).is_err() || is_over {
            return;
        }
    }
}

/// The next `count` samples of the standard input. Missing samples are silence.
pub(crate) fn next(count: usize) -> Vec<i16> {
    let Some(input) = INPUT.get() else { return vec![0; count] };
    let mut input = lock(input);
    let mut is_over = false;
    while input.ready.len() < count {
        match input.blocks.try_recv() {
            Ok(block) => {
                input.has_begun = true;
                input.ready.extend(block);
            }
            Err(error) => {
                is_over = error == TryRecvError::Disconnected;
                break;
            }
        }
    }
    let end = count.min(input.ready.len());
    let mut samples: Vec<i16> = input.ready.drain(..end).collect();
    if input.has_begun && !is_over {
        input.missing += (count - end) as u64;
    }
    samples.resize(count, 0);
    samples
}

struct Output {
    /// `None` once the output is finished.
    blocks: Mutex<Option<SyncSender<Vec<u8>>>>,
    /// Disconnected when everything is written.
    done: Mutex<Receiver<()>>,
    dropped: AtomicU64,
    is_broken: AtomicBool,
}

/// Starts the thread that writes the standard output, unless it runs.
pub(crate) fn open_output() {
    OUTPUT.get_or_init(|| {
        let (sender, blocks) = sync_channel::<Vec<u8>>(MAX_UNWRITTEN);
        let (writing, done) = sync_channel(1);
        std::thread::spawn(move || {
            let _writing: SyncSender<()> = writing;
            let mut output = std::io::stdout().lock();
            for block in blocks {
                if output.write_all(&block).and_then(|()| output.flush()).is_err() {
                    return;
                }
            }
        });
        Output {
            blocks: Mutex::new(Some(sender)),
            done: Mutex::new(done),
            dropped: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
        }
    });
}

/// Queues `samples` for the standard output, and drops them if the queue is full. Nothing is
/// written once the reader is gone.
pub(crate) fn write(samples: &[i16]) {
    let Some(output) = OUTPUT.get() else { return };
    let bytes = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let blocks = lock(&output.blocks);
    match blocks.as_ref().map(|blocks| blocks.try_send(bytes)) {
        Some(Err(TrySendError::Full(_))) => {
            output.dropped.fetch_add(samples.len() as u64, Ordering::Relaxed);
        }
        Some(Err(TrySendError::Disconnected(_)))
            if !output.is_broken.swap(true, Ordering::Relaxed) =>
        {
            terminal::say(&"the recording ends here: its reader has closed it");
        }
        _ => {}
    }
}

/// Waits for the rest to be written, at most [`FAREWELL`].
pub(crate) fn finish() {
    let Some(output) = OUTPUT.get() else { return };
    *lock(&output.blocks) = None;
    if lock(&output.done).recv_timeout(FAREWELL) == Err(RecvTimeoutError::Timeout) {
        terminal::say(&"the recording is not complete: its reader does not read");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_is_read_in_blocks_and_an_odd_byte_is_nothing() {
        let bytes: Vec<u8> = (0..161_i16).flat_map(i16::to_le_bytes).chain([7]).collect();
        let (sender, blocks) = sync_channel(4);
        read(&bytes[..], 8000, &sender);
        drop(sender);
        let blocks: Vec<Vec<i16>> = blocks.iter().collect();
        assert_eq!(blocks.iter().map(Vec::len).collect::<Vec<_>>(), [160, 1]);
        assert_eq!((blocks[0][159], blocks[1][0]), (159, 160));
    }
}
