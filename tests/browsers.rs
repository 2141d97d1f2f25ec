//! Web pages with JsSIP and SIP.js register over secure WebSocket and exchange a message; a call
//! rings and is cancelled.

use peers::browser::{Browser, Page};
use peers::server::DOMAIN;
use peers::test_server::{PASSWORD, TestServer};

fn run(library: &str) {
    let page = Page::serve();
    let exchange = TestServer::for_pages(&page.origin());
    let url = exchange.server.web_url();
    let settings =
        [("scenario", library), ("url", &url), ("domain", DOMAIN), ("password", PASSWORD)];
    let mut browser = Browser::open(page, &settings, &exchange.server.certificate());
    for what in ["alice is registered", "bob is registered"] {
        browser.wait_for(what);
    }
    let registrations = exchange.server.registrations();
    assert!(registrations.iter().any(|found| found.flow.starts_with("wss:")), "{registrations:?}");
    for what in [
        "bob reads hello",
        "the message has arrived",
        "bob hears it ring",
        "alice hears it ring",
        "for alice the call is over: Canceled",
        "for bob the call is over: Canceled",
        "alice is not registered any more",
    ] {
        browser.wait_for(what);
    }
    assert!(exchange.server.registrations_of("alice").is_empty());
    // Bindings end with their connection.
    drop(browser);
    assert!(exchange.server.wait_for_registrations("bob", 0).is_empty());
}

#[test]
fn jssip() {
    run("jssip");
}

#[test]
fn sip_js() {
    run("sip.js");
}
