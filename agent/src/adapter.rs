//! portus on one side, the pure algorithms on the other.
//!
//! portus chooses an algorithm by a name that is fixed per type, and does not tell the algorithm what
//! the datapath asked for. So there is one type for all algorithms, and the endpoint below portus
//! leaves the name where the next flow finds it.
//!
//! An algorithm that panics loses its flow and nothing else: the flow stays unanswered, and its
//! datapath's native controller takes it.

use crate::flow_key::FlowKey;
use crate::logging::{Tally, panic_text};
use crate::plan::Plan;
use crate::shared::{Clock, Shared};
use crate::stats::{FlowLine, Shares, Stats, seconds};
use anole_algorithms::{Algorithm, Commands, FlowInfo, Program, Report};
use anole_datapath::wire::AlgorithmName;
use anole_model::{Bounds, Time};
use portus::DatapathTrait;
use portus::ipc::Ipc;
use portus::lang::Scope;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// All algorithms, as one for portus.
#[derive(Clone)]
pub struct Adapter(Rc<Context>);

struct Context {
    plan: Plan,
    clock: Clock,
    shared: Shared,
    stats: Rc<RefCell<Stats>>,
    /// Programs that run or ran somewhere, by the id that portus gave them.
    scopes: RefCell<HashMap<u32, (&'static Program, Scope)>>,
    tally: RefCell<Tally>,
    /// Flows so far.
    number: Cell<u64>,
}

impl Adapter {
    /// Runs `plan`.
    pub fn new(plan: Plan, clock: Clock, shared: Shared, stats: Rc<RefCell<Stats>>) -> Adapter {
        Adapter(Rc::new(Context {
            plan,
            clock,
            shared,
            stats,
            scopes: RefCell::default(),
            tally: RefCell::default(),
            number: Cell::new(0),
        }))
    }
}

impl<I: Ipc> portus::CongAlg<I> for Adapter {
    type Flow = AgentFlow<I>;

    fn name() -> &'static str {
        "anole-ccp"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        let programs = self.0.plan.programs();
        programs.into_iter().map(|program| (program.name, program.source.to_string())).collect()
    }

    fn new_flow(&self, control: portus::Datapath<I>, info: portus::DatapathInfo) -> AgentFlow<I> {
        let context = Rc::clone(&self.0);
        let now = context.clock.now();
        let (key, asked) = context.shared.take_asked().unwrap_or((FlowKey::default(), AlgorithmName::NONE));
        let mut flow = AgentFlow {
            key,
            algorithm: None,
            control,
            running: None,
            commands: Commands::default(),
            values: Vec::new(),
            line: FlowLine {
                algorithm: "",
                flow: info.sock_id,
                src_port: info.src_port,
                dst_port: info.dst_port,
                start_s: seconds(now),
                end_s: seconds(now),
                end: "dropped",
                reports: 0,
                updates: 0,
                decisions: 0,
                inferences: 0,
                applied: None,
            },
            context,
        };
        // A datapath announces a flow again while it gets no answer; its algorithm has failed before.
        if !flow.context.shared.has_failed(key) {
            flow.start(now, &info, asked.as_str());
        }
        flow
    }
}

/// One flow of portus.
pub struct AgentFlow<I: Ipc> {
    context: Rc<Context>,
    key: FlowKey,
    /// `None` once it has failed.
    algorithm: Option<Box<dyn Algorithm>>,
    control: portus::Datapath<I>,
    /// Registers of the program that runs now.
    running: Option<Scope>,
    commands: Commands,
    values: Vec<u64>,
    line: FlowLine,
}

impl<I: Ipc> AgentFlow<I> {
    fn start(&mut self, now: Time, info: &portus::DatapathInfo, asked: &str) {
        let context = Rc::clone(&self.context);
        let spec = context.plan.choose(asked).unwrap_or_else(|(stand_in, error)| {
            if let Some(due) = context.tally.borrow_mut().count(now, "unknown algorithm asked for") {
                tracing::warn!(%error, using = stand_in.name, total = due.total, "flow asks for what is not there");
            }
            stand_in
        });
        self.line.algorithm = spec.name;
        let number = context.number.get();
        context.number.set(number + 1);
        let init_cwnd = Bounds::DEFAULT.cwnd(info.init_cwnd.into(), info.mss);
        let flow = FlowInfo { mss: info.mss, init_cwnd };
        match catch_unwind(AssertUnwindSafe(|| context.plan.build(spec, flow, number))) {
            Ok(Ok(algorithm)) => self.algorithm = Some(algorithm),
            Ok(Err(error)) => return self.fail(&error.to_string()),
            Err(panic) => return self.fail(panic_text(&*panic)),
        }
        tracing::debug!(flow = info.sock_id, algorithm = spec.name, mss = info.mss, init_cwnd, "flow starts");
        self.run(|algorithm, _, commands| algorithm.start(now, commands));
    }

    /// Lets the algorithm act and sends what it commands.
    fn run(&mut self, act: impl FnOnce(&mut dyn Algorithm, &[u64], &mut Commands)) {
        let Some(algorithm) = self.algorithm.as_deref_mut() else { return };
        self.commands.clear();
        let (values, commands) = (&self.values, &mut self.commands);
        match catch_unwind(AssertUnwindSafe(|| act(algorithm, values, commands))) {
            Ok(()) => self.send(),
            Err(panic) => self.fail(panic_text(&*panic)),
        }
    }

    fn send(&mut self) {
        if self.commands.is_empty() {
            return;
        }
        let fields: Vec<(&str, u32)> =
            self.commands.fields().iter().map(|(register, value)| (register.name, *value)).collect();
        let sent = match (self.commands.program(), &self.running) {
            (Some(program), _) => self.control.set_program(program.name, Some(&fields)).map(|scope| {
                let mut scopes = self.context.scopes.borrow_mut();
                scopes.entry(scope.program_uid).or_insert_with(|| (program, scope.clone()));
                self.running = Some(scope);
            }),
            (None, Some(scope)) => self.control.update_field(scope, &fields),
            (None, None) => Err(portus::Error("registers are set before a program runs".to_string())),
        };
        match sent {
            Ok(()) => self.line.updates += 1,
            Err(error) => self.fail(&error.0),
        }
    }

    /// Gives the flow up.
    fn fail(&mut self, reason: &str) {
        let (flow, algorithm) = (self.line.flow, self.line.algorithm);
        tracing::error!(
            flow,
            algorithm,
            reason,
            "the algorithm failed; the datapath's own controller takes the flow"
        );
        self.context.shared.fail(self.key);
        self.line.end = "failed";
        let failed = self.algorithm.take();
        // What is broken may panic again when it is dropped; the flow is lost either way.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(failed)));
    }
}

impl<I: Ipc> portus::Flow for AgentFlow<I> {
    fn on_report(&mut self, _sid: u32, report: portus::Report) {
        let context = Rc::clone(&self.context);
        let scopes = context.scopes.borrow();
        // A program that no flow was ever told to run reports only for a datapath that errs.
        let Some((program, scope)) = scopes.get(&report.program_uid) else { return };
        self.values.clear();
        self.values.extend(program.reports.iter().map_while(|name| report.get_field(name, scope).ok()));
        if self.values.len() != program.reports.len() {
            return;
        }
        let program = *program;
        drop(scopes);
        self.line.reports += 1;
        let now = context.clock.now();
        self.run(|algorithm, values, commands| {
            algorithm.on_report(now, &Report { program, values }, commands)
        });
    }

    fn close(&mut self) {
        if self.algorithm.is_some() {
            self.line.end = "closed";
        }
        self.context.shared.forget(self.key);
    }
}

impl<I: Ipc> Drop for AgentFlow<I> {
    fn drop(&mut self) {
        // A flow that had failed before it was announced again never ran.
        if self.line.algorithm.is_empty() {
            return;
        }
        let told = self
            .algorithm
            .as_deref()
            .map(|algorithm| catch_unwind(AssertUnwindSafe(|| algorithm.telemetry())));
        let telemetry = told.and_then(Result::ok).unwrap_or_default();
        self.line.end_s = seconds(self.context.clock.now());
        self.line.decisions = telemetry.decisions;
        self.line.inferences = telemetry.inferences;
        self.line.applied = Shares::of(&telemetry);
        self.context.stats.borrow_mut().write(&self.line);
        let line = &self.line;
        tracing::debug!(
            flow = line.flow,
            algorithm = line.algorithm,
            end = line.end,
            reports = line.reports,
            "flow ends"
        );
    }
}
