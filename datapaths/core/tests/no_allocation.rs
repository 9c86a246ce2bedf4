//! No ACK allocates: not one that runs a program, reports or aborts, not one of the fallback, not one on
//! which the flow is announced again.

use anole_datapath::wire::{AlgorithmName, CreateMessage, FieldUpdate, Install};
use anole_datapath::{
    AckSample, Flow, FlowConfig, FlowMessage, FlowStats, Governor, Outbox, RegisterKind, SendError,
    ValidProgram,
};
use anole_model::{Bounds, Dur, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Sink;

impl Outbox for Sink {
    fn send(&mut self, _message: &[u8]) -> Result<(), SendError> {
        Ok(())
    }
}

/// Report.acked grows by the bytes acknowledged; the bytes in flight divide, so that an ACK without any
/// aborts;
/// every other ACK reports.
fn program() -> Arc<ValidProgram> {
    let expression: Vec<u8> = [1u32, 1, 2, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
    let instructions: Vec<u8> = [
        [2u8, 5, 0, 5, 0, 1, 0],
        [1, 2, 0, 2, 0, 1, 1],
        [0, 5, 0, 5, 0, 4, 0],
        [3, 7, 0, 1, 9, 4, 8],
        [1, 2, 2, 2, 2, 1, 1],
    ]
    .iter()
    .flat_map(|[op, rk, ri, lk, li, yk, yi]| [*op, *rk, *ri, 0, 0, 0, *lk, *li, 0, 0, 0, *yk, *yi, 0, 0, 0])
    .collect();
    let install = Install { uid: 1, expressions: &expression, instructions: &instructions };
    Arc::new(ValidProgram::install(&install).expect("valid"))
}

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn no_ack_allocates() {
    let create = CreateMessage::without_addresses(14_480, 1448, AlgorithmName::NONE);
    let config = FlowConfig { sid: 1, create, bounds: Bounds::DEFAULT, agent_timeout: Dur::from_millis(500) };
    let mut flow = Flow::start(config, Time::ZERO, &mut Sink);
    let mut now = Time::ZERO;
    let mut acks = |flow: &mut Flow, millis: u32| {
        for n in 0..millis {
            now += Dur::from_millis(1);
            let sample = AckSample {
                bytes_acked: 1448,
                rtt_us: 50_000,
                bytes_in_flight: Some(n % 3),
                lost_packets: u32::from(n % 97 == 0),
                ..AckSample::default()
            };
            flow.on_ack(now, &sample, &mut Sink);
        }
    };
    assert_eq!(allocations(|| acks(&mut flow, 1000)), 0, "the fallback, with CREATE sent again");
    let update = FieldUpdate { kind: RegisterKind::Control as u8, index: 0, value: 1 };
    flow.deliver(Time::ZERO, FlowMessage::ChangeProgram(program(), vec![update]));
    // From an agent that answers every report.
    flow.deliver(Time::ZERO, FlowMessage::Update(Vec::new()));
    assert_eq!(allocations(|| acks(&mut flow, 400)), 0, "the program, from its start");
    assert_eq!(flow.governor(), Governor::Agent);
    assert_eq!(allocations(|| acks(&mut flow, 400)), 0, "the loss of the agent");
    assert_eq!(flow.governor(), Governor::Fallback);
    let FlowStats { reports, aborts, fallbacks, .. } = flow.stats();
    assert!(reports > 200 && aborts > 100 && fallbacks == 1);
}
