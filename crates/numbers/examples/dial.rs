//! Numbers as a user dials them: each becomes a call through a trunk, an emergency call, or a
//! refusal with its steps.

use barebell_numbers::{
    Caller, Dialing, Digits, Outcome, Plan, PlanConfig, Query, Range, RightsConfig, RuleConfig,
    TargetConfig, TrunkUse,
};

fn main() {
    let isp = || vec![TrunkUse { trunk: "isp".into(), digits: None }];
    let rule = |name: &str, prefix: &str| RuleConfig {
        name: name.into(),
        range: Range::Prefix(prefix.into()),
        digits: Digits::default(),
        target: TargetConfig::Trunks(isp()),
    };
    let plan = Plan::new(&PlanConfig {
        trunks: vec!["isp".into()],
        dialing: Dialing {
            country: "49".into(),
            international: "00".into(),
            national: "0".into(),
            ..Dialing::default()
        },
        rules: vec![rule("germany", "+49"), rule("world", "+")],
        rights: vec![RightsConfig {
            users: "*@example.org".into(),
            classes: vec!["internal".into(), "national".into()],
        }],
        ..PlanConfig::default()
    })
    .expect("the plan is consistent");
    let mut destinations = Vec::new();
    for dialed in ["030-12345", "00442079460000", "112"] {
        let caller = Caller::User("alice@example.org");
        let query = Query { dialed: dialed.as_bytes(), caller, unavailable: &|_| false };
        let route = plan.route(&query);
        println!("{dialed}");
        for step in &route.steps {
            println!("  {}", step.text);
        }
        destinations.push(match route.outcome {
            Outcome::Trunks(attempts) => attempts[0].number.clone(),
            Outcome::Refused(refusal) => format!("refused: {refusal}"),
            other => format!("{other:?}"),
        });
    }
    println!("{destinations:#?}");
    assert_eq!(destinations[0], "+493012345");
    assert!(destinations[1].starts_with("refused"), "national calls only");
    assert!(!destinations[2].starts_with("refused"), "no right refuses an emergency call");
}
