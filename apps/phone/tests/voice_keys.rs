//! Keys by ZRTP between two phones under `control`, with files of secrets.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

struct Phone {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Phone {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_barebell-phone"))
            .args(["control", "--listen", "127.0.0.1:0", "--play", "tone:440"])
            .args(["--keys", "zrtp", "--srtp", "required"])
            .env("XDG_DATA_HOME", data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the phone starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut phone = Self { child, lines, address: String::new() };
        let first = phone.expect("listening");
        let address = first["address"].as_str().expect("an address");
        phone.address = address.strip_prefix("udp:").expect("UDP").to_owned();
        phone
    }

    fn command(&mut self, command: &Value) {
        let input = self.child.stdin.as_mut().expect("its input");
        writeln!(input, "{command}").expect("it reads");
    }

    /// The next event with this name; others before it are skipped.
    fn expect(&mut self, event: &str) -> Value {
        for line in self.lines.by_ref() {
            let told: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
            if told["event"] == event {
                return told;
            }
        }
        panic!("the phone has ended before {event}");
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call of two phones with these folders. Returns the keys of both, after the users of both have
/// compared the strings if `compares` is true.
fn call(data: [&Path; 2], compares: bool) -> [Value; 2] {
    let [mut here, mut there] = data.map(Phone::start);
    here.command(&json!({"command": "call", "uri": format!("sip:bob@{}", there.address)}));
    there.expect("incoming");
    there.command(&json!({"command": "answer", "call": 1}));
    let mut secured = [here.expect("secured"), there.expect("secured")];
    if compares {
        for (phone, secured) in [&mut here, &mut there].into_iter().zip(&mut secured) {
            phone.command(&json!({"command": "verify", "call": 1, "same": true}));
            *secured = phone.expect("secured");
        }
    }
    // The sound of the other end is decrypted.
    std::thread::sleep(std::time::Duration::from_secs(1));
    here.command(&json!({"command": "hang_up", "call": 1}));
    for phone in [&mut here, &mut there] {
        let totals = phone.expect("ended")["totals"].clone();
        assert!(totals["received"].as_u64().is_some_and(|count| count > 10), "{totals}");
    }
    secured
}

#[test]
fn phones_that_have_compared_a_string_know_each_other() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let data = [folders[0].path(), folders[1].path()];
    let is = |keys: &[Value; 2], continuity: [&str; 2], verified_by: Option<&str>| {
        assert!(keys[0]["sas"].as_str().is_some_and(|sas| sas.len() == 4), "{keys:?}");
        assert_eq!(keys[0]["sas"], keys[1]["sas"]);
        for (keys, continuity) in keys.iter().zip(continuity) {
            assert_eq!(keys["keys"], "zrtp");
            assert_eq!(keys["srtp"], "AES_CM_128_HMAC_SHA1_80");
            assert_eq!(
                (&keys["continuity"], &keys["verified_by"]),
                (&json!(continuity), &json!(verified_by))
            );
        }
    };
    is(&call(data, false), ["new", "new"], None);
    is(&call(data, true), ["continued", "continued"], Some("sas"));
    is(&call(data, false), ["continued", "continued"], Some("sas"));

    // The secrets of one phone are lost, but not its ZID.
    let file = data[1].join("barebell/zrtp");
    let text = std::fs::read_to_string(&file).expect("the file of secrets");
    std::fs::write(&file, text.lines().next().expect("a ZID").to_owned() + "\n").expect("written");
    is(&call(data, false), ["broken", "new"], None);
}
