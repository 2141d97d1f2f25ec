//! A server with a full disk, with damaged files, or with files that others can change.

use crate::phone::{PATIENCE, receive, request, serve, status};
use crate::site::{Server, Site, show, stderr, stdout};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::net::UdpSocket;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

/// Registers sip:user`number`@example.com, and returns the response.
fn register(phone: &UdpSocket, server: &str, number: u32) -> String {
    let from = phone.local_addr().unwrap();
    let contact = format!("<sip:x@{from};{}>", "y".repeat(1000));
    let more = format!("Contact: {contact}\r\nContent-Length: 0\r\n");
    let text = request("REGISTER", "sip:example.com", "UDP", from, number, &more);
    let text = text.replace("sip:bob@", &format!("sip:user{number}@"));
    phone.send_to(text.as_bytes(), server).unwrap();
    receive(phone)
}

fn phone() -> UdpSocket {
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    phone
}

/// Kills a server, as in a crash.
fn crash(mut server: Server) {
    server.0.kill().unwrap();
    server.0.wait().unwrap();
}

fn journals(site: &Site) -> Vec<PathBuf> {
    let files = fs::read_dir(site.data()).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.filter(|file| show(file).contains("/journal-")).collect();
    files.sort();
    files
}

#[test]
fn unstorable_registrations_are_refused_until_there_is_room() {
    let site = Site::new();
    let words = "serve --domain example.com --auth off --workers 1 --listen udp:127.0.0.1:0";
    // Limits the length of files, as a full disk does.
    let before = "trap '' XFSZ && ulimit -S -f 300";
    let server = site.started(&mut site.command_after(before, words));
    let listens = status(&site)["listens"].clone();
    let address = listens[0].as_str().unwrap()[4..].to_owned();
    let phone = phone();
    let mut number = 0;
    let refusal = loop {
        number += 1;
        let answer = register(&phone, &address, number);
        if !answer.starts_with("SIP/2.0 200 ") {
            break answer;
        }
        assert!(number < 2000, "nothing is refused");
    };
    assert!(refusal.starts_with("SIP/2.0 500 Storage Failure\r\n"), "{refusal}");
    assert!(refusal.contains(&format!("Call-ID: {number}\r\n")), "{refusal}");
    assert!(!refusal.contains("Contact"), "{refusal}");
    site.log_with("registrations cannot be stored in");
    assert_eq!(status(&site)["counters"]["unstored"], 1);
    let pid = server.0.id().to_string();
    let prlimit = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &pid]).status();
    assert!(prlimit.unwrap().success());
    let answer = register(&phone, &address, number);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    crash(server);
    assert_eq!(site.good("registrations --json").lines().count(), number as usize);
}

#[test]
fn a_damaged_journal_loses_only_its_damaged_records_and_is_kept() {
    let site = Site::new();
    let (server, [address, _]) = serve(&site, "");
    let phone = phone();
    for number in 0..10 {
        assert!(register(&phone, &address, number).starts_with("SIP/2.0 200 "));
    }
    crash(server);
    // Each worker has a journal file.
    let journal = journals(&site).into_iter().max_by_key(|file| file.metadata().unwrap().len());
    let journal = journal.unwrap();
    let mut bytes = fs::read(&journal).unwrap();
    // A byte in the contact of the first frame.
    bytes[500] ^= 0x10;
    fs::write(&journal, &bytes).unwrap();
    let (server, _) = serve(&site, "");
    assert_eq!(site.good("registrations --json").lines().count(), 9);
    let kept = journals(&site).into_iter().find(|file| show(file).contains(".damaged-")).unwrap();
    assert_eq!(fs::read(&kept).unwrap(), bytes);
    site.log_with(kept.file_name().unwrap().to_str().unwrap());
    server.terminate();
}

#[test]
fn a_damaged_database_is_salvaged_or_left_unchanged() {
    let site = Site::new();
    let users: String = (0..2000).map(|number| format!("user{number}:x\n")).collect();
    let file = show(&site.file("users", &users));
    site.good(&format!("user import {file} --domain a.com"));
    let database = site.data().join("barebell.sqlite");
    let whole = fs::read(&database).unwrap();
    let overwrite = |page: usize| {
        let file = OpenOptions::new().write(true).open(&database).unwrap();
        file.write_all_at(&[0x5a; 4096], page as u64 * 4096).unwrap();
    };
    // Pages that are no longer used may have the text, too.
    let row = b"a.comuser1500";
    let places = whole.windows(row.len()).enumerate().filter(|(_, bytes)| bytes == row);
    let pages: BTreeSet<usize> = places.map(|(place, _)| place / 4096).collect();
    pages.into_iter().for_each(overwrite);
    let output = site.command("user list").output().unwrap();
    let left = stdout(&output).lines().count();
    assert!((1900..2000).contains(&left), "{left} users");
    let said = stderr(&output);
    assert!(said.contains(&format!("only {left} users")), "{said}");
    assert!(said.contains("barebell.sqlite.damaged-"), "{said}");
    assert_eq!(site.good("user list").lines().count(), left);
    fs::write(&database, &whole).unwrap();
    overwrite(0);
    let error = site.bad("serve --listen udp:127.0.0.1:0");
    assert!(error.contains("no user can be read in it") && error.contains("backup"), "{error}");
    fs::write(&database, &whole).unwrap();
    assert_eq!(site.good("user list").lines().count(), 2000);
}

#[test]
fn a_directory_that_the_world_may_write_to_is_not_used() {
    let site = Site::new();
    fs::create_dir(site.data()).unwrap();
    fs::set_permissions(site.data(), Permissions::from_mode(0o777)).unwrap();
    for words in ["serve --listen udp:127.0.0.1:0", "user add alice@a.com --password x", "status"] {
        let error = site.bad(words);
        assert!(error.contains("chmod go-w"), "{error}");
        assert_eq!(fs::read_dir(site.data()).unwrap().count(), 0);
    }
}
