use super::*;
use std::vec;

const LOCAL: ([u8; 4], u16) = ([192, 168, 0, 7], 4000);

fn servers() -> [SocketAddr; 2] {
    [([192, 0, 2, 1], 3478).into(), ([192, 0, 2, 2], 3478).into()]
}

/// Returns a source of bytes that differ in each call.
fn numbers() -> impl FnMut(&mut [u8]) {
    let mut state = 0_u8;
    move |bytes: &mut [u8]| {
        state += 1;
        bytes.fill(state);
    }
}

/// Lets servers answer until `end`, with the mapped address that `nat` returns for each. Returns
/// the queried servers and the times.
fn run(
    mapper: &mut Mapper,
    end: Duration,
    nat: impl Fn(SocketAddr) -> Option<SocketAddr>,
) -> Vec<(u64, SocketAddr)> {
    let (mut random, mut asked, mut out) = (numbers(), Vec::new(), Vec::new());
    while let Some(now) = mapper.next_timer().filter(|next| *next <= end) {
        while let Some(to) = mapper.poll(now, &mut random, &mut out) {
            asked.push((now.as_millis() as u64, to));
            let mut answer = Vec::new();
            if let Some(seen) = nat(to) {
                assert!(stun::respond_to_binding(seen, &out, &mut answer));
                assert!(!mapper.receive(now, LOCAL.into(), &answer), "from elsewhere");
                assert!(mapper.receive(now, to, &answer));
                assert!(!mapper.receive(now, to, &answer), "once");
            }
        }
    }
    asked
}

#[test]
fn servers_are_asked_every_thirty_seconds_until_the_call_stands() {
    let mut mapper = Mapper::new(&servers()[..1], Duration::ZERO);
    assert_eq!(mapper.mapped(), None);
    let seen: SocketAddr = ([198, 51, 100, 7], 40_000).into();
    let asked = run(&mut mapper, Duration::from_secs(70), |_| Some(seen));
    assert_eq!(asked, [0, 30_000, 60_000].map(|at| (at, servers()[0])));
    assert_eq!(mapper.mapped(), Some(seen));
    mapper.rest();
    assert_eq!((mapper.next_timer(), mapper.mapped()), (None, Some(seen)));
    mapper.resume(Duration::from_secs(100));
    let moved: SocketAddr = ([198, 51, 100, 7], 40_001).into();
    run(&mut mapper, Duration::from_secs(100), |_| Some(moved));
    assert_eq!(mapper.mapped(), Some(moved), "the last answer counts");
}

#[test]
fn a_server_that_is_silent_is_asked_as_rfc_8489_says_and_then_anew() {
    let mut mapper = Mapper::new(&servers()[..1], Duration::ZERO);
    let asked = run(&mut mapper, Duration::from_secs(40), |_| None);
    let times: Vec<u64> = asked.iter().map(|asked| asked.0).collect();
    assert_eq!(times[..8], [0, 500, 1500, 3500, 7500, 15_500, 31_500, 39_500]);
    assert_eq!(mapper.mapped(), None);
}

#[test]
fn two_servers_tell_what_a_nat_is_like() {
    let seen = |port| SocketAddr::from(([198, 51, 100, 7], port));
    let mapping = |nat: &dyn Fn(SocketAddr) -> Option<SocketAddr>, count: usize| {
        let mut mapper = Mapper::new(&servers()[..count], Duration::ZERO);
        run(&mut mapper, Duration::ZERO, nat);
        mapper.mapping(LOCAL.into())
    };
    assert_eq!(mapping(&|_| None, 2), Mapping::Unknown);
    assert_eq!(mapping(&|_| Some(seen(1)), 1), Mapping::Unknown);
    assert_eq!(mapping(&|_| Some(LOCAL.into()), 1), Mapping::Direct);
    assert_eq!(mapping(&|_| Some(LOCAL.into()), 2), Mapping::Direct);
    assert_eq!(mapping(&|_| Some(seen(1)), 2), Mapping::EndpointIndependent);
    let symmetric = |to: SocketAddr| {
        let last = if to == servers()[0] { 1 } else { 2 };
        Some(seen(last))
    };
    assert_eq!(mapping(&symmetric, 2), Mapping::EndpointDependent);
}

#[test]
fn no_more_servers_are_asked_than_four() {
    let many = vec![servers()[0]; 100];
    let mut mapper = Mapper::new(&many, Duration::ZERO);
    assert_eq!(run(&mut mapper, Duration::ZERO, |_| None).len(), 4);
    assert!(!mapper.receive(Duration::ZERO, servers()[0], &[0x80; 20]), "RTP is not ours");
}
