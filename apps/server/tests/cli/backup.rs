//! Backups by command, of a stopped and a running server.

use crate::site::{Site, show, stdout, with_input};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_backup_of_a_stopped_server_is_restored_at_a_running_one() {
    let from = Site::new();
    let text = "domains = [\"a.com\"]\n[[groups]]\nname = \"sales\"\nmembers = [\"alice\"]\n";
    let config = show(&from.file("c.toml", text));
    from.good(&format!("user add alice --password x --auth-name 4711 --config {config}"));
    from.good(&format!("user add bob --password x --config {config}"));
    from.good(&format!("user forward bob --busy sales --config {config}"));
    from.good("token add ci");
    let file = show(&from.file("x", "")).replace("/x", "/b.jsonl");
    from.good(&format!("backup {file} --config {config}"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let error = from.bad(&format!("backup {file}"));
    assert!(error.contains("cannot create"), "a file is never replaced: {error}");

    let to = Site::new();
    let _server = to.serve("--domain a.com");
    to.good("user add carol --password x");
    let trial = to.good(&format!("restore {file} --dry-run"));
    assert!(trial.starts_with("dry run: nothing is changed\nusers: 2 added"), "{trial}");
    assert_eq!(to.good("user list"), "carol@a.com\n");
    let new = file.replace("/b.jsonl", "/new.toml");
    let said = to.good(&format!("restore {file} --configuration {new}"));
    assert!(said.contains("1 removed (carol@a.com)"), "{said}");
    assert!(said.contains("the configuration in the backup differs"), "{said}");
    assert_eq!(
        to.good("user list"),
        "alice@a.com (logs in as 4711, too)\nbob@a.com (busy to sales@a.com)\n"
    );
    assert_eq!(fs::read_to_string(&new).unwrap(), text);
    assert!(to.good("token list").contains("ci"));
    let again = to.good(&format!("restore {file} --json"));
    assert!(again.contains("\"unchanged\":2") && again.contains("\"dry_run\":false"), "{again}");

    // Parts, and standard input.
    to.good("user remove alice");
    let output =
        with_input(to.command("restore - --part panel"), &fs::read_to_string(&file).unwrap());
    assert!(output.status.success() && !stdout(&output).contains("users"), "{output:?}");
    assert_eq!(to.good("user list").lines().count(), 1);
    assert!(
        to.bad(&format!("restore {file} --part records")).contains("the backup has no records")
    );
    assert_eq!(to.good("backup - --with records").lines().count(), 5);
}

#[test]
fn a_bad_backup_is_refused_and_leaves_no_file() {
    let site = Site::new();
    site.good("user add alice@a.com --password x");
    let good = site.good("backup -");
    let new = show(&site.file("x", "")).replace("/x", "/new.toml");
    for (bad, reason) in [
        (good.replace("\"alice\"", "\"al ice\""), "line 2: the user name `al ice` contains ' '"),
        (good.replace("\"name\":", "\"path\":\"/etc/passwd\",\"name\":"), "line 2, column"),
        (good.replace("{\"end\"", "{\"fin\""), "unknown variant `fin`"),
        (String::new(), "the backup is empty"),
    ] {
        let file = show(&site.file("bad", &bad));
        let error = site.bad(&format!("restore {file}"));
        assert!(error.contains(reason), "{reason}: {error}");
        let error = site.bad(&format!("restore {file} --configuration {new}"));
        assert!(error.contains(reason), "{reason}: {error}");
        assert!(!fs::exists(&new).unwrap(), "{reason}");
        assert_eq!(site.good("backup -").lines().nth(1), good.lines().nth(1));
    }
    assert!(site.bad("restore /does/not/exist").contains("cannot read"));
    assert!(Site::new().bad("backup -").contains("no data of a server"));
}
