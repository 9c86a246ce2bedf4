//! The policy server's side of flows: what they see of a server that answers, does not, or talks nonsense.
#![allow(clippy::disallowed_methods, reason = "the tests run in real time on real sockets")]

mod support;

use anole_inference::{Backend, BackendSettings, Loader, Serving};
use anole_model::{Dur, Time};
use anole_policies::{InferenceSession, Policies, Policy};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{FakeServer, Manner};

/// Widths of the shipped schema of that name.
fn widths(name: &str) -> [u32; 3] {
    let schema = anole_policies::schema::builtin(name).unwrap();
    [schema.inputs(), schema.outputs(), schema.state()].map(|width| width as u32)
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("policy.sock")
    }

    fn server(&self, manner: Manner) -> FakeServer {
        FakeServer::start(&self.socket(), widths("spine"), manner)
    }
}

fn loader(socket: &Path, serving: Serving) -> Loader {
    let settings = BackendSettings {
        backend: Some(Backend::Server),
        policy_server: Some(socket.to_path_buf()),
        ..BackendSettings::default()
    };
    Loader::new(settings, serving).unwrap()
}

/// A flow's clock and its policy.
struct Flow {
    started: Instant,
    session: Box<dyn InferenceSession>,
    input: Vec<f32>,
}

impl Flow {
    fn new(model: &Arc<dyn Policy>) -> Flow {
        let input = vec![0.5; model.schema().inputs()];
        Flow { started: Instant::now(), session: model.session(), input }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// Asks and polls until the deadline. Neither waits for an answer; that shows where the server never gives one.
    fn decide(&mut self, within: Duration) -> Option<Vec<f32>> {
        let asked = self.now();
        let deadline = asked + Dur::from_nanos(within.as_nanos() as u64);
        let timed = Instant::now();
        self.session.ask(asked, deadline, &self.input);
        assert!(timed.elapsed() < NO_WAIT, "asking took {:?}", timed.elapsed());
        while self.now() < deadline {
            let (now, timed) = (self.now(), Instant::now());
            let answer = self.session.poll(now).map(<[f32]>::to_vec);
            assert!(timed.elapsed() < NO_WAIT, "polling took {:?}", timed.elapsed());
            if answer.is_some() {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Asks every 20 ms until there is an answer, for a few seconds.
    fn recovers(&mut self) -> bool {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(6) {
            if self.decide(Duration::from_millis(20)).is_some() {
                return true;
            }
        }
        false
    }
}

const PATIENT: Duration = Duration::from_secs(60);
/// Less than any answer takes that a slow server gives.
const NO_WAIT: Duration = Duration::from_millis(250);

#[test]
fn answers_come_and_the_state_moves_with_those_that_were_taken() {
    let place = Place::new();
    let server = place.server(Manner::Good);
    let loader = loader(&place.socket(), Serving::Threaded);
    let model = loader.find("spine").unwrap();
    let mut flow = Flow::new(&model);
    for _ in 0..3 {
        assert_eq!(flow.decide(PATIENT).unwrap(), [0.25; 5]);
    }
    assert_eq!(loader.in_use(), Some(Backend::Server));
    assert_eq!(server.steps(), 3);
    // One more flow on the same connection.
    assert!(Flow::new(&model).decide(PATIENT).is_some());
    assert_eq!(server.opens(), 2, "once at the start, once on the connection of the flows");
}

#[test]
fn a_server_that_answers_keeps_its_connection() {
    let place = Place::new();
    let server = place.server(Manner::Good);
    let model = loader(&place.socket(), Serving::Threaded).find("spine").unwrap();
    let mut flow = Flow::new(&model);
    let started = Instant::now();
    // A server that says nothing is left after 2 s; this one does.
    while started.elapsed() < Duration::from_millis(2600) {
        assert!(flow.decide(PATIENT).is_some());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.opens(), 2, "once at the start, once on the connection of the flows");
}

#[test]
fn a_server_that_dies_and_comes_back_costs_answers_alone() {
    let place = Place::new();
    let server = place.server(Manner::Good);
    let model = loader(&place.socket(), Serving::Threaded).find("spine").unwrap();
    let mut flow = Flow::new(&model);
    assert!(flow.decide(PATIENT).is_some());
    drop(server);
    for _ in 0..20 {
        assert_eq!(flow.decide(Duration::from_millis(10)), None);
    }
    let _server = place.server(Manner::Good);
    assert!(flow.recovers());
}

#[test]
fn trouble_is_an_absent_answer_and_no_more() {
    let all = [Manner::Slow, Manner::Garbage, Manner::Short, Manner::Overloaded, Manner::Gone, Manner::Deaf];
    for manner in all {
        let place = Place::new();
        let server = place.server(Manner::Good);
        let model = loader(&place.socket(), Serving::Threaded).find("spine").unwrap();
        let mut flow = Flow::new(&model);
        assert!(flow.decide(PATIENT).is_some());
        server.set(manner);
        for _ in 0..5 {
            assert_eq!(flow.decide(Duration::from_millis(20)), None, "{manner:?}");
        }
        server.set(Manner::Good);
        assert!(flow.recovers(), "{manner:?}");
    }
}

#[test]
fn a_server_that_hangs_is_left_for_one_that_took_its_place() {
    let place = Place::new();
    let hung = place.server(Manner::Good);
    let model = loader(&place.socket(), Serving::Threaded).find("spine").unwrap();
    let mut flow = Flow::new(&model);
    assert!(flow.decide(PATIENT).is_some());
    hung.set(Manner::Deaf);
    let other = place.server(Manner::Good);
    assert!(flow.recovers());
    assert!(other.steps() > 0);
}

#[test]
fn a_full_server_is_asked_less_and_less_often() {
    let place = Place::new();
    let server = place.server(Manner::Good);
    let model = loader(&place.socket(), Serving::Threaded).find("spine").unwrap();
    let mut flow = Flow::new(&model);
    server.set(Manner::Full);
    let (before, started) = (server.connections(), Instant::now());
    while started.elapsed() < Duration::from_secs(3) {
        assert_eq!(flow.decide(Duration::from_millis(20)), None);
    }
    // At 0, 0.1, 0.3, 0.7 and 1.5 s; a slow host makes them fewer.
    let tried = server.connections() - before;
    assert!((2..=6).contains(&tried), "{tried} connections in 3 s");
    server.set(Manner::Good);
    assert!(flow.recovers());
}

#[test]
fn outputs_that_are_no_numbers_are_handed_on() {
    let place = Place::new();
    let _server = place.server(Manner::Nan);
    let model = loader(&place.socket(), Serving::Threaded).find("spine").unwrap();
    assert!(Flow::new(&model).decide(PATIENT).unwrap().iter().all(|output| output.is_nan()));
}

#[test]
fn a_simulation_waits_for_answers_and_learns_of_failures() {
    let place = Place::new();
    let server = place.server(Manner::Good);
    let loader = loader(&place.socket(), Serving::Immediate);
    let mut session = loader.find("spine").unwrap().session();
    let input = vec![0.5; widths("spine")[0] as usize];
    session.ask(Time::ZERO, Time::ZERO, &input);
    assert_eq!(session.poll(Time::ZERO).unwrap(), [0.25; 5]);
    assert_eq!(loader.failure(), None);
    drop(server);
    session.ask(Time::ZERO, Time::ZERO, &input);
    assert_eq!(session.poll(Time::ZERO), None);
    let failure = loader.failure().unwrap();
    assert!(failure.contains("spine") && failure.contains("policy.sock"), "{failure}");
}

#[test]
fn a_server_that_does_not_answer_is_waited_for_once_and_a_refused_model_is_one_model() {
    let place = Place::new();
    let refused = |loader: &Loader, name: &str| loader.find(name).err().unwrap().to_string();
    let absent = loader(&place.socket(), Serving::Threaded);
    let error = refused(&absent, "spine");
    let _server = FakeServer::start(&place.socket(), widths("orca"), Manner::Good);
    assert_eq!(refused(&absent, "orca"), error);
    let present = loader(&place.socket(), Serving::Threaded);
    assert!(refused(&present, "spine").contains("model spine: has "));
    assert!(present.find("orca").is_ok());
}

#[test]
fn what_cannot_be_served_is_refused_at_the_start() {
    let place = Place::new();
    let refused = |loader: Loader| loader.find("spine").err().unwrap().to_string();
    let error = refused(loader(&place.socket(), Serving::Threaded));
    assert!(
        error.contains("--policy-server") && error.contains("is anole-policy-server running?"),
        "{error}"
    );
    let _server = FakeServer::start(&place.socket(), [3, 1, 0], Manner::Good);
    let error = refused(loader(&place.socket(), Serving::Threaded));
    assert!(error.contains("spine") && error.contains("3 inputs"), "{error}");
    for (settings, flag) in [
        (BackendSettings { backend: Some(Backend::Server), ..BackendSettings::default() }, "--policy-server"),
        (
            BackendSettings { policy_server: Some(place.socket()), ..BackendSettings::default() },
            "--backend server",
        ),
        (
            BackendSettings { torch_library: Some(place.socket()), ..BackendSettings::default() },
            "--backend torch",
        ),
    ] {
        let error = Loader::new(settings, Serving::Threaded).err().unwrap().to_string();
        assert!(error.contains(flag), "{error}");
    }
}
