//! The texts of the pages, in one table, so that they can be translated. `{}` stands for a value.

macro_rules! texts {
    ($($name:ident: $text:literal,)*) => {
        /// The texts in one language.
        #[derive(Debug)]
        pub(crate) struct Texts {
            /// The language (RFC 5646).
            pub(crate) language: &'static str,
            $(pub(crate) $name: &'static str,)*
        }

        /// English.
        pub(crate) static ENGLISH: Texts = Texts { language: "en", $($name: $text,)* };
    };
}

texts! {
    product: "Barebell",
    skip: "Skip to the content",
    menu: "Pages",
    overview: "Overview",
    users: "Users",
    registrations: "Registrations",
    calls: "Calls",
    records: "Call records",
    refusals: "Refusals",
    trace: "Ladder",
    trunks: "Trunks",
    route: "Try a number",
    bans: "Bans",
    system: "System",
    access: "Access",
    log_out: "Log out",
    logged_in_as: "{}, {}",
    role_reader: "read only",
    role_operator: "operator",
    role_administrator: "administrator",

    log_in: "Log in",
    name: "Name",
    password: "Password",
    password_again: "Password again",
    user_log_in: "Log in with a phone's name and password",
    account_log_in: "Log in as an administrator",
    log_in_failed: "The name or the password is wrong.",
    log_in_wait: "Too many attempts. Wait ten minutes, then try again.",
    setup: "The first administrator",
    setup_about: "This account may do everything, and add others. Use at least 10 characters for the \
                  password.",
    setup_over: "This link is not valid any more. The log of the server has the present one, if \
                 there is no administrator yet; otherwise log in.",
    setup_do: "Make the administrator",
    bad_account: "An account name has 1 to 64 letters, digits, dots, hyphens or underscores.",
    bad_password: "A password has at least 10 characters.",
    passwords_differ: "The passwords differ.",
    not_found: "There is no such page.",
    not_allowed: "Your role does not allow that.",
    bad_form: "The form is out of date or from another site. Open the page again, and repeat it.",
    failed: "That failed",
    bad_request: "The request cannot be read.",

    ready: "The server is ready.",
    not_ready: "The server is not ready",
    version: "Version",
    running_for: "Running for",
    domains: "Domains",
    listens: "Addresses",
    users_count: "Users",
    registered_count: "Registered users",
    contacts_count: "Phones",
    calls_count: "Calls now",
    transactions_count: "Transactions",
    users_elsewhere: "The users are in {}: change them there.",
    counters: "Counters since the start",
    counter: "Counter",
    value: "Value",

    find: "Find",
    search_users: "A part of name@domain",
    search_registrations: "A part of a user or contact",
    next_page: "Next page",
    first_page: "First page",
    no_users: "No user fits.",
    user: "User",
    services: "Call services",
    phones: "Phones",
    add_user: "Add a user",
    add_user_do: "Add the user",
    user_name: "Name, such as alice or alice@example.com",
    new_password: "New password",
    change_password: "Change the password",
    forwards: "Forwards",
    forward_always: "All calls to",
    forward_busy: "On busy to",
    forward_no_answer: "On no answer to",
    forward_unreachable: "Without a reachable phone to",
    forward_after: "Seconds before no answer",
    forward_help: "A user or a group, such as bob. Leave a field empty for no forward.",
    do_not_disturb: "Do not disturb",
    save: "Save",
    remove_user: "Remove the user",
    remove_user_about: "The phones of the user are logged out at once.",
    remove_user_sure: "Remove {}?",
    user_added: "{} was added. A phone can log in with that name and password now.",
    user_changed: "{} has a new password.",
    user_same: "{} has that password already.",
    user_removed: "{} was removed.",
    services_saved: "The call services of {} were saved.",
    records_of_user: "Calls of {}",

    contact: "Contact",
    flow: "Connection",
    phone: "Phone",
    expires_in: "Expires in",
    no_registrations: "No registration fits.",
    end_registration: "End",
    end_registration_sure: "End the registration of {} at {}?",
    registration_ended: "The registration of {} was ended. The phone may register again.",

    refusals_about: "The last requests that were refused or dropped, with the rule that applied.",
    trace_about: "The SIP messages of the last minutes. Credentials and keys are blanked.",
    target: "User, Call-ID or address",
    request: "Request",
    from: "From",
    to: "To",
    rule: "Rule",
    dropped: "dropped without a response",
    refused_times: "{} times",
    answered_by: "answered by {}",
    see: "See {}",
    no_refusals: "No refused request fits.",
    no_messages: "No message of the last minutes fits.",
    ladder_of: "Ladder of the call of {}",
    messages: "Messages",
    show_ladder: "Ladder",
    why_failed: "Reasons of failures",

    caller: "Caller",
    callee: "Callee",
    duration: "Duration",
    quality: "Quality (MOS)",
    quality_about: "From the caller, and from the callee. 4 and more is good.",
    trunk: "Trunk",
    rings: "rings",
    no_media: "no sound",
    hang_up: "Hang up",
    hang_up_sure: "Hang up the call of {} and {}?",
    call_ended: "The call of {} and {} was ended.",
    no_calls: "No call stands.",
    calls_about: "Calls whose sound passes this server, or that it leads.",

    time: "Time (UTC)",
    end: "End",
    party: "User or name@domain",
    from_day: "From",
    to_day: "To",
    only_failed: "Failed calls only",
    export: "Export as CSV",
    no_records: "No call is recorded that fits.",
    ended_by: "by {}",

    state: "State",
    reason: "Last reason",
    usable: "usable",
    not_usable: "not usable",
    no_trunks: "No trunk is configured.",
    since: "For",
    part: "Server or account",

    route_about: "The way of a call to this number, without a call.",
    number: "Number",
    from_user: "Calling user",
    try_it: "Try",
    outcome: "Outcome",
    steps: "Steps",

    source: "Source",
    until: "Until (UTC)",
    lift: "Lift the ban",
    ban_lifted: "The ban of {} was lifted.",
    no_bans: "No source is banned.",
    bans_about: "Sources that tried wrong passwords or guessed users.",

    certificates: "Certificates",
    file: "File",
    valid_until: "Valid until (UTC)",
    fingerprint: "Fingerprint (SHA-256)",
    no_certificates: "No TLS certificate is in use.",
    configuration: "Configuration",
    check_good: "The configuration has no mistakes.",
    check_bad: "The configuration has mistakes: a reload is refused.",
    reload: "Reload the configuration",
    reload_sure: "Reload the configuration?",
    reloaded: "The configuration was checked, and is being read again. The log tells the result.",
    doctor: "Doctor",
    doctor_about: "Faults of the server and its machine, each with a remedy.",
    run_doctor: "Run the checks",
    check: "Check",
    finding: "Finding",
    remedy: "Remedy",

    own_page: "Own phone",
    own_calls: "Own calls",
    own_phones: "Registered phones",
    no_own_phones: "No phone is registered.",
    voicemail: "Voicemail",
    no_voicemail: "There is no message.",
    listen: "Listen",
    message_of: "Message of {}",
    message_new: "new",
    not_proved: "not authenticated",
    delete: "Delete",
    delete_sure: "Delete the message of {}?",
    message_deleted: "The message was deleted.",
    no_such_message: "There is no such message.",
    own_services_saved: "The call services were saved.",
    own_password_about: "Phones log in with this password, too: set the new one there as well.",
    own_password_saved: "The password was changed. Phones must log in with the new one.",
    phone_settings: "Settings of a phone",
    phone_user: "User name",
    phone_domain: "Domain",
    phone_server: "Addresses of the server",

    accounts: "Accounts of this panel",
    account: "Account",
    role: "Role",
    created: "Created (UTC)",
    add_account: "Add an account, or change one",
    add_account_do: "Save the account",
    remove: "Remove",
    remove_sure: "Remove {}?",
    account_saved: "The account {} was saved.",
    account_removed: "The account {} was removed.",
    last_administrator: "That is the last administrator: add another one first.",
    tokens: "Tokens of the HTTP API",
    tokens_about: "A program sends the token in the header field Authorization: Bearer TOKEN.",
    add_token: "Add a token",
    token_added: "The token {} is: {} It is not shown again.",
    token_removed: "The token {} was removed.",
    token_there: "There is a token of that name already: remove it first.",
    no_tokens: "There is no token.",
    actions: "Actions",
    action: "Action",
    object: "Object",
    result: "Result",
    done: "done",
    no_actions: "There are no more actions.",
    own_password: "Own password",
    present_password: "Present password",
    password_saved: "The password was changed. Other sessions of this account have ended.",
    wrong_password: "The present password is wrong.",
}

/// `text` with its places for values replaced by `values`, in their order.
pub(crate) fn fill(text: &str, values: &[&str]) -> String {
    let mut parts = text.split("{}");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        filled.push_str(values.get(number).copied().unwrap_or_default());
        filled.push_str(part);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fill_their_places_once() {
        assert_eq!(fill("{} calls {}.", &["{}", "bob"]), "{} calls bob.");
        assert_eq!(fill("none", &["x"]), "none");
    }
}
