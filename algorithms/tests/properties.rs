//! Whatever a datapath reports, and whenever, every algorithm asks for finite positive rates and windows
//! of two packets at least, in registers that its program has, and none panics.

use anole_algorithms::{
    Algorithm, Build, BuildError, Commands, FlowInfo, Session, Slots, all, learned, rule_names,
};
use anole_model::{Dur, Time};
use anole_programs::{ALL, CWND, anole_cycle, ramp};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A report: program, values (mostly of the right number), nanoseconds since the one before.
type Step = (usize, Vec<u64>, u64);

/// Values as they come, and as hardly anybody would send them.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..100u64,
        4 => 0..10_000_000u64,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => Just(u64::from(u32::MAX)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let values = prop_oneof![
        6 => proptest::collection::vec(value(), 16),
        1 => proptest::collection::vec(value(), 0..20),
    ];
    let wait = prop_oneof![8 => 0..200_000_000u64, 1 => Just(0), 1 => any::<u64>()];
    (0..ALL.len(), values, wait)
}

fn check(commands: &Commands, mss: u32, last: &mut Option<u32>) -> Result<(), TestCaseError> {
    if commands.program().is_some_and(|p| p.name == anole_cycle::PROGRAM.name) {
        // The number of the cycle, without which its reports would be ignored.
        *last = commands.fields().iter().find(|(r, _)| *r == anole_cycle::control::CYCLE).map(|f| f.1);
        prop_assert!(last.is_some());
    }
    for (register, value) in commands.fields() {
        match register.name {
            "low" | "high" | "hold" | "Rate" => prop_assert!(*value > 0, "{} is 0", register.name),
            "hold_us" | "interval_us" => prop_assert!(*value >= 1000, "{} is {value}", register.name),
            _ if *register == CWND => prop_assert!(u64::from(*value) >= 2 * u64::from(mss), "cwnd {value}"),
            _ => {}
        }
    }
    Ok(())
}

fn run(algorithm: Box<dyn Algorithm>, mss: u32, steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut now, mut session, mut cycle) = (Time::ZERO, Session::new(algorithm), None);
    let first = session.start(now).unwrap().unwrap();
    prop_assert!(first.program().is_some());
    check(first, mss, &mut cycle)?;
    for (program, values, wait) in steps {
        now += Dur::from_nanos(*wait);
        let program = ALL[*program];
        let mut values = values.clone();
        if values.len() == 16 {
            values.truncate(program.reports.len());
            // Half of the cycle's reports belong to the cycle that is running.
            if let (Some(cycle), true) =
                (cycle, program.name == anole_cycle::PROGRAM.name && values[1] % 2 == 0)
            {
                values[0] = 4 * u64::from(cycle) + values[0] % 4;
            }
        }
        if let Some(commands) = session.on_report(now, program, &values).unwrap() {
            check(commands, mss, &mut cycle)?;
        }
        prop_assert!(session.metrics().telemetry.inferences as usize <= steps.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_sequence_of_reports_breaks_an_algorithm(
        name in proptest::sample::select(all().iter().map(|spec| spec.name).collect::<Vec<_>>()),
        classic in proptest::sample::select(rule_names()),
        policy in proptest::sample::select(learned::names()),
        mss in prop_oneof![Just(1448u32), 1..65_536u32],
        init_cwnd in prop_oneof![Just(14_480u32), any::<u32>()],
        seed in any::<u64>(),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let all = Slots { classic: Some(classic.to_string()), policy: Some(policy.to_string()) };
        let Slots { classic, policy } = all.of(name);
        let what = Build {
            flow: FlowInfo { mss, init_cwnd },
            classic,
            policy,
            policies: std::sync::Arc::new(anole_algorithms::learned::Shipped),
            params: BTreeMap::new(),
            seed,
        };
        match anole_algorithms::build(name, &what) {
            Ok(algorithm) => run(algorithm, mss, &steps)?,
            // An algorithm that a trained policy drives has no use for a rule that proposes rates.
            Err(error) => {
                let learned = anole_algorithms::find(name).unwrap().kind == "learned";
                prop_assert!(learned && matches!(error, BuildError::Policy(_)), "{name}: {error}");
            }
        }
    }

    /// Straight into the cycle, where most of Anole's states are: a ramp that ended comes first.
    #[test]
    fn no_sequence_of_windows_breaks_anole(
        policy in proptest::sample::select(learned::names()),
        seed in any::<u64>(),
        windows in proptest::collection::vec((proptest::collection::vec(value(), 16), 0..200_000_000u64), 1..80),
    ) {
        let index = |name: &str| ALL.iter().position(|p| p.name == name).unwrap();
        let ended = vec![100_000, 0, 0, 50_000, 50_000, 50_000, 1, 100_000, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut steps = vec![(index(ramp::PROGRAM.name), ended, 50_000_000)];
        let cycle = index(anole_cycle::PROGRAM.name);
        steps.extend(windows.into_iter().map(|(mut values, wait)| {
            values[1] &= !1;
            (cycle, values, wait)
        }));
        let what = Build {
            flow: FlowInfo { mss: 1448, init_cwnd: 14_480 },
            classic: None,
            policy: Some(policy.to_string()),
            policies: std::sync::Arc::new(anole_algorithms::learned::Shipped),
            params: BTreeMap::new(),
            seed,
        };
        run(anole_algorithms::build("anole", &what).unwrap(), 1448, &steps)?;
    }
}
