//! The sources of passwords, and places where they never appear.

mod processes;

use processes::registrar::{self, PASSWORD};
use processes::{PHONE, event, said, told};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Writes a script to `folder` that only registers.
fn script(folder: &Path, account: &str) -> std::path::PathBuf {
    let path = folder.join("script.toml");
    let text = format!("{account}\n[[steps]]\nregister = true\ntimeout = \"5s\"\n");
    std::fs::write(&path, text).expect("a script");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
    path
}

fn run(command: &mut Command, path: &Path) -> Output {
    let command = command.arg("run").arg(path).args(["--listen", "127.0.0.1:0", "--json"]);
    command.stdin(Stdio::null()).output().expect("the phone runs")
}

#[test]
fn passwords_come_from_a_file_a_command_or_the_configuration() {
    let server = registrar::start("");
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, format!("{PASSWORD}\nnot this\n")).expect("a file");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).expect("a mode");
    let secret = secret.display();
    for (password, code) in [
        (format!("password = \"{PASSWORD}\""), 0),
        (format!("password_file = \"{secret}\""), 0),
        (format!("password_command = \"cat {secret}\""), 0),
        ("password = \"wrong\"".to_owned(), 14),
        (String::new(), 14),
    ] {
        let account =
            format!("[[account]]\nuri = \"alice@example.org\"\nproxy = \"{server}\"\n{password}\n");
        let output = run(&mut Command::new(PHONE), &script(folder.path(), &account));
        assert_eq!(output.status.code(), Some(code), "{password}: {output:?}");
        assert!(!said(&output).contains(PASSWORD), "{output:?}");
        if code == 0 {
            event(&told(&output.stdout), "registered");
            assert_eq!(said(&output), "");
        }
    }
    for (password, words) in [
        ("password_file = \"/no/such\"", "/no/such"),
        ("password_command = \"exit 3\"", "3"),
        ("password_command = \"true\"", "it contains no password"),
        ("password = \"a\"\npassword_file = \"/b\"", "one password"),
        ("password_command = \"a\"\npassword_file = \"/b\"", "either"),
    ] {
        let account = format!("[[account]]\nuri = \"alice@example.org\"\n{password}\n");
        let output = run(&mut Command::new(PHONE), &script(folder.path(), &account));
        assert_eq!(output.status.code(), Some(2), "{password}: {output:?}");
        assert!(said(&output).contains(words), "{password}: {output:?}");
    }
}

#[test]
fn an_account_on_the_command_line_has_its_password_elsewhere() {
    let server = registrar::start("").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let path = script(folder.path(), "");
    let account = ["--account", "alice@example.org", "--proxy", &server];
    let mut command = Command::new(PHONE);
    let output = run(command.env("BAREBELL_PHONE_PASSWORD", PASSWORD), &path);
    // Without an account there is nothing to register.
    assert_eq!(output.status.code(), Some(21), "{output:?}");
    let with = |more: &[&str]| {
        let mut command = Command::new(PHONE);
        command.arg("run").arg(&path).args(account).args(more);
        command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let output = with(&[]).env("BAREBELL_PHONE_PASSWORD", PASSWORD).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut child = with(&["--password-fd", "0"]).stdin(Stdio::piped()).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("its input");
    let file = format!("/proc/{}/cmdline", child.id());
    // The command line is readable once the program has started.
    let line = std::iter::repeat_with(|| std::fs::read_to_string(&file).expect("a line"));
    let line = line.take(1_000_000).find(|line| !line.is_empty()).expect("its command line");
    assert!(line.contains("--password-fd") && !line.contains(PASSWORD), "{line}");
    // The other end stays open.
    writeln!(input, "{PASSWORD}").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    drop(input);
    let output = with(&["--password-fd", "99"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(said(&output).contains("--password-fd 99"), "{output:?}");
}

#[test]
fn a_script_registers_and_ends_that() {
    let server = registrar::start("");
    let folder = tempfile::tempdir().expect("a folder");
    let account = format!(
        "[[account]]\nuri = \"alice@example.org\"\nproxy = \"{server}\"\npassword = \"{PASSWORD}\"\n\
         [[steps]]\nregister = \"alice@example.org\"\n[[steps]]\nunregister = true\n"
    );
    let output = run(&mut Command::new(PHONE), &script(folder.path(), &account));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = told(&output.stdout);
    event(&told, "unregistered");
    let passed = told.iter().filter(|told| told["event"] == "step" && told["state"] == "passed");
    assert_eq!(passed.count(), 3);
}

#[test]
fn a_file_with_passwords_that_others_can_read_is_warned_of() {
    let server = registrar::start("");
    let folder = tempfile::tempdir().expect("a folder");
    let account = format!(
        "[[account]]\nuri = \"alice@example.org\"\nproxy = \"{server}\"\npassword = \"{PASSWORD}\"\n"
    );
    let path = script(folder.path(), &account);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("a mode");
    let output = run(&mut Command::new(PHONE), &path);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said(&output).contains("chmod 600"), "{output:?}");
}
