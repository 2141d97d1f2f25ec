//! The images without an operating system with other servers and phones: which calls succeed, in a
//! LAN and through two NATs (document 000, section III.M).

mod lab;
mod machine;
mod phone;
mod sound;
mod tftp;

pub(crate) use machine::{QEMU, find_image};

use super::softphone::{self, Account, Installed, Keys, Kind, RTP_PORTS, Running, Softphone};
use crate::link::Link;
use crate::sut::{self, DOMAIN, Mode, Wanted};
use crate::users::Users;
use lab::{HOST, Lab, PUBLIC, Place, SERVER};
use machine::Machine;
pub(crate) use phone::BARE;
use phone::{End, LAST_STEP, Phone, last_line};
use serde::{Deserialize, Serialize};
use sip::Transport;
use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The SIP port of the images, and of the server behind the NAT.
const PORT: u16 = 5060;
/// Those of phones for Linux: linphone listens at all addresses.
const PHONES: [u16; 2] = [5061, 5071];
/// The port at which the server tells the times of its steps.
const QUERY: u16 = 5099;
/// The first RTP port of phones for Linux.
const RTP: u16 = 40_000;
/// The tones of caller and callee in hertz.
const TONES: [u16; 2] = [440, 1000];
/// The longest time of each stage of a call, with KVM and without.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_WITHOUT_KVM: Duration = Duration::from_secs(60);
/// The interval of checks.
const LOOK: Duration = Duration::from_millis(100);
/// The common suite of all phones.
const SUITE: &str = "AES_CM_128_HMAC_SHA1_80";
/// The rival server.
const RIVAL: &str = "kamailio";
/// The name of the file of users.
const USERS: &str = "users";

/// The installed programs and built images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Equipment {
    pub(crate) qemu: PathBuf,
    pub(crate) server: PathBuf,
    /// The image of the phone, if it is built.
    pub(crate) phone: Option<PathBuf>,
    pub(crate) phones: Installed,
    pub(crate) has_rival: bool,
    /// True if NATs can be set up.
    pub(crate) has_nat: bool,
}

/// The calls of a server in a place: caller and callee.
type Calls = &'static [(End, End)];

/// The calls by server, and true if the callee is behind a second NAT.
const CALLS: [(&str, bool, Calls); 3] = [
    (
        BARE,
        false,
        &[
            (End::Bare, End::Bare),
            (End::Bare, End::Linux(Kind::Barebell)),
            (End::Bare, End::Linux(Kind::Linphone)),
            (End::Bare, End::Linux(Kind::Baresip)),
            (End::Linux(Kind::Linphone), End::Linux(Kind::Baresip)),
        ],
    ),
    (
        RIVAL,
        false,
        &[
            (End::Bare, End::Bare),
            (End::Bare, End::Linux(Kind::Barebell)),
            (End::Bare, End::Linux(Kind::Linphone)),
        ],
    ),
    (BARE, true, &[(End::Bare, End::Bare), (End::Bare, End::Linux(Kind::Barebell))]),
];

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) server: String,
    pub(crate) caller: String,
    pub(crate) callee: String,
    /// True if server and caller are in a LAN, and the callee is behind another NAT.
    pub(crate) through_nats: bool,
    pub(crate) authentication: bool,
    pub(crate) srtp: bool,
    /// Of caller and callee: the registration, the answered call, and the other's tone in the
    /// received audio.
    pub(crate) registered: [bool; 2],
    pub(crate) established: [bool; 2],
    pub(crate) heard: [bool; 2],
    /// The reason of a failure.
    pub(crate) failure: Option<String>,
    /// The mean times of the steps of SRTP and of network headers in the caller without an
    /// operating system, in nanoseconds.
    #[serde(default)]
    pub(crate) steps: Vec<(String, f64)>,
}

impl Call {
    /// Returns the number of stages that succeeded, of [`STAGES`].
    pub(crate) fn stages(&self) -> usize {
        let all = [self.registered, self.established, self.heard].concat();
        all.into_iter().filter(|is_reached| *is_reached).count()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, caller, callee, .. } = self;
        write!(f, "{server}: {caller} to {callee}")?;
        for (is_so, what) in [
            (self.authentication, "authentication"),
            (self.srtp, "SRTP"),
            (self.through_nats, "two NATs"),
        ] {
            if is_so {
                write!(f, ", {what}")?;
            }
        }
        match &self.failure {
            None => f.write_str(": heard both ways"),
            Some(failure) => write!(f, ": {} of {STAGES} stages; {failure}", self.stages()),
        }
    }
}

/// The stages of a call: registration, answer and voice of both ends.
pub(crate) const STAGES: usize = 6;

/// The number of calls that can be made.
pub(crate) fn count(equipment: &Equipment) -> u64 {
    CALLS.iter().map(|group| calls_of(equipment, group).count() as u64 * 4).sum()
}

/// Returns the calls of a group with installed servers and phones.
fn calls_of<'e>(
    equipment: &'e Equipment,
    &(server, through_nats, calls): &(&str, bool, Calls),
) -> impl Iterator<Item = &'static (End, End)> + use<'e> {
    let is_there = (server != RIVAL || equipment.has_rival) && (!through_nats || equipment.has_nat);
    let has = move |end: End| match end {
        End::Bare => equipment.phone.is_some(),
        End::Linux(kind) => equipment.phones.program(kind).is_some(),
    };
    calls.iter().filter(move |(caller, callee)| is_there && has(*caller) && has(*callee))
}

/// Makes all calls, each with and without authentication and SRTP, and returns their results.
/// `tell` gets each result.
///
/// # Errors
/// The networks cannot be set up, which needs root, or a server does not start.
pub(crate) fn matrix(
    equipment: &Equipment,
    ending: &AtomicBool,
    tell: &mut (dyn FnMut(&Call) + Send),
) -> io::Result<Vec<Call>> {
    let mut all = Vec::new();
    for group in &CALLS {
        let calls: Vec<&(End, End)> = calls_of(equipment, group).collect();
        let &(server, through_nats, _) = group;
        if calls.is_empty() {
            continue;
        }
        let lab = Lab::start(through_nats)?;
        for authentication in [false, true] {
            let found = Link::inside(&lab.namespace(Place::Lan), || {
                let folder = tempfile::tempdir()?;
                let pairs = calls.len() * 2;
                let site = Site::start(equipment, &lab, server, authentication, pairs, &folder)?;
                let mut found = Vec::new();
                for (number, (pair, srtp)) in
                    calls.iter().flat_map(|pair| [(pair, false), (pair, true)]).enumerate()
                {
                    if ending.load(Ordering::SeqCst) {
                        break;
                    }
                    let call = site.call(number, **pair, srtp, ending)?;
                    tell(&call);
                    found.push(call);
                }
                Ok(found)
            })?;
            all.extend(found);
        }
    }
    Ok(all)
}

/// Runs a command in a LAN with a TFTP server for the machine at [`SERVER`].
///
/// # Errors
/// The network cannot be set up, or `work` fails.
pub(crate) fn in_lan<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let lab = Lab::start(false)?;
    Link::inside(&lab.namespace(Place::Lan), || {
        let _tftp = Tftp::start()?;
        work()
    })
}

/// Returns a profile of the server without an operating system for the commands of this program.
pub(crate) fn profile(equipment: &Equipment) -> String {
    let options = "domain={domain} tftp=TFTP file={folder}/users trusted=0.0.0.0/0 expires=3600 \
                   query=TFTP:QUERY"
        .replace("TFTP", &HOST.to_string())
        .replace("QUERY", &QUERY.to_string());
    let machine = Machine {
        qemu: &equipment.qemu,
        image: &equipment.server,
        namespace: None,
        number: 0,
        address: SERVER,
        gateway: HOST,
        options: &options,
        has_sound: false,
        folder: Path::new(""),
    };
    // The machine answers five times a second at most.
    let query = format!(
        "for n in 1 2 3 4; do exec 3<>/dev/udp/{SERVER}/{QUERY}; echo timings >&3; \
         timeout 0.5 head -n 1 <&3 && exit; done; exit 1"
    );
    format!(
        "name = \"barebell, no operating system\"\ntarget = \"{SERVER}:{PORT}\"\n\
         command = {:?}\ntimings = [\"bash\", \"-c\", {query:?}]\n\
         remarks = [\"In QEMU{}. Every address is trusted.\"]\n\
         [arguments]\nauthentication = []\nno_authentication = []\nstateful = []\n\
         stateless = []\nredirect = []\n[users]\nline = \"{{name}}:{{domain}}:MD5:{{ha1}}\"\n",
        machine.command(),
        if machine::has_kvm() { " with KVM" } else { " without KVM" }
    )
}

/// A TFTP server at [`HOST`]. Dropping it ends it.
struct Tftp {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tftp {
    /// Starts it in the network of this thread. It has the files with the name [`USERS`].
    fn start() -> io::Result<Self> {
        let (socket, is_over) = (tftp::open(HOST.into())?, Arc::<AtomicBool>::default());
        let ending = Arc::clone(&is_over);
        let find = |name: &str| {
            let path = Path::new(name);
            path.ends_with(USERS).then(|| fs::read(path).ok()).flatten()
        };
        let thread = thread::spawn(move || tftp::serve(&socket, find, &ending));
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Drop for Tftp {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Its port is free when it has ended.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server with a place for calls.
struct Site<'a> {
    equipment: &'a Equipment,
    lab: &'a Lab,
    server: &'a str,
    authentication: bool,
    folder: &'a Path,
    /// The address of the server for phones in the LAN.
    address: SocketAddr,
    /// Its address for the other phones, if the row has some.
    outside: Option<SocketAddr>,
    patience: Duration,
    _machine: Option<Running>,
    _tftp: Option<Tftp>,
    _rival: Option<sut::Running>,
}

/// The user of an end: each call has users of its own.
fn user(number: usize, end: usize) -> String {
    format!("user{}", 2 * number + end)
}

/// The URI of a callee.
fn uri(number: usize) -> String {
    format!("sip:{}@{DOMAIN}", user(number, 1))
}

const PASSWORD: &str = "secret";

impl<'a> Site<'a> {
    fn start(
        equipment: &'a Equipment,
        lab: &'a Lab,
        server: &'a str,
        authentication: bool,
        calls: usize,
        folder: &'a tempfile::TempDir,
    ) -> io::Result<Self> {
        let folder = folder.path();
        let names = (0..calls).flat_map(|number| [user(number, 0), user(number, 1)]);
        let users: Vec<_> = names.map(|name| (name, PASSWORD.to_owned())).collect();
        let through_nats = lab.has_nats();
        let has_kvm = machine::has_kvm();
        let mut site = Self {
            equipment,
            lab,
            server,
            authentication,
            folder,
            address: (SERVER, PORT).into(),
            outside: through_nats.then(|| (PUBLIC, PORT).into()),
            patience: if has_kvm { PATIENCE } else { PATIENCE_WITHOUT_KVM },
            _machine: None,
            _tftp: None,
            _rival: None,
        };
        if server == RIVAL {
            let wanted = Wanted {
                mode: Mode::Stateful,
                authentication,
                users: &Users::List(users),
                address: HOST.into(),
                transport: Transport::Udp,
                workers: Some(2),
                namespace: None,
                timings: false,
                retransmits: true,
            };
            let rival = sut::start(RIVAL, &wanted).map_err(io::Error::other)?;
            site.address = rival.target;
            site._rival = Some(rival);
            return Ok(site);
        }
        let lines = users.iter().map(|(name, password)| format!("{name}:{password}\n"));
        let file = folder.join(USERS);
        fs::write(&file, lines.collect::<String>())?;
        site._tftp = Some(Tftp::start()?);
        let options = format!(
            "domain={DOMAIN} auth={} tftp={HOST} file={}{}",
            if authentication { "on" } else { "off" },
            file.display(),
            if through_nats { format!(" as={PUBLIC}:{PORT}") } else { String::new() }
        );
        let place = folder.join("server");
        let machine = Machine {
            qemu: &equipment.qemu,
            image: &equipment.server,
            namespace: None,
            number: 0,
            address: SERVER,
            gateway: site.gateway(Place::Lan),
            options: &options,
            has_sound: false,
            folder: &place,
        };
        let mut running = machine.start()?;
        let is_ready = || machine::console(&place).contains("ready: SIP");
        if !wait(site.patience, &AtomicBool::new(false), || is_ready() || running.has_ended())
            || !is_ready()
        {
            let said = last_line(&machine::console(&place));
            return Err(io::Error::other(format!("the image of the server is not ready: {said}")));
        }
        site._machine = Some(running);
        Ok(site)
    }

    fn gateway(&self, place: Place) -> Ipv4Addr {
        place.address(if self.lab.has_nats() { 254 } else { 1 })
    }

    /// Makes a call: the callee answers, and both send a tone.
    fn call(
        &self,
        number: usize,
        (caller, callee): (End, End),
        srtp: bool,
        ending: &AtomicBool,
    ) -> io::Result<Call> {
        let mut call = Call {
            server: self.server.to_owned(),
            caller: caller.name().to_owned(),
            callee: callee.name().to_owned(),
            through_nats: self.lab.has_nats(),
            authentication: self.authentication,
            srtp,
            ..Call::default()
        };
        // The callee first: the caller calls at once.
        let called = self.phone(number, 1, callee, srtp)?;
        if !wait(self.patience, ending, || called.is_registered()) {
            call.failure = Some(format!("the callee is not registered: {}", called.last_line()));
            return Ok(call);
        }
        let mut calling = self.phone(number, 0, caller, srtp)?;
        if caller == End::Linux(Kind::Linphone)
            && wait(self.patience, ending, || calling.is_registered())
        {
            calling.running.say(&softphone::linphone_call(&uri(number)))?;
        }
        let phones = [calling, called];
        let mut look = || {
            call.registered = [0, 1].map(|end| phones[end].is_registered());
            call.established = [0, 1].map(|end| phones[end].is_established());
            call.heard = [0, 1].map(|end| phones[end].hears(TONES[1 - end]));
            call.stages() == STAGES
        };
        if !wait(self.patience, ending, &mut look) {
            let lines = phones.each_ref().map(Phone::last_line);
            call.failure = Some(format!("caller: {}; callee: {}", lines[0], lines[1]));
        } else if srtp && caller == End::Bare && callee == End::Linux(Kind::Barebell) {
            phones[1].running.interrupt();
            // Its log has the times of network headers last.
            let is_told = || phones[0].steps().iter().any(|(name, _)| name == LAST_STEP);
            wait(self.patience, ending, is_told);
            call.steps = phones[0].steps();
        }
        Ok(call)
    }

    /// Starts the phone of an end of a call, 0 for the caller.
    fn phone(&self, number: usize, end: usize, kind: End, srtp: bool) -> io::Result<Phone> {
        let place = match self.outside {
            Some(_) if end == 1 => Place::Elsewhere,
            _ => Place::Lan,
        };
        let server = self.outside.filter(|_| end == 1).unwrap_or(self.address);
        let namespace = self.lab.namespace(place);
        let namespace = (place == Place::Elsewhere).then_some(&*namespace);
        let folder = self.folder.join(format!("{number}-{end}"));
        let (user, other) = (user(number, end), uri(number));
        let calls = (end == 0).then_some(&*other);
        let running = match kind {
            End::Bare => {
                let does = calls.map_or("answer=on".to_owned(), |uri| format!("call={uri}"));
                let options = format!(
                    "account=sip:{user}@{DOMAIN} password={PASSWORD} server={server} \
                     sound=tone:{} srtp={} timings=on {does}",
                    TONES[end],
                    if srtp { "required" } else { "off" },
                );
                let image = self.equipment.phone.as_deref().unwrap_or(Path::new(""));
                let number = end + 1;
                Machine {
                    qemu: &self.equipment.qemu,
                    image,
                    namespace,
                    number,
                    address: place.address(10 + number as u8),
                    gateway: self.gateway(place),
                    options: &options,
                    has_sound: true,
                    folder: &folder,
                }
                .start()?
            }
            End::Linux(kind) => {
                let program = self.equipment.phones.program(kind).unwrap_or(Path::new(""));
                let account = Account { user: &user, password: PASSWORD, domain: DOMAIN, server };
                Softphone {
                    kind,
                    program,
                    namespace,
                    address: (place.address(21 + end as u8), PHONES[end]).into(),
                    rtp: RTP + end as u16 * RTP_PORTS,
                    folder: &folder,
                    user: &user,
                    account: Some(account),
                    calls,
                    seconds: self.patience.as_secs(),
                    tone: TONES[end],
                    keys: srtp.then_some(Keys::Sdes),
                    suite: srtp.then_some(SUITE),
                    records: true,
                }
                .start()?
            }
        };
        Ok(Phone { kind, folder, running })
    }
}

/// Waits until the condition is true, at most `patience`, and returns it.
fn wait(patience: Duration, ending: &AtomicBool, mut is_true: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
    loop {
        if is_true() {
            return true;
        }
        if Instant::now() > end || ending.load(Ordering::SeqCst) {
            return false;
        }
        thread::sleep(LOOK);
    }
}

/// Returns the parts that are missing, in words.
pub(crate) fn find(
    images: Option<&Path>,
    phones: &Installed,
    absent: &mut Vec<String>,
) -> Option<Equipment> {
    let qemu = sut::find(QEMU);
    if qemu.is_none() {
        absent.push("without the bare machine: qemu-system-x86 is not installed".to_owned());
    }
    let server = find_image("server", images);
    let phone = find_image("phone", images);
    for (image, name) in [(&server, "server"), (&phone, "phone")] {
        if image.is_none() {
            absent.push(format!(
                "without the {name} of the bare machine: its image is not built (./image build {name})"
            ));
        }
    }
    let has_nat = Command::new("nft").arg("--version").output().is_ok();
    if !has_nat {
        absent.push("without calls through NATs: nftables is not installed".to_owned());
    }
    let has_rival = sut::check(RIVAL).is_ok();
    let phones = phones.clone();
    Some(Equipment { qemu: qemu?, server: server?, phone, phones, has_rival, has_nat })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_made_with_what_is_there() {
        let everything = Equipment {
            phone: Some(PathBuf::new()),
            phones: Installed(Kind::ALL.map(|kind| (kind, PathBuf::new())).to_vec()),
            has_rival: true,
            has_nat: true,
            ..Equipment::default()
        };
        assert_eq!(count(&everything), 40);
        assert_eq!(count(&Equipment { has_rival: false, ..everything.clone() }), 28);
        assert_eq!(count(&Equipment { has_nat: false, ..everything.clone() }), 32);
        // linphone and baresip at the server.
        assert_eq!(count(&Equipment { phone: None, ..everything }), 4);
        assert_eq!(count(&Equipment::default()), 0);
    }

    #[test]
    fn a_call_has_all_stages_if_all_succeeded() {
        let mut call = Call { registered: [true; 2], ..Call::default() };
        assert_eq!(call.stages(), 2);
        (call.established, call.heard) = ([true; 2], [true; 2]);
        assert_eq!(call.stages(), STAGES);
    }
}
