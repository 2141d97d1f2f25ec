//! Properties of all plans.

use barebell_numbers::{
    Caller, ClassId, Dialing, DidConfig, Digits, Outcome, Plan, PlanConfig, Query, Range,
    RightsConfig, RuleConfig, ServiceKind, TargetConfig, TrunkId, TrunkUse,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const TRUNKS: [&str; 3] = ["one", "two", "three"];
const CLASSES: [&str; 6] =
    ["internal", "national", "international", "special", "premium", "satellite"];

fn targets() -> impl Strategy<Value = TargetConfig> {
    let use_of = |trunk: &&str| TrunkUse { trunk: (*trunk).into(), digits: None };
    let trunks = subsequence(TRUNKS.to_vec(), 1..=3).prop_shuffle();
    prop_oneof![
        4 => trunks.prop_map(move |trunks| TargetConfig::Trunks(trunks.iter().map(use_of).collect())),
        1 => Just(TargetConfig::User("alice".into())),
        1 => Just(TargetConfig::Group("sales".into())),
        1 => Just(TargetConfig::Service(ServiceKind::Mailbox, None)),
        1 => Just(TargetConfig::Service(ServiceKind::Music, None)),
        1 => Just(TargetConfig::Inside),
        1 => Just(TargetConfig::Refuse),
    ]
}

/// Rules with different keys: a key is a prefix or a whole number.
fn rules() -> impl Strategy<Value = Vec<RuleConfig>> {
    let key = prop_oneof!["[1-3*]{1,4}", r"\+[1-3]{1,4}", Just("+".to_owned())];
    let rules = btree_map((key, any::<bool>()), (targets(), any::<bool>(), "[0-3]{0,2}"), 0..12);
    rules.prop_map(|rules| {
        let rule = |(index, ((key, is_whole), (target, removes, add)))| {
            let key: String = key;
            let is_whole = is_whole && key != "+";
            let remove = if removes { key.clone() } else { String::new() };
            let name = format!("rule {index}");
            let digits = Digits { remove, add };
            let range = if is_whole { Range::Number(key) } else { Range::Prefix(key) };
            RuleConfig { name, range, digits, target }
        };
        let mut rules: Vec<_> = rules.into_iter().enumerate().map(rule).collect();
        // A plan has no rules for emergency numbers.
        let is_emergency = |key: &str| ["112", "+1112"].contains(&key);
        rules.retain(|rule| !matches!(&rule.range, Range::Number(key) if is_emergency(key)));
        // A whole number `+` has become the prefix `+`.
        let mut has_all = false;
        rules.retain(|rule| {
            rule.range != Range::Prefix("+".into()) || !core::mem::replace(&mut has_all, true)
        });
        rules
    })
}

fn rights() -> impl Strategy<Value = Vec<RightsConfig>> {
    let users = select(vec!["alice", "alice@a.com", "a*", "al*", "*", "*@a.com", "a*@a.com", "b*"]);
    let classes = subsequence(CLASSES.to_vec(), 0..=CLASSES.len());
    btree_map(users, classes, 0..5).prop_map(|all| {
        let one = |(users, classes): (&str, Vec<&str>)| RightsConfig {
            users: users.into(),
            classes: classes.into_iter().map(str::to_owned).collect(),
        };
        all.into_iter().map(one).collect()
    })
}

fn dids() -> impl Strategy<Value = Vec<DidConfig>> {
    let trunk = proptest::option::of(select(TRUNKS.to_vec()));
    // The keys of rules have no 4: an own number is not that of a rule.
    btree_map((trunk, r"\+4[1-3]{0,3}"), 0..4usize, 0..6).prop_map(|all| {
        let one = |((trunk, key), target): ((Option<&str>, String), usize)| DidConfig {
            name: String::new(),
            trunk: trunk.map(str::to_owned),
            digits: Digits { remove: key.clone(), add: String::new() },
            range: Range::Prefix(key),
            target: match target {
                0 => TargetConfig::User("alice".into()),
                1 => TargetConfig::Group("sales".into()),
                2 => TargetConfig::Inside,
                _ => TargetConfig::Service(ServiceKind::Voicemail, None),
            },
        };
        all.into_iter().map(one).collect()
    })
}

fn configs() -> impl Strategy<Value = PlanConfig> {
    let default_rights = subsequence(CLASSES.to_vec(), 0..=CLASSES.len());
    (rules(), rights(), dids(), default_rights).prop_map(|(rules, rights, did, default_rights)| {
        PlanConfig {
            trunks: TRUNKS.map(str::to_owned).to_vec(),
            dialing: Dialing {
                country: "1".into(),
                international: "00".into(),
                national: "0".into(),
                ..Dialing::default()
            },
            default_rights: default_rights.into_iter().map(str::to_owned).collect(),
            rules,
            rights,
            did,
            ..PlanConfig::default()
        }
    })
}

/// Numbers as dialed that often meet a rule, and arbitrary bytes.
fn dialed() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "(\\+|0|00)?[1-4*]{1,7}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..80),
        1 => "[+0-9*#()-]{0,20}".prop_map(String::into_bytes),
    ]
}

fn callers() -> impl Strategy<Value = Caller<'static>> {
    prop_oneof![
        3 => select(vec!["alice@a.com", "bob@a.com", "alice@b.com"]).prop_map(Caller::User),
        1 => (0..4u8).prop_map(|trunk| Caller::Trunk(TrunkId(trunk))),
        1 => Just(Caller::Stranger),
    ]
}

/// The rule for a number, by a look at each of them.
fn reference<'r>(rules: &'r [RuleConfig], number: &str) -> Option<&'r RuleConfig> {
    let rank = |rule: &&RuleConfig| match &rule.range {
        Range::Number(key) => (key == number).then_some(usize::MAX),
        Range::Prefix(key) => number.starts_with(&**key).then_some(key.len()),
        Range::All => None,
    };
    rules.iter().filter(|rule| rank(rule).is_some()).max_by_key(rank)
}

proptest! {
    #[test]
    fn the_longest_prefix_is_that_of_a_look_at_each_rule(
        mut rules in rules(),
        number in r"(\+[1-3]{1,6}|[1-3*]{1,6})",
    ) {
        for (index, rule) in rules.iter_mut().enumerate() {
            rule.target = TargetConfig::Group(index.to_string());
        }
        let config = PlanConfig { rules, ..PlanConfig::default() };
        let plan = Plan::new(&config).unwrap();
        let caller = Caller::User("alice@a.com");
        let found = plan.route(&Query { dialed: number.as_bytes(), caller, unavailable: &|_| false });
        let expected = reference(&config.rules, &number).map_or(Outcome::Name, |rule| {
            let TargetConfig::Group(group) = &rule.target else { unreachable!() };
            Outcome::Group(group.clone())
        });
        // A `+` followed by `*` never occurs here, so each number has a form.
        prop_assert_eq!(found.outcome, expected);
    }

    #[test]
    fn a_route_does_not_depend_on_the_order_of_rules(
        (config, other) in configs().prop_flat_map(|config| {
            let shuffled = (
                Just(config.rules.clone()).prop_shuffle(),
                Just(config.rights.clone()).prop_shuffle(),
                Just(config.did.clone()).prop_shuffle(),
            );
            (Just(config), shuffled)
        }).prop_map(|(config, (rules, rights, did))| {
            let other = PlanConfig { rules, rights, did, ..config.clone() };
            (config, other)
        }),
        dialed in dialed(),
        caller in callers(),
        down in vec(any::<bool>(), 3),
    ) {
        let unavailable = |trunk: TrunkId| down[usize::from(trunk.0)];
        let query = Query { dialed: &dialed, caller, unavailable: &unavailable };
        let (one, two) = (Plan::new(&config).unwrap(), Plan::new(&other).unwrap());
        prop_assert_eq!(one.route(&query), two.route(&query));
    }

    #[test]
    fn an_emergency_call_of_a_user_is_never_refused(
        config in configs(),
        number in select(vec!["112", "911", "0112", "+1911", "001112", "1-1-2", "(112)"]),
        user in select(vec!["alice@a.com", "bob@a.com", "x"]),
        down in vec(any::<bool>(), 3),
    ) {
        let plan = Plan::new(&config).unwrap();
        let unavailable = |trunk: TrunkId| down[usize::from(trunk.0)];
        let caller = Caller::User(user);
        let query = Query { dialed: number.as_bytes(), caller, unavailable: &unavailable };
        let Outcome::Trunks(attempts) = plan.route(&query).outcome else { panic!("refused") };
        prop_assert_eq!(attempts.len(), TRUNKS.len(), "each trunk is tried");
        for attempt in attempts {
            prop_assert_eq!(attempt.class, ClassId::EMERGENCY);
            prop_assert!(["112", "911"].contains(&&*attempt.number));
        }
    }

    #[test]
    fn a_call_uses_no_right_that_its_caller_lacks(
        config in configs(),
        dialed in dialed(),
        caller in callers(),
    ) {
        let plan = Plan::new(&config).unwrap();
        let query = Query { dialed: &dialed, caller, unavailable: &|_| false };
        let outcome = plan.route(&query).outcome;
        if let Outcome::Refused(refusal) = &outcome {
            prop_assert!(!refusal.rule.is_empty() && (400..700).contains(&refusal.status));
        }
        match caller {
            Caller::Trunk(_) => prop_assert!(!matches!(outcome, Outcome::Name | Outcome::Trunks(_))),
            Caller::Stranger => {
                prop_assert!(!matches!(outcome, Outcome::Service(_) | Outcome::Trunks(_)));
            }
            Caller::User(user) => {
                let allowed = allowed(&config, user);
                let classes = match &outcome {
                    Outcome::Refused(_) => Vec::new(),
                    Outcome::Trunks(attempts) => {
                        attempts.iter().map(|attempt| plan.class_name(attempt.class)).collect()
                    }
                    _ => vec!["internal"],
                };
                for class in classes {
                    prop_assert!(class == "emergency" || allowed.iter().any(|it| it == class));
                }
            }
        }
    }
}

/// The rights of a user, by a look at each pattern.
fn allowed<'c>(config: &'c PlanConfig, user: &str) -> &'c [String] {
    let (name, domain) = user.split_once('@').unwrap();
    let rank = |pattern: &str| {
        let (wanted, of) = pattern.split_once('@').map_or((pattern, None), |(a, b)| (a, Some(b)));
        let is_whole = !wanted.ends_with('*');
        let start = wanted.trim_end_matches('*');
        let matches = if is_whole { name == start } else { name.starts_with(start) };
        (matches && of.is_none_or(|of| of == domain)).then_some((
            is_whole,
            start.len(),
            of.is_some(),
        ))
    };
    let best = config.rights.iter().filter_map(|it| Some((rank(&it.users)?, &it.classes)));
    best.max_by_key(|(rank, _)| *rank).map_or(&config.default_rights, |(_, classes)| classes)
}
