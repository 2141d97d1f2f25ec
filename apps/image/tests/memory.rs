//! The server at the end of memory: on a heap of its own that messages try to exhaust.

#[allow(dead_code)]
mod lan;

use image::lock::Lock;
use image::machine::heap::{Heap, WithReserve};
use lan::call::{Phone, rtp};
use lan::tcp::Host;
use lan::{Lan, request};
use sip::Duration;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Mutex;
use talc::TalcLock;
use talc::source::Claim;

const MAIN: usize = 30 << 20;
const RESERVE: usize = 2 << 20;
const USERS: &str = "alice:secret\nbob:secret\n";
const PHONE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 20), 5070);

static mut MAIN_MEMORY: [u128; MAIN / 16] = [0; MAIN / 16];
static mut RESERVE_MEMORY: [u128; RESERVE / 16] = [0; RESERVE / 16];

/// All memory of this program, as in the bootable program.
#[global_allocator]
static ALLOCATOR: WithReserve<TalcLock<Lock, Claim>> = WithReserve::new(
    // SAFETY: nothing else uses these arrays.
    TalcLock::new(unsafe { Claim::array(&raw mut MAIN_MEMORY) }),
    // SAFETY: as above.
    TalcLock::new(unsafe { Claim::array(&raw mut RESERVE_MEMORY) }),
);

/// Serializes the tests, which share the memory.
static TURN: Mutex<()> = Mutex::new(());

fn heap() -> Heap {
    let (main, reserve) = (ALLOCATOR.main.lock(), ALLOCATOR.reserve.lock());
    let (main, reserve) = (main.counters(), reserve.counters());
    Heap {
        used: MAIN - main.available_bytes + reserve.allocated_bytes,
        claimed: MAIN + RESERVE,
        used_reserve: reserve.allocated_bytes,
    }
}

fn lan() -> Lan {
    lan_with("")
}

fn lan_with(options: &str) -> Lan {
    // A backtrace needs more memory than there is.
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    ALLOCATOR.set_reserve((&raw const RESERVE_MEMORY).addr(), RESERVE);
    let options = format!("auth=off domain=t.test trusted=0.0.0.0/0 {options}");
    let mut lan = Lan::with_memory(&options, USERS, heap);
    lan.run(Duration::from_millis(500));
    lan
}

fn serves(lan: &mut Lan) -> bool {
    let answers = lan.exchange(PHONE, &request("OPTIONS", "alice", PHONE, 77));
    answers.iter().any(|sent| sent.payload.starts_with(b"SIP/2.0 200"))
}

/// Hosts that each start `count` connections.
fn connect(lan: &mut Lan, hosts: u8, count: usize) -> Vec<(usize, smoltcp::iface::SocketHandle)> {
    for number in 0..hosts {
        lan.hosts.push(Host::new(Ipv4Addr::new(192, 0, 2, 100 + number), lan.now));
    }
    let mut all = Vec::new();
    for number in 0..usize::from(hosts) {
        for _ in 0..count {
            all.push((number, lan.hosts[number].connect()));
        }
    }
    all
}

#[test]
fn messages_without_an_end_are_shed_and_others_are_answered() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut lan = lan();
    let mut most = 0;
    let all = connect(&mut lan, 8, 16);
    let mut fed: Vec<_> = all.into_iter().map(|(host, handle)| (host, handle, 0)).collect();
    let head = b"MESSAGE sip:alice@t.test SIP/2.0\r\nContent-Length: 60000\r\n\r\n";
    let body = [b'x'; 4096];
    for _ in 0..4000 {
        for (number, handle, sent) in &mut fed {
            let host = &mut lan.hosts[*number];
            let before = *handle;
            host.connect_again(handle);
            if *handle != before || !host.is_established(*handle) {
                *sent = 0;
            }
            let socket = host.socket(*handle);
            if *sent < 50_000 && socket.can_send() {
                let bytes = if *sent == 0 { &head[..] } else { &body[..] };
                *sent += socket.send_slice(bytes).unwrap_or(0);
            }
        }
        lan.turn();
        lan.now += Duration::from_millis(3);
        most = most.max(heap().used);
    }
    assert!(serves(&mut lan), "{}", lan.log());
    assert!(lan.log().contains("connections were ended for want of memory"), "{}", lan.log());
    assert!(most < MAIN, "{most}");
    assert_eq!(heap().used_reserve, 0);
}

#[test]
fn answers_that_are_not_read_are_shed() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut lan = lan();
    let mut open = connect(&mut lan, 8, 8);
    let question = "OPTIONS sip:t.test SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.9;branch=z9hG4bK1\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:a@x>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\r\n";
    for _ in 0..6000 {
        for (number, handle) in &mut open {
            let host = &mut lan.hosts[*number];
            host.connect_again(handle);
            let socket = host.socket(*handle);
            if socket.can_send() {
                let _ = socket.send_slice(question.as_bytes());
            }
        }
        lan.turn();
        lan.now += Duration::from_millis(3);
    }
    assert!(serves(&mut lan), "{}", lan.log());
    assert!(lan.log().contains("connections were ended for want of memory"), "{}", lan.log());
    assert_eq!(heap().used_reserve, 0);
}

#[test]
fn a_message_without_memory_is_dropped_and_later_ones_are_answered() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut lan = lan();
    // All memory is allocated in pieces, and some of the reserve.
    let mut taken = Vec::with_capacity(4096);
    while heap().used_reserve < RESERVE / 4 {
        taken.push(vec![1_u8; 64 << 10]);
    }
    for number in 0..200 {
        lan.exchange(PHONE, &request("REGISTER", "alice", PHONE, number));
    }
    lan.run(Duration::from_secs(1));
    assert!(lan.log().contains("messages were dropped for want of memory"), "{}", lan.log());
    drop(taken);
    lan.run(Duration::from_secs(1));
    assert!(serves(&mut lan), "{}", lan.log());
    assert_eq!(heap().used_reserve, 0);
}

#[test]
fn a_message_that_meets_the_end_of_memory_is_finished_in_the_reserve() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut lan = lan();
    // No free piece is large enough for the response, though much is free in total.
    let mut taken = Vec::with_capacity(4 * MAIN / 512);
    while heap().used_reserve == 0 {
        taken.push(vec![1_u8; 400]);
    }
    taken.pop();
    for number in (0..taken.len()).step_by(2) {
        taken[number] = Vec::new();
    }
    assert_eq!(heap().used_reserve, 0);
    let long = "x".repeat(3000);
    let message = request("OPTIONS", &long, PHONE, 5);
    lan.exchange(PHONE, &message);
    assert!(serves(&mut lan), "{}", lan.log());
}

#[test]
fn as_many_users_as_are_let_in_have_room_and_stay_when_the_file_comes_again() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut lan = lan_with("refresh=2");
    // As many as the budget of this memory allows.
    let most = (MAIN + RESERVE) / 1100;
    lan.file.clear();
    (0..most).for_each(|number| lan.file.extend(format!("user{number:06}:secret\n").bytes()));
    let said = format!("{most} users");
    for _ in 0..20_000 {
        lan.turn();
        lan.now += Duration::from_millis(1);
        if lan.log().lines().any(|line| line == said) {
            break;
        }
    }
    assert!(lan.log().lines().any(|line| line == said), "{}", lan.log());
    for number in (0..most).step_by(4) {
        let user = format!("user{number:06}");
        let answers = lan.exchange(PHONE, &request("REGISTER", &user, PHONE, number as u32));
        assert!(answers.iter().any(|sent| sent.payload.starts_with(b"SIP/2.0 200")), "{number}");
    }
    // The file may not fit beside the users and their phones: then they stay.
    lan.run(Duration::from_secs(8));
    let answers = lan.exchange(PHONE, &request("REGISTER", "user000001", PHONE, 7));
    assert!(answers.iter().any(|sent| sent.payload.starts_with(b"SIP/2.0 200")), "{}", lan.log());
    assert!(serves(&mut lan), "{}", lan.log());
    assert_eq!(heap().used_reserve, 0);
}

#[test]
fn a_relayed_call_has_the_memory_of_the_budget_and_leaves_nothing() {
    const CALLS: u32 = 40;
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut lan = lan_with("relay=all");
    let bob = Phone::new(21);
    lan.register(bob, "bob", 1);
    let ports = [4000, 6000];
    let relay = |lan: &mut Lan, numbers: std::ops::Range<u32>| -> Vec<_> {
        let call = |number: u32| {
            let phones = [Phone::new(30 + (number % 100) as u8), bob];
            let offer = (number, ports[0]);
            let invite = lan.offer(phones, "bob", offer).expect("an INVITE at the callee");
            let call = lan.answer(phones, &invite, (number, ports));
            for packet in 0..3 {
                for side in [0, 1] {
                    let from = phones[side].media(ports[side]);
                    lan.pass(from, call.relay[side], &rtp(packet));
                }
            }
            call
        };
        numbers.map(call).collect()
    };
    // Transactions end after 32 s.
    let settle = |lan: &mut Lan| {
        lan.sent = Vec::new();
        lan.run(Duration::from_secs(40));
        heap().used
    };
    // The first calls of the same phones fill tables of neighbours, sources and dialogs.
    for round in 1..6 {
        for call in relay(&mut lan, 100 * round..100 * round + CALLS) {
            lan.hang_up(&call);
        }
        settle(&mut lan);
    }
    let before = settle(&mut lan);
    let calls = relay(&mut lan, 600..600 + CALLS);
    let during = settle(&mut lan);
    let bytes = (during - before) / CALLS as usize;
    // The budget is 8 KiB: the rest is for longer messages, more codecs, and keys.
    assert!((1000..7 << 10).contains(&bytes), "{bytes} bytes for a relayed call");
    for call in &calls {
        lan.hang_up(call);
    }
    drop(calls);
    let after = settle(&mut lan);
    // A leg alone has more than 100 bytes.
    assert!(after < before + 100 * CALLS as usize, "{before} bytes before, {after} bytes after");
}
