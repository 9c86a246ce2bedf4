//! portus on one side, sessions of the pure algorithms on the other.
//!
//! portus compiles and installs the programs, keeps the flows and hands each its reports. It chooses an
//! algorithm by a name that is fixed per type, and does not tell the algorithm what the datapath asked for; it
//! tells the registers of a report one by one, by name, and takes commands by name as well. So there is one type
//! for all algorithms, and the endpoint below portus leaves the name and the registers where the flow finds
//! them, and takes the answers there.
//!
//! An algorithm that panics loses its flow and nothing else: the flow stays unanswered, and its
//! datapath's native controller takes it.

use crate::flow_key::FlowKey;
use crate::flow_table;
use crate::logging::{FlowNews, Tally, panic_text};
use crate::plan::{self, Plan};
use crate::records::{Records, Served};
use crate::shared::{AgentClock, Shared};
use crate::stats::{FlowLine, seconds};
use anole_algorithms::session::{Reply, Session};
use anole_algorithms::{FlowInfo, Preference};
use anole_datapath::wire::{AlgorithmName, CreateMessage};
use anole_model::{Bounds, Time};
use portus::ipc::Ipc;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// All algorithms, as one for portus.
#[derive(Clone)]
pub struct Adapter(Rc<Context>);

struct Context {
    plan: Plan,
    clock: AgentClock,
    shared: Shared,
    records: Rc<RefCell<Records>>,
    tally: RefCell<Tally>,
    news: RefCell<FlowNews>,
    /// Flows so far.
    number: Cell<u64>,
}

impl Adapter {
    /// Runs `plan`.
    pub fn new(plan: Plan, clock: AgentClock, shared: Shared, records: Rc<RefCell<Records>>) -> Adapter {
        Adapter(Rc::new(Context {
            plan,
            clock,
            shared,
            records,
            tally: RefCell::default(),
            news: RefCell::default(),
            number: Cell::new(0),
        }))
    }
}

impl<I: Ipc> portus::CongAlg<I> for Adapter {
    type Flow = AgentFlow;

    fn name() -> &'static str {
        "anole-ccp"
    }

    fn datapath_programs(&self) -> HashMap<&'static str, String> {
        let programs = self.0.plan.programs();
        programs.into_iter().map(|program| (program.name, program.source.to_string())).collect()
    }

    fn new_flow(&self, _control: portus::Datapath<I>, info: portus::DatapathInfo) -> AgentFlow {
        let context = Rc::clone(&self.0);
        let now = context.clock.now();
        let nobody = CreateMessage::without_addresses(info.init_cwnd, info.mss, AlgorithmName::NONE);
        let (key, create) = context.shared.take_asked().unwrap_or((FlowKey::default(), nobody));
        let line = FlowLine::new(info.sock_id, (info.src_port, info.dst_port), now);
        let mut flow = AgentFlow {
            context,
            key,
            session: None,
            preference: Preference::Default,
            line,
            number: 0,
            peer: None,
            served: Served::default(),
        };
        // A datapath announces a flow again while it gets no answer; its algorithm has failed before.
        if !flow.context.shared.has_failed(key) {
            flow.start(now, &create);
        }
        flow
    }
}

/// One flow of portus.
pub struct AgentFlow {
    context: Rc<Context>,
    key: FlowKey,
    /// `None` once it has failed.
    session: Option<Session>,
    /// What the session knows of its application.
    preference: Preference,
    line: FlowLine,
    /// Flows of the agent before it.
    number: u64,
    /// Its peer, where the datapath has told.
    peer: Option<Ipv4Addr>,
    served: Served,
}

impl AgentFlow {
    fn start(&mut self, now: Time, create: &CreateMessage) {
        let context = Rc::clone(&self.context);
        let (asked, preference) = plan::asked(create.algorithm.as_str());
        let spec = context.plan.choose(asked).unwrap_or_else(|(stand_in, error)| {
            if let Some(due) = context.tally.borrow_mut().count(now, "algorithm asked for is not there") {
                tracing::warn!(asked, %error, using = stand_in.name, total = due.total, "flow asks for what is not there");
            }
            stand_in
        });
        self.line.algorithm = spec.name;
        self.log_choice(now, asked);
        let number = context.number.get();
        context.number.set(number + 1);
        (self.number, self.served) = (number, Served::default());
        self.peer = Some(create.dst_ip).filter(|&ip| ip != 0).map(Ipv4Addr::from_bits);
        let init_cwnd = Bounds::DEFAULT.cwnd(create.init_cwnd.into(), create.mss);
        let flow = FlowInfo { mss: create.mss, init_cwnd };
        let first = self.peer.and_then(|peer| context.records.borrow().priors.first(peer));
        let again = context.shared.begin(now, self.key, spec.name, create.clone());
        context.news.borrow_mut().begins(now, &self.line, flow_table::peer(create), again);
        match catch_unwind(AssertUnwindSafe(|| context.plan.build(spec, flow, number, first))) {
            Ok(Ok(algorithm)) => self.session = Some(Session::new(algorithm)),
            Ok(Err(error)) => return self.fail(&error.to_string()),
            Err(panic) => return self.fail(panic_text(&*panic)),
        }
        // What was told since its beginning holds also where its datapath announces it again.
        let preference = context.shared.preference(self.key).unwrap_or(preference);
        self.preference = preference;
        let (shared, key) = (self.context.shared.clone(), self.key);
        self.answer(|session| {
            if !session.prefer(preference) {
                shared.prefers_nothing(key);
            }
            session.start(now)
        });
    }

    /// Tells of a flow that asks for another algorithm than --alg, and which of the two runs.
    fn log_choice(&self, now: Time, asked: &str) {
        let (taken, default) = (self.line.algorithm, self.context.plan.default_name());
        if asked.is_empty() || asked == default {
            return;
        }
        let (kind, why) = if taken == asked {
            ("flow's own algorithm taken", "it asks for another than --alg; --force-alg would override it")
        } else if self.context.plan.is_forced() {
            ("flow's own algorithm overridden", "--force-alg")
        } else {
            // It asks for what is not there, and has had its line.
            return;
        };
        if let Some(due) = self.context.tally.borrow_mut().count(now, kind) {
            tracing::info!(asked, taken, why, total = due.total, "{kind}");
        }
    }

    /// Lets the session act and posts its answer.
    fn answer(&mut self, act: impl for<'a> FnOnce(&'a mut Session) -> Reply<'a>) {
        let Some(session) = &mut self.session else { return };
        let posted = match catch_unwind(AssertUnwindSafe(|| act(session))) {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(commands))) => self.context.shared.answer(self.key, commands),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(panic_text(&*panic).to_string()),
        };
        if let Err(reason) = posted {
            self.fail(&reason);
        }
    }

    /// Writes down a data unit of Antelope, if the report has completed one.
    fn note_unit(&mut self) {
        let Some(unit) = self.session.as_mut().and_then(Session::judgement) else { return };
        self.served.note(&unit);
        self.context.records.borrow_mut().unit(self.number, &unit);
    }

    /// Which law of Antelope governed it longest, for later flows to this address.
    fn note_prior(&self) {
        if let (Some(peer), Some(arm)) = (self.peer, self.served.longest()) {
            self.context.records.borrow().served(peer, arm);
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
        let failed = self.session.take();
        if let Some(session) = &failed {
            self.line.note(session.metrics());
        }
        // What is broken may panic again when it is dropped; the flow is lost either way.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(failed)));
    }
}

impl portus::Flow for AgentFlow {
    fn on_report(&mut self, _sid: u32, report: portus::Report) {
        // A program that is not installed reports only for a datapath that errs.
        let now = self.context.clock.now();
        let Some((program, values)) = self.context.shared.take_report(now, self.key, report.program_uid)
        else {
            return;
        };
        let told = self.context.shared.preference(self.key).filter(|told| *told != self.preference);
        self.preference = told.unwrap_or(self.preference);
        self.answer(|session| {
            if let Some(preference) = told {
                session.prefer(preference);
            }
            session.on_report(now, program, &values)
        });
        self.note_unit();
    }

    fn close(&mut self) {
        if self.session.is_some() {
            self.line.end = "closed";
        }
        // One that was announced again, or fell silent, may go on, and counts once.
        if self.context.shared.forget(self.key) {
            self.note_prior();
        }
    }
}

impl Drop for AgentFlow {
    fn drop(&mut self) {
        // A flow that had failed before it was announced again never ran.
        if self.line.algorithm.is_empty() {
            return;
        }
        if let Some(session) = &self.session {
            self.line.note(session.metrics());
        }
        let now = self.context.clock.now();
        self.line.end_s = seconds(now);
        self.context.records.borrow_mut().flow(&self.line);
        self.context.news.borrow_mut().ends(now, &self.line);
    }
}
