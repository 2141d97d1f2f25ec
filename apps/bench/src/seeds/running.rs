//! A running phone or machine, with its output in a file.

use crate::lifetime::ends_with_this_program;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The file of the output.
pub(crate) const OUTPUT: &str = "output.txt";

/// A running phone. Dropping it ends it; it ends with the thread that has started it, too.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Its standard input stays open: the end of it ends linphone.
    input: Option<ChildStdin>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a command with its output in the file of the folder, and these lines as its input.
    pub(crate) fn start(mut command: Command, folder: &Path, lines: &str) -> io::Result<Self> {
        let output = File::create(folder.join(OUTPUT))?;
        let errors = output.try_clone()?;
        command.stdin(Stdio::piped()).stdout(output).stderr(errors);
        let mut child = ends_with_this_program(&mut command, Signal::SIGKILL).spawn()?;
        let input = child.stdin.take();
        let mut running = Self { child, input };
        running.say(lines).map(|()| running)
    }

    /// Writes to its standard input.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn say(&mut self, lines: &str) -> io::Result<()> {
        self.input.as_mut().map_or(Ok(()), |input| input.write_all(lines.as_bytes()))
    }

    /// Asks it to end by itself.
    pub(crate) fn interrupt(&self) {
        // It may have ended.
        let _ = signal::kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
    }

    /// Returns true if it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}
