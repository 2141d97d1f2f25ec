//! Full tables, expiry and shutdown: clean rejections, and no state left behind.

use crate::bench::{Bench, config, line, tcp};
use barebell_sip_server::journal_record as record;
use sip::{Duration, Transport};

#[test]
fn beyond_the_limit_of_transactions_requests_are_refused_503() {
    for max in [0, 1, 2] {
        let mut config = config();
        config.limits.max_transactions = max;
        let mut bench = Bench::with_config_and_bob(config, &[("bob", "1")]);
        for _ in 0..max {
            assert_eq!(bench.call("INVITE"), ["alice 100", "bob INVITE"]);
        }
        let last = (max > 0).then(|| bench.last("from alice", "INVITE"));
        for method in ["MESSAGE", "INVITE"] {
            assert_eq!(bench.call(method), ["alice 503"]);
            assert_eq!(line(&bench.last("alice", "response"), "Retry-After"), "Retry-After: 5");
        }
        assert_eq!(bench.follow("ACK"), [""; 0]);
        assert_eq!(bench.server.transactions(), max);
        assert_eq!(bench.counter("transaction-limit"), 2);
        let Some(invite) = last else { continue };
        // Transactions in progress continue.
        assert_eq!(bench.receive("alice", &invite), ["alice 100"]);
        assert_eq!(bench.answer("bob", 180), ["alice 180"]);
        assert_eq!(bench.follow("CANCEL"), ["alice 200", "bob CANCEL"]);
        assert_eq!(bench.answer("bob", 487), ["bob ACK", "alice 487"]);
        bench.rest();
        assert_eq!(bench.call("MESSAGE"), ["bob MESSAGE"], "there is room again");
        bench.rest();
    }
}

#[test]
fn beyond_the_limit_of_registrations_new_ones_are_refused_503() {
    let mut config = config();
    config.limits.max_registered = 1;
    let mut bench = Bench::with_config_and_bob(config, &[("bob", "1")]);
    assert_eq!(bench.register("alice", "alice", "<sip:alice@192.0.2.10>"), ["alice 503"]);
    assert_eq!((bench.server.registered(), bench.server.bindings()), (1, 1));
    assert_eq!(bench.counter("registration-limit"), 1);
    // A registered user may refresh, add and remove bindings.
    assert_eq!(bench.register("bob", "bob", "<sip:bob@192.0.2.20:5060>"), ["bob 200"]);
    assert_eq!(bench.register("bob", "bob", "<sip:desk@192.0.2.20:5060>"), ["bob 200"]);
    assert_eq!(bench.register("bob", "bob", "*\r\nExpires: 0"), ["bob 200"]);
    assert_eq!((bench.server.registered(), bench.server.bindings()), (0, 0));
    assert_eq!(bench.register("alice", "alice", "<sip:alice@192.0.2.10>"), ["alice 200"]);
}

#[test]
fn beyond_the_limit_of_contacts_all_stays_as_it_was() {
    let mut config = config();
    config.registrar.max_contacts = 2;
    let mut bench = Bench::with_config_and_bob(config, &[("one", "1"), ("two", "1")]);
    let three = "<sip:x@192.0.2.10>, <sip:one@192.0.2.20:5060>;expires=0, <sip:y@192.0.2.10>, \
                 <sip:z@192.0.2.10>";
    assert_eq!(bench.register("alice", "bob", three), ["alice 403"]);
    assert_eq!(bench.server.bindings(), 2);
    assert_eq!(bench.call("MESSAGE"), ["one MESSAGE", "two MESSAGE"]);
    let swap = "<sip:alice@192.0.2.10>, <sip:one@192.0.2.20:5060>;expires=0";
    assert_eq!(bench.register("alice", "bob", swap), ["alice 200"]);
    assert_eq!(bench.server.bindings(), 2);
}

#[test]
fn bindings_end_when_they_expire() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.register("bob", "bob", "<sip:bob@192.0.2.20:5060>;expires=60");
    bench.register("bob", "bob", "<sip:desk@192.0.2.21:5060>;expires=90");
    bench.wait(59_000);
    assert_eq!(bench.call("MESSAGE"), ["udp:192.0.2.21:5060 MESSAGE", "bob MESSAGE"]);
    bench.journal.clear();
    bench.wait(3_000);
    let journal: Vec<_> = record::read(&bench.journal).map(Result::unwrap).collect();
    assert_eq!(journal.len(), 1);
    assert_eq!((journal[0].entries().count(), journal[0].bindings().count()), (1, 0));
    assert_eq!(bench.server.bindings(), 1);
    bench.wait(30_000);
    assert_eq!((bench.server.registered(), bench.server.bindings()), (0, 0));
    assert_eq!(bench.counter("expired-bindings"), 2);
    assert_eq!(bench.call("INVITE"), ["alice 404"], "without authentication nobody else is known");
    bench.rest();
}

#[test]
fn what_expired_is_counted_out_also_where_a_fetch_finds_it_first() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.register("bob", "bob", "<sip:bob@192.0.2.20:5060>;expires=60");
    bench.now += Duration::from_secs(60);
    let fetch = bench
        .request("REGISTER", "sip:example.com", "bob", "bob", "sip:bob@example.com")
        .replace("Contact", "X-Contact");
    assert_eq!(bench.receive("bob", &fetch), ["bob 200"]);
    assert!(!bench.last("bob", "response").contains("Contact: "));
    assert_eq!((bench.server.registered(), bench.server.bindings()), (0, 0));
    assert_eq!(bench.counter("expired-bindings"), 1);
}

#[test]
fn a_server_that_drains_ends_what_it_has_begun() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.server.drain();
    assert_eq!(bench.server.unanswered(), 1);
    assert_eq!(bench.call("MESSAGE"), ["alice 503"]);
    assert_eq!(bench.register("bob", "bob", "<sip:bob@192.0.2.20:5060>"), ["bob 200"]);
    let invite = bench.last("from alice", "INVITE");
    assert_eq!(bench.receive("alice", &invite), ["alice 100"]);
    assert_eq!(bench.answer("bob", 200), ["alice 200"]);
    assert_eq!(bench.server.unanswered(), 0);
    bench.rest();
}

#[test]
fn what_has_begun_goes_on_when_the_server_is_behind_and_nothing_new_begins() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.waited = Duration::from_millis(101);
    assert_eq!(bench.call("MESSAGE"), ["alice 503"]);
    assert!(bench.last("alice", "response").contains("\r\nRetry-After: 5\r\n"));
    assert_eq!(bench.counter("overload-refused"), 1);
    assert_eq!(bench.register("bob", "bob", "<sip:bob@192.0.2.20:5060>"), ["bob 200"]);
    assert_eq!(bench.answer("bob", 200), ["alice 200"]);
    bench.waited = Duration::from_millis(100);
    assert_eq!(bench.call("MESSAGE"), ["bob MESSAGE"]);
    let mut config = config();
    config.limits.max_wait = Duration::ZERO;
    bench.server.configure(config);
    bench.waited = Duration::from_secs(9);
    assert_eq!(bench.call("OPTIONS"), ["bob OPTIONS"]);
}

#[test]
fn a_request_that_has_been_sent_again_is_left_for_its_copy() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.call("INVITE");
    bench.waited = Duration::from_millis(501);
    assert_eq!(bench.call("MESSAGE"), [""; 0]);
    assert_eq!(bench.register("bob", "bob", "<sip:bob@192.0.2.20:5060>"), [""; 0]);
    assert_eq!(bench.counter("overload-dropped"), 2);
    assert_eq!(bench.answer("bob", 200), ["alice 200"]);
    bench.waited = Duration::from_millis(500);
    assert_eq!(bench.register("bob", "bob", "<sip:bob@192.0.2.20:5060>"), ["bob 200"]);
}

#[test]
fn a_server_that_falls_behind_serves_a_share_of_the_calls_and_whole_ones() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.fall_behind(Transport::Udp);
    let outcomes: Vec<_> = (0..200)
        .map(|number| {
            let message = bench
                .request("MESSAGE", "sip:bob@example.com", "alice", "bob", "sip:bob@example.com")
                .replace("Call-ID: ", &format!("Call-ID: {number}-"));
            let first = bench.receive("alice", &message);
            assert_eq!(bench.receive("alice", &message).is_empty(), first == ["bob MESSAGE"]);
            first
        })
        .collect();
    let served = outcomes.iter().filter(|outcome| *outcome == &["bob MESSAGE"]).count();
    let refused = outcomes.iter().filter(|outcome| *outcome == &["alice 503"]).count();
    assert!(served + refused == 200 && (60..140).contains(&served), "{outcomes:?}");
    assert_eq!(bench.counter("overload-refused"), 2 * refused as u64);
    // Serving a REGISTER costs as little as rejecting it.
    assert_eq!(bench.register("bob", "bob", "<sip:bob@192.0.2.20:5060>"), ["bob 200"]);
}

#[test]
fn streams_and_datagrams_are_behind_apart_from_each_other() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    bench.end("proxy", tcp("192.0.2.50:5060", 9));
    bench.fall_behind(Transport::Tcp);
    let call_400_times = |bench: &mut Bench, begin: u32| {
        let mut counts = [0; 3];
        for number in begin..begin + 400 {
            let message = bench
                .request("MESSAGE", "sip:bob@example.com", "proxy", "carol", "sip:bob@example.com")
                .replace("Call-ID: ", &format!("Call-ID: {number}-"));
            let outcome = match bench.lets_in(&message) {
                true => bench.receive("proxy", &message),
                false => Vec::new(),
            };
            let place = match outcome.join(", ").as_str() {
                "" => 0,
                "proxy 503" => 1,
                "bob MESSAGE" => 2,
                other => panic!("{other}"),
            };
            counts[place] += 1;
        }
        counts
    };
    assert_eq!(call_400_times(&mut bench, 0), [0, 0, 400], "a stream that has not to wait");
    bench.waited = Duration::from_millis(40);
    let counts = call_400_times(&mut bench, 1000);
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
    bench.waited = Duration::ZERO;
    assert_eq!(bench.counter("overload-dropped"), counts[0]);
    assert_eq!(bench.counter("overload-refused"), counts[1]);
    assert_eq!(bench.call("MESSAGE"), ["bob MESSAGE"]);
}

#[test]
fn a_configuration_is_taken_by_all_workers_at_once() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    let mut config = config();
    config.limits.max_transactions = 0;
    bench.server.configure(config);
    for _ in 0..3 {
        assert_eq!(bench.call("MESSAGE"), ["alice 503"]);
    }
}

#[test]
fn restored_records_count_in_the_order_they_were_made() {
    let mut bench = Bench::with_bob(&[("bob", "1")]);
    let mut records = vec![std::mem::take(&mut bench.journal)];
    for user in ["bob", "carol", "dave"] {
        bench.register("bob", user, &format!("<sip:{user}-2@192.0.2.20:5060>"));
        records.push(std::mem::take(&mut bench.journal));
    }
    bench.register("bob", "bob", "<sip:bob-3@192.0.2.20:5060>");
    let latest = std::mem::take(&mut bench.journal);
    let contacts = |order: &[&Vec<u8>]| {
        let restored = Bench::new(config());
        for bytes in order {
            for record in record::read(bytes) {
                restored.server.restore(&record.unwrap(), bench.now);
            }
        }
        let mut contacts = Vec::new();
        restored.server.for_each_binding(bench.now, &mut |binding| {
            contacts.push(String::from_utf8(binding.contact.to_vec()).unwrap());
        });
        contacts.sort();
        contacts
    };
    let [first, second, carol, dave] = &records[..] else { panic!("four") };
    let expected = contacts(&[first, second, carol, dave, &latest]);
    assert_eq!(expected.len(), 5);
    for order in [
        [&latest, first, second, carol, dave],
        [dave, carol, first, &latest, second],
        [dave, first, &latest, second, carol],
        [carol, dave, second, first, &latest],
    ] {
        assert_eq!(contacts(&order), expected);
    }
}
