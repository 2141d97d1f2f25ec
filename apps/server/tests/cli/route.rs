//! The command `route`.

use crate::site::{Site, show, stdout};

/// The example of docs/configuration.md.
fn office() -> String {
    let reference = include_str!("../../../../docs/configuration.md");
    let blocks = reference.split("```toml\n").map(|block| block.split("```").next().unwrap());
    let mut examples = blocks.filter(|block| block.contains("[[numbers.rules]]"));
    format!("domains = [\"example.com\"]\n{}", examples.next().unwrap())
}

#[test]
fn route_shows_each_step_and_fails_for_a_refused_call() {
    let site = Site::new();
    let config = show(&site.file("office.toml", &office()));
    let route = |words: &str| format!("route {words} --config {config}");
    let shown = site.good(&route("089123456 --from 12 --trunk-down isp"));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "12@example.com calls 089123456");
    assert_eq!(lines[2], "  2. 089123456 is the E.164 number +4989123456");
    assert_eq!(lines[5], "  5. trunk isp is down");
    let last = "trunk backup: 004989123456, class national, number of the caller +4930123412";
    assert_eq!(lines.last(), Some(&last));
    let documented = include_str!("../../../../docs/running.md");
    assert!(documented.contains(&shown), "the example of the page is\n{shown}");

    let refused = site.command(&route("0900123 --from 12")).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let expected = "refused by outside with 403: 12@example.com has no right to call numbers of \
                    class premium\n";
    assert!(stdout(&refused).ends_with(expected), "{}", stdout(&refused));
    let emergency = site.good(&route("112 --from lobby --trunk-down isp --trunk-down backup"));
    assert!(emergency.contains("112 is an emergency number"), "{emergency}");
    assert!(emergency.contains("trunk backup: 112, class emergency"), "{emergency}");

    for (words, outcome) in [
        ("+4930123450 --trunk isp", "\"outcome\":\"group\",\"group\":\"sales\""),
        ("s --trunk backup", "\"outcome\":\"user\",\"user\":\"boss\""),
        ("*812 --from 12", "\"outcome\":\"service\",\"service\":\"pickup\",\"argument\":\"12\""),
        ("bob --stranger", "\"outcome\":\"name\""),
        ("089123456 --from 12", "\"outcome\":\"trunks\",\"attempts\":[{\"trunk\":\"isp\","),
    ] {
        let json = site.good(&route(&format!("{words} --json")));
        assert!(json.contains(outcome) && json.contains("\"steps\":[\""), "{words}: {json}");
    }
    let mut spaced = site.command(&format!("route --trunk isp --config {config}"));
    let spaced = stdout(&spaced.arg("+49 30 123450").output().unwrap());
    assert!(spaced.contains("group sales"), "{spaced}");
    let services = "[media_server]\nenabled = true\npark = [\"70\"]\nmailboxes = [\"12\"]\n";
    let config = show(&site.file("services.toml", &(office() + services)));
    let route = |words: &str| format!("route {words} --config {config}");
    for (words, destination) in [
        ("701 --from 12", "service slot 701\n"),
        ("700 --from 12", "service free_slot 701 to 709\n"),
        ("voicemail --from 12", "service voicemail\n"),
        ("voicemail-12 --stranger", "service mailbox 12\n"),
        ("conference-x --from 12", "service conference x\n"),
    ] {
        let shown = site.good(&route(words));
        assert!(shown.ends_with(destination), "{words}: {shown}");
    }
    for (words, refusal) in [
        ("701 --stranger", "refused by media_server with 403: only users may call 701\n"),
        ("voicemail --from 13", "with 404: 13@example.com has no mailbox\n"),
    ] {
        let refused = site.command(&route(words)).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        assert!(stdout(&refused).ends_with(refusal), "{words}: {}", stdout(&refused));
    }
    let error = site.bad(&route("1 --trunk isq"));
    assert_eq!(error, "error: the trunk `isq` is unknown; the configuration has: isp, backup\n");
}

#[test]
fn route_takes_the_configuration_of_the_running_server() {
    let site = Site::new();
    let more = "listen = [\"udp:127.0.0.1:0\"]\n";
    let config = show(&site.file("office.toml", &format!("{more}{}", office())));
    let _server = site.started(&mut site.command(&format!("serve --config {config}")));
    let shown = site.good("route 089123456 --from 12");
    assert!(shown.contains("12@example.com calls 089123456"), "{shown}");
    assert!(shown.contains("trunk isp: "), "{shown}");
}
