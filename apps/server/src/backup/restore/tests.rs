use super::*;
use crate::accounts::{self, Identity, ServiceChange};
use crate::backup::{Line, has_blank_passwords, make};
use crate::storage::tests::{all, open};
use crate::voicemail::Files;
use media_server::Recording;
use sip::Instant;
use sip_server::config::Domain;
use std::path::Path;
use std::time::SystemTime;
use store::sqlite::Sqlite;
use store::{CallFilter, CallRecords, PanelAccount, SecondFactor, StoredCall, Users};

/// A record of a call.
const RECORD: &str = r#"{"call_id":"c","caller":"sip:alice@a.com","callee":"sip:bob@a.com","caller_address":"udp:192.0.2.1:5060","callee_address":null,"created":"2026-11-28T15:04:05Z","ringing":null,"answered":null,"ended":"2026-11-28T15:04:09Z","duration":null,"ended_by":"caller","status":486,"phrase":"Busy Here","no_media":false,"streams":[]}"#;

/// A server with its data in a folder of its own.
struct Site {
    folder: tempfile::TempDir,
    storage: Sqlite,
    accounts: Option<String>,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let storage = open(folder.path());
        Self { folder, storage, accounts: None }
    }

    /// A server with users, an administrator, a record and a message.
    fn filled() -> Self {
        let site = Self::new();
        for name in ["alice", "bob"] {
            site.add(name, "secret");
        }
        let change = ServiceChange { busy: Some("alice".to_owned()), ..ServiceChange::default() };
        let served = [Domain { name: "a.com".to_owned(), aliases: Vec::new() }];
        accounts::change_services(&site.storage, &identity("bob"), &change, &served).unwrap();
        site.add_account("eve", "administrator");
        let factor = SecondFactor { secret: vec![1; 20], used: 5 };
        site.storage.put_second_factor("eve", &factor).unwrap();
        let call = StoredCall {
            ended: Instant::from_micros(5),
            parties: ["alice@a.com".to_owned(), "bob@a.com".to_owned()],
            led_to: None,
            number_of: None,
            is_failed: false,
            record: RECORD.to_owned(),
        };
        site.storage.put_calls(&[call]).unwrap();
        let recording =
            Recording { caller: "alice@a.com".into(), is_proved: true, samples: vec![1; 800] };
        site.files().keep("bob@a.com", 7, &recording, SystemTime::UNIX_EPOCH).unwrap();
        fs::write(site.folder.path().join("barebell.toml"), "domains = [\"a.com\"]\n").unwrap();
        site
    }

    fn add(&self, name: &str, password: &str) {
        accounts::add(&self.storage, &identity(name), password, None).unwrap();
    }

    fn add_account(&self, name: &str, role: &str) {
        let password = ::panel::password_hash("long enough", [7; 16]).unwrap();
        let (name, role) = (name.to_owned(), role.to_owned());
        self.storage.put_panel_account(&PanelAccount { name, role, password, created: 5 }).unwrap();
    }

    fn files(&self) -> Files {
        Files::new(self.folder.path(), false)
    }

    fn backup(&self) -> String {
        self.backup_of(&[Part::Certificates, Part::Records, Part::Voicemail])
    }

    fn backup_of(&self, with: &[Part]) -> String {
        let config = self.folder.path().join("barebell.toml");
        let config_file = Some(&*config).filter(|file| file.exists());
        let stored = Stored { config_file, ..self.stored() };
        let mut text = String::new();
        make(&stored, with, &mut |Line(line)| {
            text.push_str(&line);
            text.push('\n');
            true
        })
        .unwrap();
        text
    }

    fn stored(&self) -> Stored<'_> {
        let (data, accounts) = (self.folder.path(), self.accounts.clone());
        let served = vec!["a.com".to_owned()];
        Stored { storage: &self.storage, data, config_file: None, accounts, served }
    }

    fn try_restore(&self, text: &str, wish: &Wish) -> Result<Report, String> {
        restore(&self.stored(), &mut text.as_bytes(), wish, &|_, _| Ok(()))
    }

    fn restore(&self, text: &str) -> Report {
        self.try_restore(text, &Wish::default()).unwrap()
    }

    /// Everything that a restore may change.
    fn state(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let mut records = Vec::new();
        let each = &mut |record| {
            records.push(record);
            true
        };
        self.storage.calls(&CallFilter::default(), 100, each).unwrap();
        let mut services = Vec::new();
        self.storage.services(None, &mut |it| services.push(it)).unwrap();
        let panel = (self.storage.panel_accounts().unwrap(), self.storage.panel_tokens().unwrap());
        let messages = self.files().messages("bob@a.com").unwrap();
        (all(&self.storage, None), services, panel, records, messages, names(self.folder.path()))
    }
}

/// The names of the files of a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with("barebell.sqlite")).collect();
    names.sort();
    names
}

fn identity(name: &str) -> Identity {
    Identity { name: name.to_owned(), domain: "a.com".to_owned() }
}

#[test]
fn a_server_gets_the_data_of_another_one() {
    let from = Site::filled();
    net::tls::make_self_signed(
        &["a.com".to_owned()],
        &from.folder.path().join("tls-chain.pem"),
        &from.folder.path().join("tls-key.pem"),
    )
    .unwrap();
    let text = from.backup();
    let to = Site::new();
    to.add("carol", "x");
    let before = to.state();
    let trial = to.try_restore(&text, &Wish { is_trial: true, ..Wish::default() }).unwrap();
    assert!(to.state() == before, "a trial changed something");
    let report = to.restore(&text);
    assert_eq!(Report { dry_run: false, ..trial }, report);
    let users = report.users.unwrap();
    assert_eq!((users.added.count, users.removed.first), (2, vec!["carol@a.com".to_owned()]));
    assert_eq!((report.records, report.messages), (Some(1), Some(1)));
    assert_eq!(report.certificates.unwrap(), ["tls-chain.pem", "tls-key.pem"]);
    assert_eq!(all(&to.storage, None), all(&from.storage, None));
    assert_eq!(
        to.storage.second_factor("eve").unwrap(),
        from.storage.second_factor("eve").unwrap()
    );
    assert_eq!(to.files().load("bob@a.com", 7).unwrap(), [1; 800]);
    let files = |site: &Site| {
        ["tls-chain.pem", "tls-key.pem"]
            .map(|name| fs::read(site.folder.path().join(name)).unwrap())
    };
    assert_eq!(files(&to), files(&from));
    // The configuration is not touched.
    assert_eq!(report.same_configuration, Some(false));
    assert!(!names(to.folder.path()).contains(&"barebell.toml".to_owned()));
    // Once more it changes nothing, and the backups are equal but for the time and the
    // configuration.
    let again = to.restore(&text);
    assert_eq!(
        (again.users.unwrap().unchanged, again.records, again.messages),
        (2, Some(0), Some(0))
    );
    let lines = |text: &str| {
        text.lines()
            .filter(|it| it.starts_with("{\"user\"") || it.starts_with("{\"account\""))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&to.backup()), lines(&text));
}

#[test]
fn parts_with_secrets_and_speech_are_there_only_when_named() {
    let site = Site::filled();
    fs::write(site.folder.path().join("tls-acme-account.json"), "{}").unwrap();
    let text = site.backup_of(&[]);
    for kind in ["\"certificate\"", "\"record\"", "\"message\""] {
        assert!(!text.contains(kind) && site.backup().contains(kind), "{kind}");
    }
    assert!(!text.contains("\"secret\"}"), "{text}");
}

#[test]
fn passwords_in_the_configuration_are_there_only_when_named() {
    let site = Site::filled();
    let file = site.folder.path().join("barebell.toml");
    let with = |password: &str| {
        format!(
            "[[trunks]]\nname = \"a\"\naccounts = [{{ user = \"1\", password = \"{password}\" }}]\n"
        )
    };
    fs::write(&file, with("SECRET")).unwrap();
    let [usual, whole] = [&[][..], &[Part::Secrets]].map(|with| site.backup_of(with));
    assert!(!usual.contains("SECRET") && whole.contains("SECRET"), "{usual}");
    let is_blank = |text: &str| text.lines().any(|it| has_blank_passwords(&Line(it.to_owned())));
    assert!(is_blank(&usual) && !is_blank(&whole));
    let compared = |text: &str| {
        let stored = Stored { config_file: Some(&file), ..site.stored() };
        let wish = Wish { is_trial: true, ..Wish::default() };
        let report = restore(&stored, &mut text.as_bytes(), &wish, &|_, _| Ok(())).unwrap();
        (report.same_configuration.unwrap(), report.notes.iter().any(|it| it.contains("blank")))
    };
    assert_eq!((compared(&usual), compared(&whole)), ((true, false), (true, false)));
    fs::write(&file, with("OTHER")).unwrap();
    assert_eq!((compared(&usual), compared(&whole)), ((true, false), (false, false)));
    fs::write(&file, "domains = [\"a.com\"]\n").unwrap();
    assert_eq!((compared(&usual), compared(&whole)), ((false, true), (false, false)));
    // A text without passwords is whole. A text that is not TOML is an error.
    assert!(!is_blank(&site.backup_of(&[])));
    fs::write(&file, "password = \"SECRET").unwrap();
    let stored = Stored { config_file: Some(&file), ..site.stored() };
    let error = make(&stored, &[], &mut |_| true).unwrap_err();
    assert!(error.contains("not TOML") && !error.contains("SECRET"), "{error}");
}

#[test]
fn domains_that_are_not_served_are_told() {
    let text = Site::filled().backup();
    let site = Site::new();
    let stored = Stored { served: vec!["b.com".to_owned()], ..site.stored() };
    let wish = Wish { is_trial: true, ..Wish::default() };
    let report = restore(&stored, &mut text.as_bytes(), &wish, &|_, _| Ok(())).unwrap();
    assert!(report.notes.iter().any(|it| it.contains("does not serve a.com")), "{report:?}");
    let report = site.try_restore(&text, &wish).unwrap();
    assert!(!report.notes.iter().any(|it| it.contains("does not serve")), "{report:?}");
}

#[test]
fn the_last_administrator_stays() {
    let from = Site::filled();
    from.storage.remove_panel_account("eve").unwrap();
    from.add_account("joe", "operator");
    let text = from.backup();
    let to = Site::filled();
    let before = to.state();
    for is_trial in [true, false] {
        let error = to.try_restore(&text, &Wish { is_trial, parts: Vec::new() }).unwrap_err();
        assert!(error.contains("last one"), "{error}");
    }
    assert!(to.state() == before);
    let parts = vec![Part::Users, Part::Services];
    to.try_restore(&text, &Wish { parts, is_trial: false }).unwrap();
    assert_eq!(to.storage.panel_accounts().unwrap()[0].name, "eve");
    // Without an administrator before, accounts of any role may come.
    let empty = Site::new();
    empty.restore(&text);
    assert_eq!(empty.storage.panel_accounts().unwrap()[0].name, "joe");
}

#[test]
fn a_backup_with_a_fault_changes_nothing() {
    let text = Site::filled().backup();
    let to = Site::new();
    to.add("carol", "x");
    to.add_account("zoe", "administrator");
    let before = to.state();
    let key =
        "{\"certificate\":{\"name\":\"tls-chain.pem\",\"text\":\"no certificate\"}}\n{\"end\"";
    let lines = text.lines().count();
    let with_key = text
        .replace("{\"end\"", key)
        .replace(&format!("\"lines\":{}", lines - 1), &format!("\"lines\":{lines}"));
    for bad in [
        text.replace("\"heard\":false", "\"heard\":5"),
        text.replace(
            "\"alice\",\"domain\":\"a.com\",\"ha1\"",
            "\"a b\",\"domain\":\"a.com\",\"ha1\"",
        ),
        text.rsplit_once("{\"end\"").unwrap().0.to_owned(),
        with_key,
    ] {
        assert_ne!(bad, text);
        let error = to.try_restore(&bad, &Wish::default()).map(|_| ()).unwrap_err();
        assert!(to.state() == before, "{error}");
    }
    // The same number with other speech: the message there stays, and so does everything.
    let recording = Recording { caller: "x".into(), is_proved: false, samples: vec![9; 8] };
    to.files().keep("bob@a.com", 7, &recording, SystemTime::now()).unwrap();
    let before = to.state();
    assert!(to.try_restore(&text, &Wish::default()).unwrap_err().contains("another message"));
    assert!(to.state() == before);
}

#[test]
fn users_of_another_database_are_neither_saved_nor_restored() {
    let mut site = Site::filled();
    let text = site.backup();
    site.accounts = Some("postgres at db".to_owned());
    let copied = site.backup();
    assert!(!copied.contains("{\"user\"") && copied.contains("{\"services\""), "{copied}");
    let error = site.try_restore(&text, &Wish::default()).unwrap_err();
    assert!(error.contains("postgres at db"), "{error}");
    let parts = vec![Part::Services, Part::Panel];
    let report = site.try_restore(&text, &Wish { parts, is_trial: false }).unwrap();
    assert_eq!((report.users, report.services.unwrap().unchanged), (None, 1));
    assert_eq!(site.restore(&copied).users, None);
    let parts = vec![Part::Users];
    let error = site.try_restore(&copied, &Wish { parts, is_trial: true }).unwrap_err();
    assert!(error.contains("has no users"), "{error}");
}
