//! Examples of plans and their routes.

use barebell_numbers::{
    Caller, ClassId, Dialing, DidConfig, Digits, Form, IdentityConfig, LocalForm, NamedPrefixes,
    Outcome, Part, Place, Plan, PlanConfig, Query, Range, RightsConfig, RuleConfig, Service,
    ServiceKind, TargetConfig, TrunkId, TrunkUse, digits,
};

fn german() -> Dialing {
    Dialing {
        country: "49".into(),
        international: "00".into(),
        national: "0".into(),
        outside: String::new(),
        local: vec![LocalForm { min: 5, max: 8, add: "+4930".into() }],
    }
}

fn digits_of(remove: &str, add: &str) -> Digits {
    Digits { remove: remove.into(), add: add.into() }
}

fn rule(name: &str, range: Range, target: TargetConfig) -> RuleConfig {
    RuleConfig { name: name.into(), range, digits: Digits::default(), target }
}

fn prefix(text: &str) -> Range {
    Range::Prefix(text.into())
}

fn number(text: &str) -> Range {
    Range::Number(text.into())
}

fn through(trunks: &[&str]) -> TargetConfig {
    let uses = trunks.iter().map(|trunk| TrunkUse { trunk: (*trunk).into(), digits: None });
    TargetConfig::Trunks(uses.collect())
}

fn did(range: Range, target: TargetConfig) -> DidConfig {
    DidConfig { name: String::new(), trunk: None, range, digits: Digits::default(), target }
}

/// An office in Berlin: two trunks, phones from 10 to 99, a group, a service.
fn office() -> PlanConfig {
    let mut all = rule("out", prefix("+"), through(&["isp", "backup"]));
    all.digits = digits_of("+", "00");
    let mut germany = rule("germany", prefix("+49"), through(&["isp", "backup"]));
    germany.digits = digits_of("+49", "0");
    let mut range = did(prefix("+49301234"), TargetConfig::Inside);
    range.digits = digits_of("+49301234", "");
    PlanConfig {
        domain: "a.com".into(),
        trunks: vec!["isp".into(), "backup".into()],
        dialing: german(),
        classes: vec![NamedPrefixes { name: "premium".into(), prefixes: vec!["+49900".into()] }],
        rights: vec![RightsConfig {
            users: "boss".into(),
            classes: vec!["internal".into(), "national".into(), "international".into()],
        }],
        identities: vec![IdentityConfig { users: "1*".into(), number: "+49301234*".into() }],
        rules: vec![
            all,
            germany,
            rule("sales", number("50"), TargetConfig::Group("sales".into())),
            rule("mailbox", number("*97"), TargetConfig::Service(ServiceKind::Voicemail, None)),
            RuleConfig {
                digits: digits_of("*8", ""),
                ..rule("pickup", prefix("*8"), TargetConfig::Service(ServiceKind::Pickup, None))
            },
            rule("barred", prefix("+49137"), TargetConfig::Refuse),
        ],
        did: vec![
            range,
            did(number("030998877"), TargetConfig::User("boss".into())),
            did(Range::All, TargetConfig::Group("sales".into())),
        ],
        ..PlanConfig::default()
    }
}

fn ask(plan: &Plan, dialed: &str, caller: Caller<'_>, down: &[u8]) -> Outcome {
    let unavailable = |trunk: TrunkId| down.contains(&trunk.0);
    plan.route(&Query { dialed: dialed.as_bytes(), caller, unavailable: &unavailable }).outcome
}

fn of_alice(plan: &Plan, dialed: &str) -> Outcome {
    ask(plan, dialed, Caller::User("alice@a.com"), &[])
}

/// The trunk and the number of each attempt.
fn attempts(outcome: Outcome) -> Vec<(u8, String)> {
    let Outcome::Trunks(attempts) = outcome else { panic!("{outcome:?}") };
    attempts.into_iter().map(|attempt| (attempt.trunk.0, attempt.number)).collect()
}

/// The rule and the status of a refusal.
fn refusal(outcome: Outcome) -> (String, u16) {
    let Outcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
    (refusal.rule, refusal.status)
}

#[test]
fn all_ways_to_dial_a_number_have_one_form() {
    for dialed in [
        "+49301234567",
        "0049301234567",
        "0301234567",
        "1234567",
        "+49(0)30-123.45.67",
        "030-1234567;phone-context=a.com",
    ] {
        let dialed = digits(dialed.as_bytes()).unwrap();
        assert_eq!(german().form(&dialed), Form::Global("+49301234567".into()), "{dialed}");
    }
    for dialed in ["0", "00", "12", "*97", "123456789", "0*1"] {
        assert_eq!(german().form(dialed), Form::Bare(dialed.into()));
    }
    for dialed in ["+0123456", "000123", "+1234567890123456", "+", "+12*"] {
        assert!(matches!(german().form(dialed), Form::Invalid(_)), "{dialed}");
    }
    for name in ["alice", "", "+", "4a", "1 2", "1+2", "-1", "\u{661}"] {
        assert_eq!(digits(name.as_bytes()), None, "{name}");
    }
}

#[test]
fn north_american_numbers_have_local_forms_by_length() {
    let dialing = Dialing {
        country: "1".into(),
        international: "011".into(),
        national: "1".into(),
        outside: "9".into(),
        local: vec![
            LocalForm { min: 7, max: 7, add: "+1212".into() },
            LocalForm { min: 10, max: 10, add: "+1".into() },
        ],
    };
    for (dialed, global) in [
        ("95551234", "+12125551234"),
        ("93105551234", "+13105551234"),
        ("913105551234", "+13105551234"),
        ("901149301234", "+49301234"),
        ("+13105551234", "+13105551234"),
    ] {
        assert_eq!(dialing.form(dialed), Form::Global(global.into()));
    }
    assert_eq!(dialing.form("5551234"), Form::Bare("5551234".into()), "no outside line");
}

#[test]
fn an_empty_plan_leaves_each_call_to_the_proxy() {
    let plan = Plan::default();
    for dialed in ["alice", "100", "112", "+4930123"] {
        assert_eq!(of_alice(&plan, dialed), Outcome::Name);
        assert_eq!(ask(&plan, dialed, Caller::Stranger, &[]), Outcome::Name);
        let incoming = ask(&plan, dialed, Caller::Trunk(TrunkId(0)), &[]);
        assert_eq!(refusal(incoming), ("did".into(), 404));
    }
}

#[test]
fn the_longest_prefix_selects_the_trunk_and_the_digits() {
    let plan = Plan::new(&office()).unwrap();
    let german = [(0, "089123456".to_owned()), (1, "089123456".to_owned())];
    assert_eq!(attempts(of_alice(&plan, "089123456")), german);
    let boss = ask(&plan, "004315555", Caller::User("boss@a.com"), &[]);
    assert_eq!(attempts(boss)[0], (0, "004315555".to_owned()));
    assert_eq!(of_alice(&plan, "50"), Outcome::Group("sales".into()));
    assert_eq!(of_alice(&plan, "501"), Outcome::Name, "50 is a whole number");
    assert_eq!(of_alice(&plan, "*97"), Outcome::Service(Service::Voicemail));
    assert_eq!(of_alice(&plan, "*812"), Outcome::Service(Service::Pickup("12".into())));
    assert_eq!(of_alice(&plan, "bob"), Outcome::Name);
}

#[test]
fn a_trunk_that_is_down_is_left_out_and_the_last_one_refuses_the_call() {
    let plan = Plan::new(&office()).unwrap();
    let alice = Caller::User("alice@a.com");
    assert_eq!(attempts(ask(&plan, "089123456", alice, &[0])), [(1, "089123456".to_owned())]);
    assert_eq!(refusal(ask(&plan, "089123456", alice, &[0, 1])), ("germany".into(), 503));
}

#[test]
fn destinations_are_off_unless_a_right_allows_them() {
    let plan = Plan::new(&office()).unwrap();
    for dialed in ["0900123456", "+49(0)900123456", "004990012345", "+490900123456"] {
        assert_eq!(refusal(of_alice(&plan, dialed)), ("germany".into(), 403), "{dialed}");
        let boss = ask(&plan, dialed, Caller::User("boss@a.com"), &[]);
        assert_eq!(refusal(boss), ("germany".into(), 403), "{dialed}");
    }
    assert_eq!(refusal(of_alice(&plan, "004315555")), ("out".into(), 403));
    let boss = |dialed| ask(&plan, dialed, Caller::User("boss@a.com"), &[]);
    assert!(matches!(boss("+4315555"), Outcome::Trunks(_)));
    assert_eq!(refusal(boss("+8811234567")), ("out".into(), 403), "satellite");
    assert_eq!(refusal(of_alice(&plan, "0137123")), ("barred".into(), 403));
}

#[test]
fn a_rule_for_internal_digits_does_not_hide_the_class_of_the_number() {
    let mut config = office();
    config.dialing.local.clear();
    let mut line = rule("line", prefix("9"), through(&["isp"]));
    line.digits = digits_of("9", "");
    config.rules.push(line);
    let rights = ["internal", "special"].map(String::from).to_vec();
    config.rights.push(RightsConfig { users: "lobby".into(), classes: rights });
    let plan = Plan::new(&config).unwrap();
    let lobby = |dialed| ask(&plan, dialed, Caller::User("lobby@a.com"), &[]);
    assert_eq!(attempts(lobby("911833")), [(0, "11833".to_owned())]);
    assert_eq!(refusal(lobby("90900123456")), ("line".into(), 403), "premium");
    assert_eq!(refusal(lobby("9030123456")), ("line".into(), 403), "national");
}

#[test]
fn emergency_calls_pass_rights_rules_and_dead_trunks() {
    let mut config = office();
    config.default_rights.clear();
    config.emergency_trunks = vec!["backup".into(), "isp".into()];
    let plan = Plan::new(&config).unwrap();
    for dialed in ["112", "0112", "+49112", "0049112", "911"] {
        let Outcome::Trunks(found) = of_alice(&plan, dialed) else { panic!("{dialed}") };
        let number = if dialed == "911" { "911" } else { "112" };
        let trunks: Vec<_> = found.iter().map(|it| (it.trunk.0, &*it.number, it.class)).collect();
        let class = ClassId::EMERGENCY;
        assert_eq!(trunks, [(1, number, class), (0, number, class)], "{dialed}");
    }
    let alice = Caller::User("alice@a.com");
    let order = |down: &[u8]| attempts(ask(&plan, "112", alice, down))[0].0;
    assert_eq!([order(&[]), order(&[1]), order(&[0, 1])], [1, 0, 1], "dead ones are tried last");
    assert_eq!(refusal(of_alice(&plan, "10")), ("numbers".into(), 403), "no other right");
}

#[test]
fn incoming_numbers_lead_to_users_groups_and_internal_numbers() {
    let plan = Plan::new(&office()).unwrap();
    let incoming = |dialed| ask(&plan, dialed, Caller::Trunk(TrunkId(0)), &[]);
    for dialed in ["+4930998877", "4930998877", "030998877"] {
        assert_eq!(incoming(dialed), Outcome::User("boss".into()), "{dialed}");
    }
    assert_eq!(incoming("+4930123412"), Outcome::User("12".into()));
    assert_eq!(incoming("+4930123450"), Outcome::Group("sales".into()));
    assert_eq!(refusal(incoming("+49301234")), ("did +49301234*".into(), 484));
    for dialed in ["s", "+4989123456", "112", "*97", "10"] {
        assert_eq!(incoming(dialed), Outcome::Group("sales".into()), "{dialed}");
    }
}

#[test]
fn own_numbers_stay_in_the_office() {
    let plan = Plan::new(&office()).unwrap();
    assert_eq!(of_alice(&plan, "030123412"), Outcome::User("12".into()));
    assert_eq!(of_alice(&plan, "998877"), Outcome::User("boss".into()));
    let stranger = |dialed| ask(&plan, dialed, Caller::Stranger, &[]);
    assert_eq!(stranger("+4930123412"), Outcome::User("12".into()));
}

#[test]
fn callers_from_outside_reach_neither_trunks_nor_services() {
    let mut config = office();
    config.rules.push(rule("mail", number("99"), TargetConfig::Service(ServiceKind::Music, None)));
    config.rules.push(rule("cell", number("98"), through(&["isp"])));
    let plan = Plan::new(&config).unwrap();
    let outside = [Caller::Stranger, Caller::Trunk(TrunkId(1))];
    for caller in outside {
        assert_eq!(refusal(ask(&plan, "+4930123499", caller, &[])).1, 403);
        assert_eq!(refusal(ask(&plan, "+4930123498", caller, &[])).1, 403);
    }
    for dialed in ["112", "089123456", "*97", "*812", "98"] {
        let outcome = ask(&plan, dialed, Caller::Stranger, &[]);
        assert!(matches!(outcome, Outcome::Refused(_) | Outcome::Name), "{dialed}: {outcome:?}");
    }
}

#[test]
fn a_rule_that_leads_inside_twice_refuses_the_call() {
    let mut config = office();
    for (name, from, to) in [("one", "6", "7"), ("two", "7", "6")] {
        let mut inside = rule(name, prefix(from), TargetConfig::Inside);
        inside.digits = digits_of(from, to);
        config.rules.push(inside);
    }
    let plan = Plan::new(&config).unwrap();
    assert_eq!(refusal(of_alice(&plan, "61")), ("two".into(), 403));
}

#[test]
fn a_user_shows_the_configured_number_or_the_own_one() {
    let plan = Plan::new(&office()).unwrap();
    let identity = |user| match ask(&plan, "089123456", Caller::User(user), &[]) {
        Outcome::Trunks(attempts) => attempts[0].identity.clone(),
        outcome => panic!("{outcome:?}"),
    };
    assert_eq!(identity("12@a.com").as_deref(), Some("+4930123412"));
    assert_eq!(identity("1b@a.com"), None, "not a number");
    assert_eq!(identity("boss@a.com").as_deref(), Some("+4930998877"));
    assert_eq!(identity("boss@b.com"), None, "a user of another domain");
}

#[test]
fn errors_name_the_rule_and_are_all_found() {
    let mut config = office();
    config.dialing.local.push(LocalForm { min: 8, max: 9, add: "30".into() });
    config.emergency.push("11a".into());
    config.emergency_trunks = vec!["ips".into()];
    config.default_rights.push("locl".into());
    config.rights.push(RightsConfig { users: "a b".into(), classes: vec![] });
    config.rights.push(RightsConfig { users: "boss".into(), classes: vec![] });
    config.identities.push(IdentityConfig { users: "*".into(), number: "030123".into() });
    let start = config.rules.len();
    config.rules.extend([
        rule("a", prefix("089"), through(&["isp"])),
        rule("b", prefix("0"), through(&["isp"])),
        rule("c", number("112"), TargetConfig::Refuse),
        rule("d", prefix("2"), through(&["nope"])),
        rule("e", number("50"), TargetConfig::Refuse),
        RuleConfig { digits: digits_of("4", ""), ..rule("f", prefix("3"), through(&["isp"])) },
        rule("g", number("+49301234567890123"), TargetConfig::Refuse),
        rule("out", prefix("4"), TargetConfig::User(String::new())),
        rule("h", prefix("5"), through(&[])),
        rule("i", prefix("+49301234"), through(&["isp"])),
    ]);
    config.did.push(did(number("+49307"), through(&["isp"])));
    let errors = Plan::new(&config).unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| (error.place, error.text.as_str())).collect();
    let at = |index: usize, part| Place::Rule(start + index, part);
    for (place, text) in [
        (Place::Local(1), "`30` is no beginning of an E.164 number, as +4930"),
        (Place::Local(1), "the lengths 8-9 overlap those of another local form"),
        (Place::Emergency(2), "emergency number `11a`: expected digits, as 112"),
        (
            Place::EmergencyTrunk(0),
            "emergency calls: trunk `ips` is unknown; expected one of: isp,",
        ),
        (Place::DefaultRight(2), "class `locl` is unknown; expected one of: emergency, internal,"),
        (Place::Rights(1), "`a b` is no pattern of users;"),
        (Place::Rights(2), "`boss` is repeated; remove one"),
        (Place::Identity(1), "`030123` is no E.164 number;"),
        (at(0, Part::Range), "a: numbers with the prefix 089 are converted before rules are"),
        (at(1, Part::Range), "b: numbers with the prefix 0 are converted"),
        (at(2, Part::Range), "c: 112 is an emergency number, which no rule changes"),
        (at(3, Part::Target), "d: trunk `nope` is unknown; expected one of: isp, backup"),
        (at(4, Part::Range), "e: 50 is already that of sales"),
        (at(5, Part::Digits), "f: remove `4` is not a beginning of 3;"),
        (at(6, Part::Range), "g: `+49301234567890123` is no number;"),
        (at(7, Part::Target), "out: expected the name of a user"),
        (at(8, Part::Target), "h: expected at least one trunk"),
        (Place::Did(0, Part::Range), "did +49301234*: +49301234 is that of a rule, too"),
        (
            Place::Did(3, Part::Target),
            "did +49307: an incoming call does not leave through a trunk",
        ),
    ] {
        let is_found = found.iter().any(|(at, it)| *at == place && it.starts_with(text));
        assert!(is_found, "{place:?}: {text}\n{found:#?}");
    }
    assert_eq!(found.len(), 19, "{found:#?}");
}

#[test]
fn the_steps_explain_the_route() {
    let plan = Plan::new(&office()).unwrap();
    let query = Query {
        dialed: b"089123456",
        caller: Caller::User("alice@a.com"),
        unavailable: &|trunk| trunk.0 == 0,
    };
    let steps: Vec<_> = plan.route(&query).steps.into_iter().map(|step| step.text).collect();
    assert_eq!(
        steps,
        [
            "alice@a.com has the default rights",
            "089123456 is the E.164 number +4989123456",
            "germany: +49 is its longest prefix with a rule",
            "class national: alice@a.com may call it",
            "trunk isp is down",
            "class national: alice@a.com may call it",
            "trunk backup: 089123456",
        ]
    );
}
