//! Rules that the engine is known to break, each with a test in `crates/sip-server/tests/attack_findings.rs`. Whoever
//! mends one strikes it out here, so that the model asks for it from then on.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Gap {
    /// A name of ours in To is the callee's, whoever is called.
    CalledByTo,
    /// Without transactions, the ACK and the CANCEL of an INVITE go wherever they say.
    StatelessCompanion,
    /// A request that says to come from the server's own end makes dialogs lead there.
    OwnEndAsSource,
    /// Who forks to a host and to himself can answer for that host.
    GuessedBranch,
    /// Who has a token can make a host count as one that has answered by a forged source.
    ForgedWithin,
    /// Without transactions, nothing bounds what goes to a host that never answered.
    StatelessBytes,
    /// A 2xx that comes after another final response, and so goes nowhere, makes a dialog stand.
    ConfirmedUnheard,
    /// Without transactions, who is found by a name counts as being where the caller is.
    ScopeOfName,
}

/// What is not mended yet.
const KNOWN: &[Gap] = &[
    Gap::CalledByTo,
    Gap::StatelessCompanion,
    Gap::OwnEndAsSource,
    Gap::GuessedBranch,
    Gap::ForgedWithin,
    Gap::StatelessBytes,
    Gap::ConfirmedUnheard,
    Gap::ScopeOfName,
];

/// Whether it is known that the engine does this.
pub(in super::super) fn is_known(gap: Gap) -> bool {
    KNOWN.contains(&gap)
}
