//! Replacements for `std` and the C library on x86-64.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

// The stack is aligned as for a function call.
global_asm!(".globl _start", "_start: xor ebp, ebp", "and rsp, -16", "call {}", sym crate::start);

/// Ends the program with the system call `exit_group` of Linux.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: the process ends here.
    unsafe { asm!("syscall", in("rax") 231, in("edi") status, options(noreturn)) }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(101)
}

const HEAP: usize = 64 << 20;

/// A bump allocator that never frees memory: the program ends soon.
#[repr(align(4096))]
struct Heap {
    bytes: UnsafeCell<[u8; HEAP]>,
    used: AtomicUsize,
}

// SAFETY: `used` is advanced atomically, so no memory is handed out twice.
unsafe impl Sync for Heap {}

#[global_allocator]
static ALLOCATOR: Heap = Heap { bytes: UnsafeCell::new([0; HEAP]), used: AtomicUsize::new(0) };

// SAFETY: the memory is within `bytes`, aligned as requested (up to a page), and handed out once.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let place = |used: usize| used.checked_next_multiple_of(layout.align());
        let end = |used| place(used)?.checked_add(layout.size()).filter(|&end| end <= HEAP);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end) {
            Ok(used) => self.bytes.get().cast::<u8>().wrapping_add(place(used).unwrap_or(0)),
            Err(_) => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Functions that the compiler calls, otherwise provided by the C library. In assembly, because the
/// compiler would replace Rust loops by calls of the same functions.
#[cfg(not(target_os = "none"))]
mod memory {
    use core::arch::global_asm;

    global_asm!(
        ".globl memcpy, memmove, memset, memcmp, bcmp, strlen",
        "memmove:",
        "mov rax, rdi",
        "sub rax, rsi",
        "cmp rax, rdx",
        "jae memcpy",
        // The ranges overlap: copy backwards.
        "mov rax, rdi",
        "mov rcx, rdx",
        "lea rdi, [rdi + rdx - 1]",
        "lea rsi, [rsi + rdx - 1]",
        "std",
        "rep movsb",
        "cld",
        "ret",
        "memcpy:",
        "mov rax, rdi",
        "mov rcx, rdx",
        "rep movsb",
        "ret",
        "memset:",
        "mov r8, rdi",
        "mov eax, esi",
        "mov rcx, rdx",
        "rep stosb",
        "mov rax, r8",
        "ret",
        "bcmp:",
        "memcmp:",
        "xor eax, eax",
        "mov rcx, rdx",
        // For a length of zero the flags mean equality.
        "cmp rdi, rdi",
        "repe cmpsb",
        "je 2f",
        "movzx eax, byte ptr [rdi - 1]",
        "movzx ecx, byte ptr [rsi - 1]",
        "sub eax, ecx",
        "2: ret",
        "strlen:",
        "xor eax, eax",
        "3: cmp byte ptr [rdi + rax], 0",
        "je 4f",
        "inc rax",
        "jmp 3b",
        "4: ret",
    );
}

/// Referenced by the unwind tables of the prebuilt `core`. A program with `panic=abort` never calls
/// them.
#[cfg(not(target_os = "none"))]
mod unwinding {
    #[unsafe(no_mangle)]
    extern "C" fn rust_eh_personality() {}

    #[unsafe(no_mangle)]
    extern "C" fn _Unwind_Resume() -> ! {
        super::exit(101)
    }
}
