//! Children and network namespaces that do not outlive this program, however it ends.

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// Deletes the namespaces of its arguments when its standard input ends. `ip netns delete` fails
/// for those that were not added.
const KEEPER: &str = "read -r end; for name; do ip netns delete \"$name\"; done";

/// Network namespaces, removed when this is dropped and at any end of this program: a process of
/// its own deletes them.
#[derive(Debug)]
pub(crate) struct Namespaces {
    keeper: Child,
}

impl Namespaces {
    /// Prepares the removal of the namespaces with these names, which are then added.
    ///
    /// # Errors
    /// The process that removes them does not start.
    pub(crate) fn prepare<'a>(names: impl IntoIterator<Item = &'a str>) -> io::Result<Self> {
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .args(names)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // In its own group, it does not get signals from the keyboard.
            .process_group(0)
            .spawn()?;
        Ok(Self { keeper })
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // This closes its standard input first.
        let _ = self.keeper.wait();
    }
}

/// The child of this command gets `signal` when the thread that starts it ends, which it does with
/// this program.
pub(crate) fn ends_with_this_program(command: &mut Command, signal: Signal) -> &mut Command {
    let tell = move || set_pdeathsig(signal).map_err(io::Error::from);
    // SAFETY: the closure makes one system call, and neither allocates nor locks.
    unsafe { command.pre_exec(tell) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn a_child_ends_with_the_thread_that_has_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            ends_with_this_program(command.arg("1000"), Signal::SIGTERM).spawn().unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
    }
}
