//! Many simultaneous calls in one phone, barebell-phone and baresip: the cost of a call.
//!
//! The measured phone is called and echoes its audio. A barebell-phone is the caller.

use crate::caller::{Caller, PHONE, SUITE};
use crate::setting;
use crate::table::{Table, figure, write};
use peers::folder::Folder;
use peers::process::{Process, Program, built, wait_until};
use peers::transport::Transport;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use test_support::ports::free_ports;

const BARESIP: Program = Program { name: "baresip", packages: "baresip-core" };
/// The numbers of simultaneous calls.
const CALLS: [usize; 4] = [1, 20, 100, 200];
/// The duration of the measurement in seconds.
const SECONDS: u64 = 20;
/// The time limit for setting up the calls.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result for one number of calls.
struct Found {
    /// The number of established calls.
    stood: usize,
    /// The CPU time in percent of one processor.
    cpu: f64,
    /// The share of sent packets that came back.
    back: f64,
    /// The memory in bytes.
    memory: u64,
}

/// Measures, and writes `calls.md`.
pub(crate) fn measure(folder: &Path) {
    let mut table = Table::new(&[
        "simultaneous calls",
        "#CPU of a call, %: Barebell",
        "#baresip",
        "#ratio",
        "#packets back, %: Barebell",
        "#baresip",
        "#memory, MB: ours",
        "#baresip",
    ]);
    for count in CALLS.into_iter().filter(|&count| count as u64 <= setting("CALLS", 200)) {
        eprintln!("{count} simultaneous calls");
        let [ours, theirs] = [start_ours, start_baresip].map(|start| measure_one(count, start));
        let each = |found: &Found| found.cpu / found.stood as f64;
        let borne = |found: &Found| match found.stood == count {
            true => format!("{:.1}", found.back * 100.0),
            false => format!("{:.1} ({} calls)", found.back * 100.0, found.stood),
        };
        let mb = |found: &Found| figure(Some(found.memory as f64 / 1e6), 1);
        table.row([
            count.to_string(),
            figure(Some(each(&ours)), 3),
            figure(Some(each(&theirs)), 3),
            figure(Some(each(&ours) / each(&theirs)), 2),
            borne(&ours),
            borne(&theirs),
            mb(&ours),
            mb(&theirs),
        ]);
    }
    write(folder, "calls.md", table.text());
}

fn measure_one(count: usize, start: fn(&Folder, usize) -> (Process, u16)) -> Found {
    let folder = Folder::new("many");
    let (called, port) = start(&folder, count);
    let mut caller = Caller::start();
    let uri = format!("sip:bob@127.0.0.1:{port}");
    let mut stood = 0;
    // Not all at the same moment, which would measure something else.
    for left in (0..count).rev() {
        caller.call(&uri);
        if left % 10 == 0 {
            let wanted = count - left - stood;
            stood += caller.wait_for("answered", wanted, PATIENCE).len();
        }
    }
    std::thread::sleep(Duration::from_secs(2));
    drop(caller.news());
    let (before, since) = (called.cpu(), Instant::now());
    std::thread::sleep(Duration::from_secs(setting("SECONDS", SECONDS)));
    let cpu = (called.cpu() - before).as_secs_f64() / since.elapsed().as_secs_f64() * 100.0;
    let memory = called.memory();
    // The phone reports the counters of each call every 5 s.
    let reports = caller.news();
    let (mut sent, mut received) = (0, 0);
    for call in 1..=count as u64 {
        let mut of_call =
            reports.iter().filter(|report| report["event"] == "media" && report["call"] == call);
        let (Some(first), Some(last)) = (of_call.next(), of_call.next_back()) else { continue };
        let grown =
            |key: &str| last[key].as_u64().zip(first[key].as_u64()).map_or(0, |(l, f)| l - f);
        sent += grown("sent");
        received += grown("received");
    }
    Found { stood: stood.max(1), cpu, back: received as f64 / sent.max(1) as f64, memory }
}

fn start_ours(folder: &Folder, count: usize) -> (Process, u16) {
    let port = free_ports(1);
    let mut command = Command::new(built(PHONE.name, "BAREBELL_PHONE_BIN"));
    command.args(["answer", "--auto", "--echo", "--incoming", &count.to_string()]);
    command.args(["--codecs", "PCMU", "--srtp", "required", "--suites", SUITE]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    let process = Process::start(PHONE, command, &folder.join("phone.log"));
    wait_until("the phone to listen", || {
        Transport::Udp.is_listening(Ipv4Addr::LOCALHOST, port).then_some(())
    });
    (process, port)
}

/// Only the required modules. aubridge loops received audio back (module echo).
fn start_baresip(folder: &Folder, count: usize) -> (Process, u16) {
    let [sip, rtp] = [free_ports(2), free_ports(430)];
    let config = format!(
        "poll_method epoll\n\
         sip_listen 127.0.0.1:{sip}\n\
         call_max_calls {count}\n\
         call_local_timeout 120\n\
         audio_player aubridge,x\n\
         audio_source aubridge,x\n\
         audio_alert aubridge,y\n\
         audio_buffer 20-160\n\
         rtp_ports {rtp}-{rtp_end}\n\
         module_path /usr/lib/baresip/modules\n\
         module g711.so\n\
         module srtp.so\n\
         module aubridge.so\n\
         module_tmp uuid.so\n\
         module_tmp account.so\n\
         module_app echo.so\n",
        rtp_end = rtp + 429,
    );
    folder.write("config", &config);
    let account =
        format!("<sip:bob@127.0.0.1:{sip}>;regint=0;answermode=manual;mediaenc=srtp-mand\n");
    folder.write("accounts", &account);
    folder.write("contacts", "");
    let mut command = BARESIP.command();
    command.args(["-4", "-n", "127.0.0.1", "-f"]).arg(folder.path()).current_dir(folder.path());
    let process = Process::start(BARESIP, command, &folder.join("baresip.log"));
    wait_until("baresip to listen", || {
        Transport::Udp.is_listening(Ipv4Addr::LOCALHOST, sip).then_some(())
    });
    (process, sip)
}
