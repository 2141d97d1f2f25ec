//! A user's own page, and the second factor of an administrator, in Chromium.

use crate::page::Panel;
use crate::rig::{PASSWORD, Rig};
use peers::server::DOMAIN;
use peers::test_server::PASSWORD as USER_PASSWORD;
use std::fs;
use std::path::Path;

/// Stores a voice message of half a second in a mailbox.
fn leave_message(mailbox: &Path) {
    let samples: Vec<u8> = (0..4000_i16)
        .flat_map(|at| if at / 9 % 2 == 0 { 4000_i16 } else { -4000 }.to_le_bytes())
        .collect();
    let length = samples.len() as u32;
    let mut sound = b"RIFF".to_vec();
    sound.extend((36 + length).to_le_bytes());
    // PCM, one channel, 8000 samples of 16 bits a second.
    sound.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    sound.extend([8000_u32, 16_000].map(u32::to_le_bytes).concat());
    sound.extend(b"\x02\0\x10\0data");
    sound.extend(length.to_le_bytes());
    sound.extend(&samples);
    fs::create_dir_all(mailbox).expect("the data directory can be written");
    let description = "{\"id\":3,\"caller\":\"bob@x.test\",\"proved\":true,\"at\":1800000000,\
                       \"samples\":4000,\"heard\":false}";
    fs::write(mailbox.join("3.json"), description).expect("the folder can be written");
    fs::write(mailbox.join("3.wav"), sound).expect("the folder can be written");
}

/// Fills and sends the form of a login.
fn log_in(panel: &mut Panel, path: &str, fields: &[(&str, &str)]) {
    for (name, text) in fields {
        panel.fill(path, name, text);
    }
    panel.send_and_wait(path);
}

#[test]
fn a_user_hears_messages_and_changes_forwards_and_the_password() {
    let rig = Rig::new("");
    let mailbox = rig.exchange.server.data().join("voicemail").join(format!("alice@{DOMAIN}"));
    leave_message(&mailbox);
    let _phone = rig.exchange.agent("alice");
    let mut panel = Panel::open_at(rig, "/panel/me/login", "Log in");
    panel.check("own-login");
    log_in(&mut panel, "/panel/me/login", &[("name", "alice"), ("password", "wrong")]);
    panel.wait_for("The name or the password is wrong");
    log_in(&mut panel, "/panel/me/login", &[("name", "alice"), ("password", USER_PASSWORD)]);
    panel.wait_for("bob@x.test");
    panel.check("own");
    // The browser plays the message to its end.
    let played = panel.page.evaluate(
        "(async () => {
            const audio = document.querySelector('audio');
            const ended = new Promise((done) => { audio.onended = done; });
            await audio.play();
            await ended;
            return audio.duration;
        })()",
    );
    assert_eq!(played.as_f64(), Some(0.5));
    let is_new = "document.querySelector('audio').closest('tr').innerText.includes('new')";
    assert_eq!(panel.page.evaluate(is_new), true);
    panel.go("me/");
    assert_eq!(panel.page.evaluate(is_new), false);
    panel.page.confirm_all();
    panel.send("/panel/me/voicemail/delete");
    panel.wait_for("The message was deleted");
    assert!(panel.shows("There is no message.") && !mailbox.join("3.wav").exists());

    panel.fill("/panel/me/services", "busy", "carol");
    panel.send("/panel/me/services");
    panel.wait_for("The call services were saved");
    assert_eq!(panel.value("busy"), format!("carol@{DOMAIN}"));
    let users = panel.rig.exchange.server.rows(&["user", "list", "--json"]);
    let alice = users.iter().find(|row| row["name"] == "alice").expect("a user");
    assert_eq!(alice["services"]["busy"], format!("carol@{DOMAIN}"));

    panel.send("/panel/me/phone");
    panel.wait_for("It is not shown again");
    panel.check("own-link");
    panel.go("me/calls");
    panel.check("own-calls");
    panel.go("me/");
    let passwords =
        [("password", USER_PASSWORD), ("new", "a better one"), ("again", "a better one")];
    log_in(&mut panel, "/panel/me/password", &passwords);
    panel.wait_for("The password was changed");
    panel.send("/panel/me/logout");
    panel.wait_for("Log in");
    log_in(&mut panel, "/panel/me/login", &[("name", "alice"), ("password", USER_PASSWORD)]);
    assert!(panel.shows("The name or the password is wrong"));
    log_in(&mut panel, "/panel/me/login", &[("name", "alice"), ("password", "a better one")]);
    panel.wait_for("Registered phones");
    panel.assert_faultless();
}

/// The code of a secret in base32 for the time that is `steps` of 30 seconds ahead, computed by the
/// browser (RFC 6238).
fn code(panel: &mut Panel, secret: &str, steps: u32) -> String {
    let code = panel.page.evaluate(&format!(
        "(async () => {{
            const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
            const bits = [...'{secret}'].map((letter) =>
                letters.indexOf(letter).toString(2).padStart(5, '0')).join('');
            const bytes = Uint8Array.from(bits.match(/.{{8}}/g), (byte) => parseInt(byte, 2));
            const hmac = {{ name: 'HMAC', hash: 'SHA-1' }};
            const key = await crypto.subtle.importKey('raw', bytes, hmac, false, ['sign']);
            const step = new DataView(new ArrayBuffer(8));
            step.setUint32(4, Math.floor(Date.now() / 30000) + {steps});
            const hash = new DataView(await crypto.subtle.sign('HMAC', key, step.buffer));
            const word = hash.getUint32(hash.getUint8(19) & 15) & 0x7fffffff;
            return String(word % 1000000).padStart(6, '0');
        }})()"
    ));
    code.as_str().expect("a code is a text").to_owned()
}

#[test]
fn a_second_factor_is_turned_on_and_each_code_holds_once() {
    let mut panel = Panel::open();
    panel.set_up();
    panel.go("access");
    panel.send("/panel/access/second-factor");
    panel.wait_for("Scan the code with the app");
    panel.check("second-factor");
    let secret = panel.value("secret");
    panel.fill("/panel/access/second-factor/on", "password", PASSWORD);
    let first = code(&mut panel, &secret, 0);
    panel.fill("/panel/access/second-factor/on", "code", &first);
    panel.send("/panel/access/second-factor/on");
    panel.wait_for("The second factor is on");
    panel.check("second-factor-on");
    panel.send("/panel/logout");
    panel.wait_for("Log in");
    let refused = "The name or the password is wrong, or the code";
    let next = code(&mut panel, &secret, 1);
    let name = [("name", "eve"), ("password", PASSWORD)];
    for given in ["", "000000", &*first] {
        // An app makes a random code of these digits once in a million.
        assert_ne!(given, next);
        log_in(&mut panel, "/panel/login", &[&name[..], &[("code", given)]].concat());
        assert!(panel.shows(refused));
    }
    log_in(&mut panel, "/panel/login", &[&name[..], &[("code", &next)]].concat());
    panel.wait_for("The server is ready");
    panel.send("/panel/logout");
    panel.wait_for("Log in");
    log_in(&mut panel, "/panel/login", &[&name[..], &[("code", &next)]].concat());
    assert!(panel.shows(refused));
    panel.assert_faultless();
}
