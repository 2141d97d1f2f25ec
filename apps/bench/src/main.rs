//! `barebell-bench`: measures what any SIP server carries, and shows it.

#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod analysis;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod bare;
mod cli;
mod load;
mod measure;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod metrics;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "the commands will call it"))]
mod peer;
mod record;
#[cfg_attr(not(test), expect(dead_code, reason = "the commands will call it"))]
mod require;
mod users;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "no command measures yet"))]
mod watch;

use clap::Parser;

fn main() {
    let cli::Cli { command: cli::Command::Run(args) } = cli::Cli::parse();
    let target = args.load.target.clone().unwrap();
    let users = args.load.users.users().unwrap();
    let domain = args.load.users.domain.clone().unwrap_or(target.host.clone());
    let plan = args.load.generator(&target, &domain, &users, args.load.rate());
    let mut generator = load::generator::Generator::open(&plan).unwrap();
    let m = measure::run(
        &mut generator,
        &args.load.spec(args.load.rate()),
        users.len(),
        &measure::Limits::default(),
        None,
        &mut (),
    );
    match m {
        Ok(m) => {
            let mut run = m.run;
            run.series.clear();
            println!("{}", serde_json::to_string_pretty(&run.counts).unwrap());
            for (d, h) in &run.delays {
                println!(
                    "{:14} n={} p50={} p99={} max={}",
                    d.name(),
                    h.count(),
                    h.percentile(50.),
                    h.percentile(99.),
                    h.max()
                );
            }
            println!(
                "lag p50 {} p99 {} ; doubts {:?}",
                run.generator.lag.percentile(50.),
                run.generator.lag.percentile(99.),
                run.doubts
            );
            println!(
                "cpu us/op {:.2} user {:.2}",
                (run.generator.cpu_user_us + run.generator.cpu_system_us) as f64
                    / run.generator.operations as f64,
                run.generator.cpu_user_us as f64 / run.generator.operations as f64
            );
        }
        Err(e) => println!("{e}"),
    }
}
