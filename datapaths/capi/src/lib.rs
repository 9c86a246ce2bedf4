//! The datapath runtime for transports in C: `libanole_datapath`.
//!
//! `include/anole_datapath.h` is made of this crate and is the interface's reference. It is modelled on libccp's, so that
//! porting is renaming ([docs/porting-from-libccp.md](../../../docs/porting-from-libccp.md)).
//!
//! ```text
//!  transport (C)                 this crate                            anole_datapath
//!  anole_invoke(conn, prims) ──► handle: one call at a time, ────────► Flow::on_ack
//!                                panics end here                          │
//!  set_cwnd, set_rate, governor ◄── table: what changed since ◄───────────┤ InForce, Governor
//!  send_msg ◄─────────────────────── callbacks: Outbox ◄──────────────────┘ CREATE, MEASURE
//!  anole_read_msg(bytes) ──────────────────────────────────────────────► ProgramTable::receive
//! ```
//!
//! With the name of an algorithm in the configuration, the flows are those of the crate `anole`, which decides by itself.
//!
//! | file | what |
//! |---|---|
//! | `types.rs` | the structures of the header |
//! | `api.rs` | the functions of the header: pointers checked, then a method of `table.rs` |
//! | `handle.rs` | a datapath as C holds it: who may use it now, and what a panic does |
//! | `table.rs` | a datapath's flows and what each transport was told |
//! | `callbacks.rs` | the transport's functions, as an outbox, a clock and a log |

mod api;
mod callbacks;
mod handle;
mod table;
mod types;

pub use api::{
    anole_abi_version, anole_connection_free, anole_connection_info, anole_connection_start, anole_free,
    anole_init, anole_invoke, anole_read_msg, anole_ready, anole_set_mss, anole_status_text,
};
pub use handle::AnoleDatapath;
pub use types::{
    ANOLE_ABI_VERSION, ANOLE_ALGORITHM_NAME_BYTES, ANOLE_UNKNOWN, AnoleConfig, AnoleConnectionInfo,
    AnoleFlowInfo, AnoleGovernor, AnoleLogLevel, AnolePrimitives, AnoleStatus,
};
