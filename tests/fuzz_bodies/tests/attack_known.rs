//! Known attacks as scripts. `seeds/attack` contains them as seeds of the fuzzer.
//!
//! `UPDATE_SEEDS=1` writes the files.

use fuzz_bodies::{Step, attack};
use std::path::PathBuf;

const STEP: Step = Step {
    what: 0,
    source: 0,
    base: 0,
    method: 0,
    uri: 0,
    routes: 0,
    from: 0,
    to: 0,
    call: 0,
    contact: 0,
    via: 0,
    proof: 0,
    extra: 0,
};
/// The stranger calls bob.
const CALL: Step = STEP;
/// Bob, or the last called party, answers 180.
const RING: Step = Step { what: Step::RESPONSE, ..STEP };
const ACCEPT: Step = Step { method: 1, ..RING };
/// Bob's challenge with the server's realm and a nonce issued to an attacker.
const CHALLENGE: Step = Step { method: 4, proof: 1, ..RING };
/// Alice calls bob.
const ALICE_CALLS: Step = Step { what: Step::PHONE, ..STEP };
const ALICE_GOES_ON: Step = Step { base: 1, ..ALICE_CALLS };
/// More than a minute.
const WAIT: Step = Step { what: Step::TIME, extra: 4, ..STEP };
/// The stranger sends a request within the dialog of the attackers' last received message.
const WITHIN: Step = Step { base: 1, ..STEP };
/// An attacker requests a challenge, to get a nonce.
const ASK: Step = Step { from: 2, ..STEP };
const BOB: u8 = 2;
/// The index of the gateway as Request-URI and Contact.
const GATEWAY: u8 = 16;
const REGISTER: Step = Step { source: BOB, method: 11, proof: 2, ..STEP };
const UNREGISTER: Step = Step { contact: 10, extra: 9 << 4, ..REGISTER };

const STATELESS: u8 = 1;
/// Bob has two contacts, one of them at the gateway.
const FORKED: u8 = 7 << 2;

/// Name, setting, steps, and the counter that must be non-zero.
type Shape = (&'static str, u8, &'static [Step], &'static str);

const SHAPES: &[Shape] = &[
    (
        "token-relay",
        0,
        &[CALL, RING, Step { uri: GATEWAY, ..WITHIN }, Step { uri: GATEWAY, method: 2, ..WITHIN }],
        "relay-denied",
    ),
    (
        "token-of-another-dialog",
        0,
        &[
            CALL,
            RING,
            Step { call: 1, ..WITHIN },
            Step { call: 5, uri: GATEWAY, base: 2, ..WITHIN },
        ],
        "relay-denied",
    ),
    ("route-behind-ours", 0, &[CALL, RING, Step { routes: 2, ..WITHIN }], "relay-denied"),
    ("route-instead-of-ours", 0, &[Step { routes: 3, ..STEP }], "relay-denied"),
    ("route-after-ours", 0, &[Step { routes: 9, ..STEP }], "relay-denied"),
    ("strict-route", 0, &[CALL, RING, Step { uri: 10, routes: 13, ..WITHIN }], "relay-denied"),
    (
        "digest-relay",
        0,
        &[ASK, ALICE_CALLS, ACCEPT, ALICE_GOES_ON, CHALLENGE, ALICE_GOES_ON],
        "foreign challenges",
    ),
    (
        "digest-relay-by-another-way",
        0,
        &[
            ASK,
            Step { what: Step::LURE, ..STEP },
            Step { from: 1, proof: 3, uri: GATEWAY, ..STEP },
            Step { from: 1, proof: 3, uri: 12, source: BOB, ..STEP },
        ],
        "authentication-failures",
    ),
    (
        "forged-ack",
        0,
        &[
            CALL,
            ACCEPT,
            Step { method: 1, via: 8, uri: GATEWAY, ..STEP },
            Step { method: 1, uri: GATEWAY, ..STEP },
        ],
        "relay-denied",
    ),
    (
        "forged-ack-stateless",
        STATELESS,
        &[CALL, Step { method: 1, via: 8, uri: GATEWAY, ..STEP }],
        "Binding INVITE",
    ),
    (
        "contact-loop",
        0,
        &[
            UNREGISTER,
            Step { contact: 9, ..REGISTER },
            CALL,
            Step { contact: 20, ..REGISTER },
            CALL,
        ],
        "unavailable",
    ),
    ("name-in-to", 0, &[Step { to: 1, contact: GATEWAY, ..CALL }, WITHIN], "challenges"),
    ("name-in-from", 0, &[CALL, RING, Step { from: 1, method: 3, ..WITHIN }], "challenges"),
    (
        "own-end-as-source",
        0,
        &[Step { source: 7, ..CALL }, Step { method: 2, ..WITHIN }],
        "dropped",
    ),
    (
        "guessed-branch",
        FORKED,
        &[CALL, Step { via: 2, ..RING }, WAIT, CALL, WAIT],
        "sent to a host that never answered",
    ),
    (
        "forged-within",
        FORKED,
        &[CALL, RING, Step { source: 5, method: 9, ..WITHIN }, WAIT, CALL, WAIT],
        "sent to a host that never answered",
    ),
    (
        "long-contact-stateless",
        STATELESS,
        &[UNREGISTER, Step { contact: 4, ..REGISTER }, CALL],
        "unasked",
    ),
    (
        "unheard-2xx",
        0,
        &[
            CALL,
            RING,
            Step { method: 6, ..RING },
            Step { base: 1, ..ACCEPT },
            Step { method: 3, base: 3, ..WITHIN },
        ],
        "relay-denied",
    ),
    (
        "inside-by-name",
        0,
        &[
            Step { from: 2, uri: 18, proof: 2, ..STEP },
            Step { what: Step::LOCATE, uri: 2, ..STEP },
            Step { from: 2, uri: 18, proof: 2, ..STEP },
            Step { what: Step::LOCATE, uri: 3, ..STEP },
        ],
        "unreachable",
    ),
    (
        "inside-by-answer",
        STATELESS,
        &[
            Step { source: 2, uri: 3, extra: 5, ..ALICE_CALLS },
            Step { what: Step::LOCATE, uri: 1, ..STEP },
            Step { contact: 19, ..ACCEPT },
            Step { source: 2, method: 9, ..ALICE_GOES_ON },
        ],
        "unreachable",
    ),
    (
        "late-in-a-dialog",
        0,
        &[
            CALL,
            ACCEPT,
            Step { what: Step::TIME, extra: 7, ..STEP },
            Step { method: 3, ..WITHIN },
            Step { method: 2, base: 2, ..WITHIN },
        ],
        "Dialog BYE",
    ),
];

#[test]
fn known_attacks_have_their_intended_effect() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/seeds/attack"));
    let writes = std::env::var_os("UPDATE_SEEDS").is_some();
    for (name, setting, steps, counted) in SHAPES {
        let mut script = vec![*setting];
        script.extend(steps.iter().flat_map(|step| step.bytes()));
        let file = folder.join(name);
        if writes {
            std::fs::write(&file, &script).expect("the seeds can be written");
        }
        let kept = std::fs::read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(kept, script, "{name}: UPDATE_SEEDS=1 updates it");
        let tally = attack(&script);
        assert!(tally.get(*counted).is_some_and(|count| *count > 0), "{name}: {tally:#?}");
    }
    let files = std::fs::read_dir(&folder).expect("the folder of seeds can be read").count();
    assert_eq!(files, SHAPES.len(), "a seed file has no shape");
}
