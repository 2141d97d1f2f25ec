//! The commands for call services, and groups in the configuration.

use crate::site::{Site, show, stderr, stdout, with_input};

#[test]
fn forwards_are_set_shown_and_removed_on_a_stopped_and_a_running_server() {
    let site = Site::new();
    for name in ["alice", "bob"] {
        site.good(&format!("user add {name}@a.com --password x"));
    }
    let set = "user forward alice@a.com --busy bob --no-answer bob@a.com --after 90s";
    let shown = "sip:alice@a.com: busy to bob@a.com, no answer after 90 s to bob@a.com\n";
    assert_eq!(site.good(set), shown);
    let server = site.serve("--domain a.com");
    assert_eq!(site.good("user forward alice"), shown);
    assert_eq!(site.good("user dnd bob on"), "sip:bob@a.com: do not disturb\n");
    let output = with_input(site.command("user forward alice --unreachable sales"), "");
    assert!(stderr(&output).contains("sales@a.com is no user"), "{}", stderr(&output));
    assert_eq!(
        site.good("user list"),
        "alice@a.com (busy to bob@a.com, unreachable to sales@a.com, no answer after 90 s to \
         bob@a.com)\nbob@a.com (do not disturb)\n"
    );
    site.good("user forward alice --off no-answer");
    let row = "{\"name\":\"alice\",\"domain\":\"a.com\",\"services\":{\"busy\":\"bob@a.com\",\
               \"unreachable\":\"sales@a.com\",\"do_not_disturb\":false}}\n";
    assert!(site.good("user list --json").starts_with(row));
    assert_eq!(site.good("user dnd bob off"), "sip:bob@a.com: no forwards\n");
    drop(server);
    assert_eq!(site.good("user forward alice@a.com --off"), "sip:alice@a.com: no forwards\n");
    assert_eq!(site.good("user list"), "alice@a.com\nbob@a.com\n");
}

#[test]
fn bad_forwards_are_refused() {
    let site = Site::new();
    site.good("user add alice@a.com --password x");
    let _server = site.serve("--domain a.com");
    for (command, expected) in [
        ("forward alice --always alice", "cannot be forwarded to itself"),
        ("forward alice --always bob@b.com", "sip:bob@b.com is not of this server"),
        ("forward alice --after 20s", "add --no-answer TARGET"),
        ("forward alice --no-answer bob --after 4m", "expected 1 s to 180 s"),
        ("forward bob --always alice", "there is no user sip:bob@a.com"),
        ("dnd bob on", "there is no user sip:bob@a.com"),
    ] {
        let error = site.bad(&format!("user {command}"));
        assert!(error.contains(expected), "{command}: {error}");
    }
    assert_eq!(site.good("user list"), "alice@a.com\n");
}

#[test]
fn mistakes_in_groups_are_named_with_their_places() {
    let site = Site::new();
    let text = "domains = [\"a.com\"]\n[[groups]]\nname = \"sales\"\nmembers = [\"bob\"]\n\
                [[groups]]\nname = \"sales\"\nmembers = []\nring = 3\n";
    let config = show(&site.file("c.toml", text));
    let output = with_input(site.command(&format!("check --config {config}")), "");
    let error = stdout(&output);
    for expected in [
        ":6:8: the group `sales` is repeated",
        ":7:11: the group has no member",
        ":8:1: unknown key `ring`",
    ] {
        assert!(error.contains(expected), "{expected} in {error}");
    }
}
