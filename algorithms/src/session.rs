//! One flow's algorithm in service: (program, registers, time) in, commands out.
//!
//! Whoever carries the messages (the agent, the simulator, a test) tells a session of the flow's start and of
//! its reports, and sends what it is handed. A session knows the program that runs, checks what goes in and out,
//! counts, and keeps the rule that every report is answered: a datapath takes an agent that is silent for 500 ms
//! for lost, so an algorithm without anything to say is spoken for by an empty message.

use crate::{Algorithm, Commands, Explanation, Judgement, Metrics, Preference, Program, Report};
use anole_model::{Dur, Time};

/// A report may go without an answer while the last one is younger than this: a fifth of the datapath's default
/// patience.
pub const HEARTBEAT: Dur = Dur::from_millis(100);

/// What an algorithm must not command. The flow cannot go on with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Registers, before there is a program.
    #[error("registers are set before a program runs")]
    NoProgram,
    /// A register that the program that runs does not have.
    #[error("program {program} has no register {register}")]
    NoRegister {
        /// The program.
        program: &'static str,
        /// The register.
        register: &'static str,
    },
}

/// What goes to the datapath: commands, which are empty when they only tell that the agent is there, or nothing.
pub type Reply<'a> = Result<Option<&'a Commands>, SessionError>;

/// An algorithm and what is known of its flow.
pub struct Session {
    algorithm: Box<dyn Algorithm>,
    /// The program that runs, as commanded.
    program: Option<&'static Program>,
    commands: Commands,
    answered_at: Time,
    metrics: Metrics,
}

impl Session {
    /// A session that has not begun.
    pub fn new(algorithm: Box<dyn Algorithm>) -> Session {
        Session {
            algorithm,
            program: None,
            commands: Commands::default(),
            answered_at: Time::ZERO,
            metrics: Metrics::default(),
        }
    }

    /// The flow begins, or is adopted.
    pub fn start(&mut self, now: Time) -> Reply<'_> {
        self.commands.clear();
        self.answered_at = now;
        self.algorithm.start(now, &mut self.commands);
        self.answer(now)
    }

    /// `program` has reported these registers, in wire order. A report with another number of registers than
    /// the program's is none.
    pub fn on_report(&mut self, now: Time, program: &'static Program, values: &[u64]) -> Reply<'_> {
        if values.len() != program.reports.len() {
            return Ok(None);
        }
        self.metrics.reports += 1;
        self.commands.clear();
        self.algorithm.on_report(now, &Report { program, values }, &mut self.commands);
        self.answer(now)
    }

    fn answer(&mut self, now: Time) -> Reply<'_> {
        // Noted here, so that they can be read of a session whose algorithm has panicked later.
        self.metrics.telemetry = self.algorithm.telemetry();
        if self.commands.is_empty() {
            if now.since(self.answered_at) < HEARTBEAT {
                return Ok(None);
            }
        } else {
            self.program = self.commands.program().or(self.program);
            self.check()?;
            self.metrics.updates += 1;
        }
        self.answered_at = now;
        Ok(Some(&self.commands))
    }

    /// Every register that is set belongs to the program that runs.
    fn check(&self) -> Result<(), SessionError> {
        let program = self.program.ok_or(SessionError::NoProgram)?;
        match self.commands.fields().iter().find(|(register, _)| !program.takes(*register)) {
            Some((register, _)) => {
                Err(SessionError::NoRegister { program: program.name, register: register.name })
            }
            None => Ok(()),
        }
    }

    /// What the application prefers from now on. False where that means nothing to the algorithm.
    pub fn prefer(&mut self, preference: Preference) -> bool {
        self.algorithm.prefer(preference)
    }

    /// Why the flow does since the last report what it does; see [`Algorithm::explain`]. Told once.
    pub fn explain(&mut self) -> Option<Explanation> {
        self.algorithm.explain()
    }

    /// The data unit that the last report completed; see [`Algorithm::judgement`]. Told once.
    pub fn judgement(&mut self) -> Option<Judgement> {
        self.algorithm.judgement()
    }

    /// What it did so far, as of the last report.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Applied, Telemetry};
    use anole_programs::{CWND, ramp, rate_hold, reno};

    /// Does at its start and at each report what it was told to.
    struct Scripted<F>(F, u64);

    impl<F: FnMut(u64, &mut Commands) + Send> Algorithm for Scripted<F> {
        fn start(&mut self, _: Time, out: &mut Commands) {
            (self.0)(0, out);
        }
        fn on_report(&mut self, _: Time, _: &Report<'_>, out: &mut Commands) {
            self.1 += 1;
            (self.0)(self.1, out);
        }
        fn telemetry(&self) -> Telemetry {
            Telemetry { applied: Applied::default(), decisions: self.1, inferences: 0 }
        }
    }

    fn session(act: impl FnMut(u64, &mut Commands) + Send + 'static) -> Session {
        Session::new(Box::new(Scripted(act, 0)))
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    fn report(session: &mut Session, ms: u64) -> Reply<'_> {
        session.on_report(at(ms), &rate_hold::PROGRAM, &[0; rate_hold::PROGRAM.reports.len()])
    }

    #[test]
    fn commands_go_out_at_once() {
        let mut session = session(|n, out| {
            if n == 0 {
                out.run(&rate_hold::PROGRAM);
            }
            out.cwnd(1000 + n as u32);
        });
        let first = session.start(at(0)).unwrap().unwrap();
        assert_eq!(first.program().map(|program| program.name), Some("rate-hold"));
        let second = report(&mut session, 1).unwrap().unwrap();
        assert_eq!((second.program().is_none(), second.fields()), (true, &[(CWND, 1001)][..]));
        let metrics = session.metrics();
        assert_eq!((metrics.reports, metrics.updates, metrics.telemetry.decisions), (1, 2, 1));
    }

    #[test]
    fn an_algorithm_that_says_nothing_is_spoken_for_every_hundred_milliseconds() {
        let mut session = session(|n, out| {
            if n == 0 {
                out.run(&rate_hold::PROGRAM);
            }
        });
        session.start(at(1000)).unwrap();
        let answered: Vec<u64> = (1..=35)
            .map(|n| 1000 + 10 * n)
            .filter(|&ms| report(&mut session, ms).unwrap().is_some_and(|commands| commands.is_empty()))
            .collect();
        assert_eq!(answered, [1100, 1200, 1300]);
        assert_eq!((session.metrics().reports, session.metrics().updates), (35, 1));
    }

    #[test]
    fn a_report_of_the_wrong_size_is_none() {
        let mut session = session(|_, out| {
            out.run(&rate_hold::PROGRAM);
        });
        session.start(at(0)).unwrap();
        assert!(session.on_report(at(500), &rate_hold::PROGRAM, &[1]).unwrap().is_none());
        assert_eq!((session.metrics().reports, session.metrics().telemetry.decisions), (0, 0));
    }

    #[test]
    fn registers_belong_to_the_program_that_runs() {
        let mut hasty = session(|_, out| {
            out.cwnd(1);
        });
        assert_eq!(hasty.start(at(0)).unwrap_err(), SessionError::NoProgram);
        let mut confused = session(|n, out| match n {
            0 => drop(out.run(&rate_hold::PROGRAM).set(rate_hold::control::INTERVAL_US, 1)),
            1 => drop(out.run(&ramp::PROGRAM).cwnd(1)),
            _ => drop(out.set(reno::control::SSTHRESH, 1)),
        });
        confused.start(at(0)).unwrap();
        report(&mut confused, 1).unwrap();
        let error = report(&mut confused, 2).unwrap_err();
        assert_eq!(error.to_string(), "program ramp has no register ssthresh");
    }
}
