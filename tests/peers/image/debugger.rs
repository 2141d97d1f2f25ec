//! The debugger interface of QEMU (GDB remote protocol).

use crate::process::DEADLINE;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// The position of the instruction pointer among the registers of x86-64, in hexadecimal digits.
const INSTRUCTION: std::ops::Range<usize> = 256..272;

/// A debugger connection. The machine is stopped while it exists.
#[derive(Debug)]
pub(super) struct Debugger(UnixStream);

impl Debugger {
    pub(super) fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).expect("the read timeout can be set");
        Self(stream)
    }

    /// Replaces the code at the instruction pointer by `code`, and resumes the machine.
    pub(super) fn go_on_with(mut self, code: &[u8]) {
        let registers = self.ask("g");
        let digits = registers.get(INSTRUCTION).expect("the answer has the registers of x86-64");
        let address =
            u64::from_str_radix(digits, 16).expect("the address is hexadecimal").swap_bytes();
        let code: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        let written = self.ask(&format!("M{address:x},{:x}:{code}", code.len() / 2));
        assert_eq!(written, "OK", "the instruction at {address:#x} is replaced");
        assert_eq!(self.ask("D"), "OK", "the machine resumes");
    }

    fn ask(&mut self, question: &str) -> String {
        let sum = question.bytes().fold(0_u8, u8::wrapping_add);
        self.0
            .write_all(format!("${question}#{sum:02x}").as_bytes())
            .expect("QEMU accepts the request");
        loop {
            let answer = self.read();
            // Stop replies are sent at any time.
            if !answer.starts_with('T') {
                return answer;
            }
        }
    }

    fn read(&mut self) -> String {
        let mut answer = Vec::new();
        // After the acknowledgement and `$`, up to `#` and two digits.
        while answer.iter().rev().nth(2) != Some(&b'#') {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("QEMU answers");
            answer.extend(byte);
        }
        self.0.write_all(b"+").expect("QEMU accepts the acknowledgement");
        let answer = String::from_utf8(answer).expect("the answer is UTF-8");
        let (_, answer) = answer.split_once('$').expect("the answer starts with $");
        answer[..answer.len() - 3].to_owned()
    }
}
