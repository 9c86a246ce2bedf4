//! The client's side of iperf3's control connection, so that its server takes the data.
//!
//! iperf3 sends data over connections of their own, which begin with the cookie that a control connection has shown. The
//! server does not ask where a data connection comes from: here the control connection is the kernel's, and the data
//! connection the stack's. Source: iperf3 3.12, `iperf_api.h` (states) and `iperf_client_api.c` (their order).
//!
//! | the server says | the client answers |
//! |---|---|
//! | – | its cookie |
//! | PARAM_EXCHANGE | parameters, as JSON with its length before it |
//! | CREATE_STREAMS | a data connection, beginning with the cookie |
//! | TEST_START, TEST_RUNNING | data; in the end TEST_END |
//! | EXCHANGE_RESULTS | its results, for the server's |
//! | DISPLAY_RESULTS | IPERF_DONE |

use anole_transfer::Amount;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const DISPLAY_RESULTS: u8 = 14;
const IPERF_DONE: u8 = 16;
const ACCESS_DENIED: u8 = 255;

/// Letters of a cookie; a NUL follows.
const COOKIE_LETTERS: usize = 36;
/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest results that are read, bytes.
const LONGEST_RESULTS: u32 = 1 << 20;
/// The server counts what it has read when it is told of the end, and is given so long to read what it has acknowledged.
const READS_ON: Duration = Duration::from_millis(300);

/// A test that a server has agreed to.
pub struct Agreed {
    control: TcpStream,
    cookie: String,
}

impl Agreed {
    /// Connects to the server and tells it what will come.
    pub fn with(server: SocketAddr, amount: Amount) -> Result<Agreed> {
        let control = TcpStream::connect_timeout(&server, PATIENCE)
            .with_context(|| format!("cannot connect to {server}; does `iperf3 -s` run there?"))?;
        control.set_read_timeout(Some(PATIENCE))?;
        control.set_nodelay(true)?;
        let mut agreed = Agreed { control, cookie: cookie() };
        agreed.control.write_all(&agreed.preamble())?;
        agreed.await_state(PARAM_EXCHANGE)?;
        let (seconds, bytes) = match amount {
            Amount::Time(time) => (time.as_secs_f64().ceil() as u64, 0),
            Amount::Bytes(bytes) => (0, bytes),
        };
        let version = concat!("anole-usertcp ", env!("CARGO_PKG_VERSION"));
        let mut parameters = json!({
            "tcp": true, "omit": 0, "time": seconds, "parallel": 1, "len": 131_072, "client_version": version
        });
        if bytes > 0 {
            parameters["num"] = json!(bytes);
        }
        agreed.tell(&parameters)?;
        agreed.await_state(CREATE_STREAMS)?;
        Ok(agreed)
    }

    /// What the data connection begins with.
    pub fn preamble(&self) -> Vec<u8> {
        [self.cookie.as_bytes(), &[0]].concat()
    }

    /// Ends the test, of which so much was delivered; what the server has received.
    pub fn end(mut self, delivered_bytes: u64) -> Result<u64> {
        self.await_state(TEST_START)?;
        self.await_state(TEST_RUNNING)?;
        std::thread::sleep(READS_ON);
        self.control.write_all(&[TEST_END])?;
        self.await_state(EXCHANGE_RESULTS)?;
        let bytes = delivered_bytes.saturating_sub(self.preamble().len() as u64);
        let stream = json!({
            "id": 1, "bytes": bytes, "retransmits": -1, "jitter": 0, "errors": 0, "packets": 0,
            "start_time": 0, "end_time": 0
        });
        self.tell(&json!({
            "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0, "sender_has_retransmits": 0,
            "streams": [stream]
        }))?;
        let results = self.hear()?;
        self.await_state(DISPLAY_RESULTS)?;
        self.control.write_all(&[IPERF_DONE])?;
        let received = results["streams"][0]["bytes"].as_u64();
        received.ok_or_else(|| anyhow!("the iperf3 server does not say what it received: {results}"))
    }

    fn await_state(&mut self, wanted: u8) -> Result<()> {
        let mut state = [0];
        self.control.read_exact(&mut state).context("the iperf3 server has ended the control connection")?;
        match state[0] {
            state if state == wanted => Ok(()),
            ACCESS_DENIED => bail!("the iperf3 server is busy with another test; try again when it is over"),
            state => {
                bail!("the iperf3 server is in state {state} instead of {wanted}; it has given up the test")
            }
        }
    }

    fn tell(&mut self, value: &Value) -> Result<()> {
        let text = value.to_string();
        let length = u32::try_from(text.len())?.to_be_bytes();
        Ok(self.control.write_all(&[&length, text.as_bytes()].concat())?)
    }

    fn hear(&mut self) -> Result<Value> {
        let mut length = [0; 4];
        self.control.read_exact(&mut length).context("the iperf3 server sends no results")?;
        let length = u32::from_be_bytes(length);
        if length > LONGEST_RESULTS {
            bail!("the iperf3 server announces results of {length} bytes");
        }
        let mut text = vec![0; length as usize];
        self.control.read_exact(&mut text).context("the iperf3 server's results end early")?;
        serde_json::from_slice(&text).context("the iperf3 server's results are no JSON")
    }
}

/// Letters that no other test of the server has.
fn cookie() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = now.as_nanos() as u64 ^ u64::from(std::process::id()) << 40;
    let letter = |n: usize| {
        char::from(LETTERS[(anole_model::seed::derive(seed, n as u64) % LETTERS.len() as u64) as usize])
    };
    (0..COOKIE_LETTERS).map(letter).collect()
}
