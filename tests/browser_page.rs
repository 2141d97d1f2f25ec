//! The page that the server serves: a user logs in, calls a desk phone, and is called.

use peers::devtools::Devtools;
use peers::link::Link;
use peers::phone::Kind::{Barebell, Baresip};
use peers::phone::{Action, Event, Phone};
use peers::process::wait_until;
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::{PASSWORD, TestServer};
use peers::transport::Transport::Udp;
use std::net::SocketAddr;
use test_support::agent::SESSION;

/// The frequency of the page's microphone in Hz.
const TONE: u32 = 1_500;

/// Replaces the microphone by a tone, and measures the loudest frequency that the page plays, and
/// the energy of the audio that was received so far.
const AUDIO: &str = "(() => {
    let connection = null;
    window.RTCPeerConnection = class extends window.RTCPeerConnection {
        constructor(...all) {
            super(...all);
            connection = this;
        }
    };
    window.energy = async () => {
        let sum = 0;
        (await connection.getStats()).forEach(({ totalAudioEnergy, type }) => {
            if (type === 'inbound-rtp') sum += totalAudioEnergy;
        });
        return sum;
    };
    window.links = async () => JSON.stringify([...(await connection.getStats()).values()]
        .filter(({ type }) => /candidate|transport|rtp/.test(type)));
    const context = new AudioContext();
    const oscillator = new OscillatorNode(context, { frequency: 1500 });
    const output = context.createMediaStreamDestination();
    oscillator.connect(new GainNode(context, { gain: 0.5 })).connect(output);
    oscillator.start();
    navigator.mediaDevices.getUserMedia = async () => output.stream.clone();
    let [stream, analyser] = [null, null];
    window.heard = () => {
        const played = document.getElementById('sound').srcObject;
        if (!played) return 0;
        if (played !== stream) {
            stream = played;
            analyser = new AnalyserNode(context, { fftSize: 8192, smoothingTimeConstant: 0 });
            context.createMediaStreamSource(stream).connect(analyser);
        }
        const bins = new Float32Array(analyser.frequencyBinCount);
        analyser.getFloatFrequencyData(bins);
        const place = bins.reduce((best, level, at) => (level > bins[best] ? at : best), 0);
        return bins[place] > -60 ? place * context.sampleRate / analyser.fftSize : 0;
    };
})()";

/// The texts that the page shows.
const SHOWN: &str = "['state', 'talk'].map((id) => document.getElementById(id)?.textContent)";

fn settings() -> String {
    format!("{TRUSTS_NOBODY}[websocket]\npage = true\n")
}

struct Rig {
    exchange: TestServer,
    page: Devtools,
}

impl Rig {
    /// A server with the page open.
    fn new() -> Self {
        let exchange = TestServer::with(&settings(), &[]);
        let url = exchange.server.web_url().replace("wss:", "https:");
        let page = Devtools::open(&format!("{url}/"), &exchange.server.certificate());
        Self::with(exchange, page)
    }

    /// A server with the page open on the machine of `link`.
    fn on(link: &Link) -> Self {
        let place = SocketAddr::new(link.here.into(), 8443);
        let exchange = TestServer::with(&settings(), &["--listen", &format!("wss:{place}")]);
        let url = format!("https://{place}/");
        let page = Devtools::open_on(&link.machine, &url, &exchange.server.certificate());
        Self::with(exchange, page)
    }

    fn with(exchange: TestServer, mut page: Devtools) -> Self {
        page.wait_for("document.querySelectorAll('#keys button').length === 12", SHOWN);
        page.evaluate(AUDIO);
        Self { exchange, page }
    }

    fn log_in(&mut self, password: &str) {
        self.fill("user", &format!("alice@{DOMAIN}"));
        self.fill("password", password);
        self.click("enter");
    }

    fn fill(&mut self, id: &str, text: &str) {
        self.page.evaluate(&format!("document.getElementById('{id}').value = '{text}'"));
    }

    fn click(&mut self, id: &str) {
        self.page.evaluate(&format!("document.getElementById('{id}').click()"));
    }

    /// Waits until the part `id` shows `text`.
    fn wait_for(&mut self, id: &str, text: &str) {
        let script = format!("document.getElementById('{id}').textContent.includes('{text}')");
        self.page.wait_for(&script, SHOWN);
    }

    /// `phone` calls the page, which answers.
    fn is_called(&mut self, phone: &mut Phone) {
        phone.act(&Action::Dial(self.exchange.server.uri("alice")));
        self.wait_for("talk", "calls");
        self.click("answer");
        phone.wait_for(Event::Established);
        self.wait_for("talk", "In a call with");
        self.hear(phone);
    }

    /// Waits until the page is registered from the address of `link`, and its audio is back.
    fn is_back(&mut self, link: &Link) {
        let flow = format!("wss:{}:", link.machine.address);
        wait_until("a registration from the other network", || {
            let found = self.exchange.server.registrations_of("alice");
            found.iter().any(|it| it.flow.starts_with(&flow)).then_some(())
        });
        self.page
            .wait_for("!document.getElementById('talk').textContent.includes('interr')", SHOWN);
    }

    /// Waits until the page receives more sound, and `phone` hears the page. After an offer of its
    /// own in a call that it has answered, Chromium plays what it receives, but gives nothing to
    /// the analyser.
    fn receive_more(&mut self, phone: &mut Phone) {
        self.page.evaluate("energy().then((now) => { window.before = now; })");
        self.page.wait_for("energy().then((now) => now > before + 0.1)", "energy()");
        phone.wait_until_it_hears_more(TONE);
    }

    /// Waits until the page and `phone` hear each other.
    fn hear(&mut self, phone: &mut Phone) {
        let script = format!("Math.abs(heard() - {}) < 12", phone.account.tone);
        self.page.wait_for(&script, "links()");
        phone.wait_until_it_hears_more(TONE);
    }
}

#[test]
fn the_page_calls_a_phone() {
    let mut rig = Rig::new();
    rig.log_in("wrong");
    rig.wait_for("state", "Name or password is wrong");
    rig.log_in(PASSWORD);
    rig.wait_for("state", "Logged in as alice");
    rig.fill("target", "nobody");
    rig.click("start");
    rig.wait_for("talk", "There is no such user");
    let mut phone = Phone::registered(Baresip, rig.exchange.account("bob", Udp));
    rig.fill("target", "bob");
    rig.click("start");
    phone.wait_for(Event::Incoming);
    rig.wait_for("talk", "It rings");
    phone.act(&Action::Answer);
    rig.wait_for("talk", "In a call with bob");
    rig.hear(&mut phone);
    rig.page.evaluate("document.querySelectorAll('#keys button')[4].click()");
    phone.wait_for(Event::Key('5'));
    rig.click("mute");
    phone.wait_until_it_hears_no_more(TONE);
    rig.click("mute");
    rig.hear(&mut phone);
    rig.click("hang");
    phone.wait_for(Event::Ended);
    rig.fill("target", "bob");
    rig.click("start");
    phone.wait_for(Event::Incoming);
    rig.wait_for("talk", "It rings");
    rig.click("hang");
    phone.wait_for(Event::Ended);
    rig.wait_for("talk", "cancelled");
    rig.click("logout");
    let _ = rig.exchange.server.wait_for_registrations("alice", 0);
}

#[test]
fn a_phone_calls_the_page() {
    let mut rig = Rig::new();
    rig.log_in(PASSWORD);
    rig.wait_for("state", "Logged in as alice");
    let mut phone = Phone::registered(Baresip, rig.exchange.account("bob", Udp));
    phone.act(&Action::Dial(rig.exchange.server.uri("alice")));
    rig.wait_for("talk", "calls");
    rig.click("answer");
    phone.wait_for(Event::Established);
    rig.hear(&mut phone);
    phone.act(&Action::Hold);
    rig.wait_for("talk", "held by the other end");
    phone.act(&Action::Resume);
    rig.page.wait_for("!document.getElementById('talk').textContent.includes('held')", SHOWN);
    rig.hear(&mut phone);
    phone.act(&Action::HangUp);
    rig.wait_for("talk", "The other end has hung up");
}

/// The machine of the page leaves its network for another one: the page opens another connection to
/// the server, and ICE is restarted. Its calls go on, and each end can end them.
/// Requires root.
#[test]
fn a_change_of_the_network_keeps_a_call_of_the_page() {
    let mut link = Link::open();
    let mut rig = Rig::on(&link);
    rig.log_in(PASSWORD);
    rig.wait_for("state", "Logged in as alice");
    let mut phone = Phone::registered(Barebell, rig.exchange.account("bob", Udp));
    rig.fill("target", "bob");
    rig.click("start");
    phone.wait_for(Event::Incoming);
    phone.act(&Action::Answer);
    rig.wait_for("talk", "In a call with bob");
    rig.hear(&mut phone);
    link.change_network();
    rig.is_back(&link);
    rig.hear(&mut phone);
    phone.act(&Action::HangUp);
    rig.wait_for("talk", "The other end has hung up");
    // Another call, from the other network, ends by the page after a further change.
    rig.fill("target", "bob");
    rig.click("start");
    phone.wait_for(Event::Incoming);
    phone.act(&Action::Answer);
    rig.wait_for("talk", "In a call with bob");
    rig.hear(&mut phone);
    link.change_network();
    rig.is_back(&link);
    rig.hear(&mut phone);
    rig.click("hang");
    phone.wait_for(Event::Ended);
}

/// As above, with calls to the page. Requires root.
#[test]
fn a_change_of_the_network_keeps_a_call_to_the_page() {
    let mut link = Link::open();
    let mut rig = Rig::on(&link);
    rig.log_in(PASSWORD);
    rig.wait_for("state", "Logged in as alice");
    let mut phone = Phone::registered(Barebell, rig.exchange.account("bob", Udp));
    rig.is_called(&mut phone);
    link.change_network();
    rig.is_back(&link);
    rig.receive_more(&mut phone);
    phone.act(&Action::Hold);
    rig.wait_for("talk", "held by the other end");
    phone.act(&Action::Resume);
    rig.receive_more(&mut phone);
    phone.act(&Action::HangUp);
    phone.wait_for(Event::Ended);
    rig.wait_for("talk", "The other end has hung up");
    // Another call, at the other network, ends by the page after a further change.
    rig.is_called(&mut phone);
    link.change_network();
    rig.is_back(&link);
    rig.receive_more(&mut phone);
    rig.click("hang");
    phone.wait_for(Event::Ended);
}

/// The restart of the page and an offer of the phone cross: the page refuses the latter (491),
/// makes its own again after the phone has refused it, and then answers the phone. Requires root.
#[test]
fn offers_that_cross_are_made_again() {
    let mut link = Link::open();
    let mut rig = Rig::on(&link);
    rig.log_in(PASSWORD);
    rig.wait_for("state", "Logged in as alice");
    let mut bob = rig.exchange.agent("bob");
    rig.fill("target", "bob");
    rig.click("start");
    let invite = bob.request("INVITE");
    let mut dialog = bob.dialog_with(&invite);
    bob.answer(&invite, &dialog, 200, "", SESSION);
    bob.request("ACK");
    rig.wait_for("talk", "In a call with bob");
    link.change_network();
    let restart = bob.request("INVITE");
    let held = format!("{SESSION}a=sendonly\r\n");
    bob.send(&mut dialog, "INVITE", "", &held);
    bob.response("INVITE", 491);
    bob.answer(&restart, &dialog, 491, "", "");
    let again = bob.request("INVITE");
    assert!(again.cseq().number > restart.cseq().number, "{restart}\n{again}");
    bob.answer(&again, &dialog, 200, "", SESSION);
    rig.page.wait_for("!document.getElementById('talk').textContent.includes('interr')", SHOWN);
    bob.send(&mut dialog, "INVITE", "", &held);
    let answer = bob.response("INVITE", 200);
    bob.acknowledge(&dialog, &answer);
    rig.wait_for("talk", "held by the other end");
    bob.send(&mut dialog, "BYE", "", "");
    bob.response("BYE", 200);
    rig.wait_for("talk", "The other end has hung up");
}
