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

/// The frequency of the page's microphone in Hz.
const TONE: u32 = 1_500;

/// Replaces the microphone by a tone, and measures the loudest frequency that the page plays.
const AUDIO: &str = "(() => {
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

    /// Waits until the page is registered from the address of `link`, and hears `phone` again, and
    /// `phone` hears the page.
    fn hears_after(&mut self, link: &Link, phone: &mut Phone) {
        let flow = format!("wss:{}:", link.machine.address);
        wait_until("a registration from the other network", || {
            let found = self.exchange.server.registrations_of("alice");
            found.iter().any(|it| it.flow.starts_with(&flow)).then_some(())
        });
        self.page
            .wait_for("!document.getElementById('talk').textContent.includes('interr')", SHOWN);
        self.hear(phone);
    }

    /// Waits until the page and `phone` hear each other.
    fn hear(&mut self, phone: &mut Phone) {
        let script = format!("Math.abs(heard() - {}) < 12", phone.account.tone);
        self.page.wait_for(&script, "heard()");
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
fn a_change_of_the_network_keeps_the_call() {
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
    rig.hears_after(&link, &mut phone);
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
    rig.hears_after(&link, &mut phone);
    rig.click("hang");
    phone.wait_for(Event::Ended);
}
