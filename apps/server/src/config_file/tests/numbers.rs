//! Tests of `[numbers]`.

use super::{parse, problems, refused};

/// An office with two trunks and these lines in `[numbers]`.
fn office(lines: &str) -> String {
    format!(
        "[[trunks]]\nname = \"isp\"\nhost = \"a\"\n[[trunks]]\nname = \"b\"\nhost = \"b\"\n\
         [numbers]\n{lines}"
    )
}

#[test]
fn a_numbering_plan_is_read() {
    let text = office(
        r#"country = "49"
        international = "00"
        national = "0"
        local = [{ digits = "5-8", add = "+4930" }, { digits = 4, add = "+49301" }]
        emergency = ["112"]
        emergency_trunks = ["b"]
        classes = [{ name = "premium", prefixes = ["+49900"] }]
        default_rights = ["internal"]
        rights = [{ users = "1*", classes = ["internal", "premium"] }]
        identities = [{ users = "*", number = "+49301234*" }]
        limits = [{ users = "*", calls = 2 }, { class = "premium", minutes = 9 }]
        rules = [
            { prefix = "+", trunks = ["isp", { trunk = "b", remove = "+", add = "00" }] },
            { number = "*97", to = "voicemail" },
            { prefix = "*8", remove = "*8", to = "pickup" },
        ]
        [[numbers.did]]
        trunk = "isp"
        prefix = "+49301234"
        remove = "+49301234"
        to = "internal"
        [[numbers.did]]
        to = "user:boss@b.org"
        "#,
    );
    let settings = parse(&text).unwrap();
    let numbers = &settings.numbers;
    assert_eq!((numbers.rules.len(), numbers.did.len(), numbers.dialing.local.len()), (3, 2, 2));
    let plan = settings.plan("a.org").unwrap();
    let route = |dialed: &str, caller| {
        let query = ::numbers::Query { dialed: dialed.as_bytes(), caller, unavailable: &|_| false };
        plan.route(&query).outcome
    };
    let user = ::numbers::Caller::User("12@a.org");
    let ::numbers::Outcome::Trunks(attempts) = route("0900123", user) else { panic!() };
    let found: Vec<_> = attempts.iter().map(|it| (it.trunk.0, &*it.number)).collect();
    assert_eq!(found, [(0, "+49900123"), (1, "0049900123")]);
    assert_eq!(attempts[0].identity.as_deref(), Some("+4930123412"));
    assert!(matches!(route("0891234567", user), ::numbers::Outcome::Refused(_)), "national");
    let trunk = ::numbers::Caller::Trunk(::numbers::TrunkId(1));
    assert_eq!(route("s", trunk), ::numbers::Outcome::User("boss@b.org".into()));
}

#[test]
fn mistakes_of_a_numbering_plan_have_their_places() {
    let one = |line: &str, expected: &str| refused(&office(line), expected);
    one("country = \"+49\"", "8:11: `+49` is no country code; expected one to three digits");
    one("national = \"0\"", "8:12: national needs country");
    one("emergency = [\"112\", \"11x\"]", "8:21: emergency number `11x`: expected digits");
    one("emergency_trunks = [\"c\"]", "8:21: emergency calls: trunk `c` is unknown; expected one");
    one("default_rights = [\"all\"]", "8:19: class `all` is unknown; expected one of: emergency,");
    one("local = [{ digits = \"x\", add = \"+49\" }]", "8:21: digits: \"x\" is no number of dig");
    one("classes = [{ name = \"a b\", prefixes = [] }]", "8:21: name: expected a name of at most");
    one("classes = [{ name = \"a\", prefixes = [\"x\"] }]", "8:38: class `a`: `x` is no prefix");
    one("rights = [{ users = \"a b\", classes = [] }]", "8:21: `a b` is no pattern of users");
    one("identities = [{ users = \"*\", number = \"7\" }]", "8:39: `7` is no E.164 number");
    one("limits = [{ trunk = \"c\", calls = 1 }]", "8:21: limit: trunk `c` is unknown");
    one("limits = [{ calls = 1 }]", "8:21: a limit is for users, a trunk, a class or");
    one("limits = [{ strangers = \"some\" }]", "8:25: strangers: `some` is unknown; expected one");
    one("rules = [{ prefix = \"2\" }]", "8:21: a rule has trunks or to; expected one of the two");
    one("rules = [{ to = \"refuse\" }]", "8:17: a rule has no numbers; expected number");
    one("rules = [{ prefix = \"2\", to = \"user\" }]", "8:31: to: `user` is unknown; expected one");
    one("rules = [{ prefix = \"2\", to = \"user:\" }]", "8:31: to: `user:` ends after the colon");
    one("rules = [{ prefix = \"2\", trunks = [\"c\"] }]", "8:35: rule 2*: trunk `c` is unknown");
    one("rules = [{ prefix = \"2\", remove = \"3\", to = \"internal\" }]", "8:35: rule 2*: remove");
    one("rules = [{ prefix = \"2\", two = 1, to = \"music\" }]", "8:26: unknown key `two` in [[nu");
    one("did = [{ number = \"1\" }]", "8:8: a did has no destination; expected one such as");
    one(
        "did = [{ trunk = \"c\", to = \"music\" }]",
        "8:18: did of c default: trunk `c` is unknown",
    );
    let many =
        "country = \"x\"\ndefault_rights = [\"all\"]\nrules = [{ prefix = \"x\", to = \"music\" }]";
    assert_eq!(problems(&office(many)).len(), 3, "all are found at once");
}
