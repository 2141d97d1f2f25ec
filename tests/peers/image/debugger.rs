//! QEMU's place for a debugger, by GDB's remote protocol.

use crate::process::DEADLINE;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Where the instruction pointer stands among the registers of x86-64, in digits.
const INSTRUCTION: std::ops::Range<usize> = 256..272;

/// A connection to a machine, which stands still while there is one.
#[derive(Debug)]
pub(super) struct Debugger(UnixStream);

impl Debugger {
    pub(super) fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket that can wait");
        Self(stream)
    }

    /// Puts `code` where the machine executes now, and lets it go on.
    pub(super) fn go_on_with(mut self, code: &[u8]) {
        let registers = self.ask("g");
        let digits = registers.get(INSTRUCTION).expect("the registers of x86-64");
        let address = u64::from_str_radix(digits, 16).expect("hexadecimal digits").swap_bytes();
        let code: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        let written = self.ask(&format!("M{address:x},{:x}:{code}", code.len() / 2));
        assert_eq!(written, "OK", "the instruction at {address:#x} is replaced");
        assert_eq!(self.ask("D"), "OK", "the machine goes on");
    }

    fn ask(&mut self, question: &str) -> String {
        let sum = question.bytes().fold(0_u8, u8::wrapping_add);
        self.0.write_all(format!("${question}#{sum:02x}").as_bytes()).expect("QEMU takes it");
        loop {
            let answer = self.read();
            // That it has stopped is told whenever it does.
            if !answer.starts_with('T') {
                return answer;
            }
        }
    }

    fn read(&mut self) -> String {
        let mut answer = Vec::new();
        // Behind the acknowledgement and `$`, up to `#` and two digits.
        while answer.iter().rev().nth(2) != Some(&b'#') {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("an answer of QEMU");
            answer.extend(byte);
        }
        self.0.write_all(b"+").expect("QEMU takes it");
        let answer = String::from_utf8(answer).expect("text");
        let (_, answer) = answer.split_once('$').expect("an answer");
        answer[..answer.len() - 3].to_owned()
    }
}
