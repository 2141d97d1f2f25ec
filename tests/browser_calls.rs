//! Pages with JsSIP and SIP.js in a browser call desk phones through the relay, and are called.

use Engine::{Chromium, Firefox};
use peers::browser::{Browser, Page};
use peers::phone::Kind::{Barebell, Baresip};
use peers::phone::{Action, Event, Kind, Phone};
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::{PASSWORD, TestServer};
use peers::transport::Transport::Udp;
use test_support::skip;

/// The frequency of the page's tone in Hz.
const TONE: u32 = 1_500;

/// The browser of a page.
#[derive(Clone, Copy, Debug)]
enum Engine {
    Chromium,
    Firefox,
}

/// A server and a page of alice that has registered.
struct Rig {
    exchange: TestServer,
    page: Browser,
}

impl Rig {
    /// A rig with a page of this library, and further settings of the server.
    fn new(engine: Engine, library: &str, more: &str) -> Self {
        Self::with_pages(engine, [Page::serve()], library, more).0
    }

    /// A rig with the first of these pages. The server accepts all of them.
    fn with_pages<const N: usize>(
        engine: Engine,
        pages: [Page; N],
        library: &str,
        more: &str,
    ) -> (Self, impl Iterator<Item = Page> + use<N>) {
        let origins = pages.each_ref().map(|page| format!("\"{}\"", page.origin())).join(", ");
        let settings = format!("{TRUSTS_NOBODY}[websocket]\norigins = [{origins}]\n{more}");
        let exchange = TestServer::with(&settings, &[]);
        let mut pages = pages.into_iter();
        let page = pages.next().expect("a page");
        let page = open(&exchange, (engine, page), library, ("alice", TONE));
        (Self { exchange, page }, pages)
    }

    /// Alice holds `phone`, which hears nothing, and resumes the call.
    fn hold_and_resume(&mut self, phone: &mut Phone) {
        let since = self.page.reports();
        self.page.command("hold");
        self.page.wait_for_after("held by local", since);
        phone.wait_until_it_hears_no_more(TONE);
        let since = self.page.reports();
        self.page.command("resume");
        self.page.wait_for_after("resumed by local", since);
        self.hear(phone, since);
    }

    /// Alice and `phone` hear each other; the page reports that after the first `since` reports.
    fn hear(&mut self, phone: &mut Phone, since: usize) {
        self.page.wait_until_it_hears(phone.account.tone, since);
        phone.wait_until_it_hears_more(TONE);
    }
}

fn open(
    exchange: &TestServer,
    (engine, page): (Engine, Page),
    library: &str,
    (user, tone): (&str, u32),
) -> Browser {
    let (url, tone) = (exchange.server.web_url(), tone.to_string());
    let settings = [
        ("scenario", "calls"),
        ("library", library),
        ("url", &url),
        ("domain", DOMAIN),
        ("password", PASSWORD),
        ("user", user),
        ("hertz", &tone),
    ];
    let mut browser = match engine {
        Chromium => Browser::open(page, &settings, &exchange.server.certificate()),
        Firefox => Browser::open_firefox(page, &settings),
    };
    browser.wait_for("registered");
    browser
}

/// The page calls the phone: both hear each other, also after a hold and a restart of ICE.
fn page_calls(engine: Engine, library: &str, kind: Kind, more: &str) {
    let mut rig = Rig::new(engine, library, more);
    let mut phone = Phone::registered(kind, rig.exchange.account("bob", Udp));
    rig.page.command("call bob");
    phone.wait_for(Event::Incoming);
    phone.act(&Action::Answer);
    rig.page.wait_for("in a call");
    rig.page.wait_for("media connected");
    rig.hear(&mut phone, 0);
    rig.hold_and_resume(&mut phone);
    // Other candidates, as after a change of the network: the keys stay.
    rig.page.command("restart");
    phone.wait_until_it_hears_more(TONE);
    rig.page.command("press 5");
    phone.wait_for(Event::Key('5'));
    rig.hold_and_resume(&mut phone);
    rig.page.command("hang");
    phone.wait_for(Event::Ended);
}

/// The phone calls the page: both hear each other, and the phone hangs up.
fn phone_calls(engine: Engine, library: &str, kind: Kind, more: &str) {
    let mut rig = Rig::new(engine, library, more);
    let mut phone = Phone::registered(kind, rig.exchange.account("bob", Udp));
    phone.act(&Action::Dial(rig.exchange.server.uri("alice")));
    rig.page.wait_for("it rings");
    rig.page.command("answer");
    phone.wait_for(Event::Established);
    rig.page.wait_for("media connected");
    rig.hear(&mut phone, 0);
    rig.hold_and_resume(&mut phone);
    phone.act(&Action::HangUp);
    rig.page.wait_for("ended by remote: Terminated");
}

#[test]
fn a_page_calls_baresip() {
    page_calls(Chromium, "jssip", Baresip, "");
}

#[test]
fn a_page_calls_barebell_phone() {
    page_calls(Chromium, "jssip", Barebell, "");
}

#[test]
fn baresip_calls_a_page() {
    phone_calls(Chromium, "jssip", Baresip, "");
}

#[test]
fn barebell_phone_calls_a_page() {
    phone_calls(Chromium, "jssip", Barebell, "");
}

#[test]
fn a_page_with_sip_js_calls_baresip() {
    page_calls(Chromium, "sip.js", Baresip, "");
}

#[test]
fn baresip_calls_a_page_with_sip_js() {
    phone_calls(Chromium, "sip.js", Baresip, "");
}

/// True if the test can be run.
fn has_firefox() -> bool {
    let is_there = Browser::has_firefox();
    if !is_there {
        skip("firefox-esr is missing, which Ubuntu does not have");
    }
    is_there
}

#[test]
fn a_page_in_firefox_calls_baresip() {
    if !has_firefox() {
        return;
    }
    page_calls(Firefox, "jssip", Baresip, "");
}

#[test]
fn baresip_calls_a_page_in_firefox() {
    if !has_firefox() {
        return;
    }
    phone_calls(Firefox, "jssip", Baresip, "");
}

/// The first description of trickle ICE (RFC 8838) may have no candidate. The checks of the page
/// tell the relay its address, and later candidates are not needed: for its offer, its answer, and
/// the offer of a restart.
#[test]
fn a_page_needs_no_candidates_in_its_descriptions() {
    let mut rig = Rig::new(Chromium, "jssip", "");
    rig.page.command("trickle");
    let mut phone = Phone::registered(Barebell, rig.exchange.account("bob", Udp));
    rig.page.command("call bob");
    phone.wait_for(Event::Incoming);
    phone.act(&Action::Answer);
    rig.page.wait_for("in a call");
    rig.page.wait_for("offer without candidates");
    rig.hear(&mut phone, 0);
    let since = rig.page.reports();
    rig.page.command("restart");
    rig.page.wait_for_after("offer without candidates", since);
    phone.wait_until_it_hears_more(TONE);
    rig.page.command("hang");
    phone.wait_for(Event::Ended);
    let since = rig.page.reports();
    phone.act(&Action::Dial(rig.exchange.server.uri("alice")));
    rig.page.wait_for_after("it rings", since);
    rig.page.command("answer");
    phone.wait_for(Event::Established);
    rig.page.wait_for_after("answer without candidates", since);
    rig.hear(&mut phone, since);
    phone.act(&Action::HangUp);
    rig.page.wait_for_after("ended by remote: Terminated", since);
}

/// The B2BUA joins two calls of its own, with the page and with the phone.
const B2BUA: &str = "[calls]\nmode = \"b2bua\"\n";

#[test]
fn a_page_calls_a_phone_through_the_b2bua() {
    page_calls(Chromium, "jssip", Barebell, B2BUA);
}

#[test]
fn a_phone_calls_a_page_through_the_b2bua() {
    phone_calls(Chromium, "jssip", Barebell, B2BUA);
}

#[test]
fn a_page_calls_another_page() {
    pages_call("");
}

/// Both ends of the call are browsers of the relay, with keys of their own.
#[test]
fn a_page_calls_another_page_through_the_relay() {
    pages_call("[media]\nrelay = \"all\"\n");
}

fn pages_call(more: &str) {
    let pages = [Page::serve(), Page::serve()];
    let (mut rig, mut others) = Rig::with_pages(Chromium, pages, "jssip", more);
    let page = (Chromium, others.next().expect("a page"));
    let mut bob = open(&rig.exchange, page, "jssip", ("bob", 900));
    rig.page.command("call bob");
    bob.wait_for("it rings");
    bob.command("answer");
    for page in [&mut rig.page, &mut bob] {
        page.wait_for("in a call");
        page.wait_for("media connected");
    }
    rig.page.wait_until_it_hears(900, 0);
    bob.wait_until_it_hears(TONE, 0);
    bob.command("hang");
    rig.page.wait_for("ended by remote: Terminated");
}
