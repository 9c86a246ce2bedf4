//! A fold-program machine for tests: it does what libccp's does, and stops where libccp stops.

/// Why libccp ends an ACK half-way, or what it computes wrongly without noticing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Underflow,
    DivisionByZero,
    ProductOverflow,
    SumOverflow,
    EwmaWeight,
    Truncated,
}

/// All registers of one flow, by type on the wire.
pub struct Machine {
    pub registers: [[u64; 16]; 9],
    code: Vec<[u8; 16]>,
    expressions: Vec<[u32; 4]>,
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

impl Machine {
    pub fn new(compiled: &anole_lang::Compiled) -> Machine {
        let (head, code) = compiled.code.split_at(16 * compiled.expressions as usize);
        let expressions = head.chunks_exact(16).map(|b| [0, 4, 8, 12].map(|at| word(&b[at..]))).collect();
        let code = code.chunks_exact(16).map(|b| b.try_into().unwrap()).collect();
        let mut machine = Machine { registers: [[0; 16]; 9], code, expressions };
        machine.define(|_| true);
        machine
    }

    /// Sets the registers of some types to their initial values.
    fn define(&mut self, reset: impl Fn(u8) -> bool) {
        for i in 0..self.code.len() {
            let code = self.code[i];
            if code[0] == 2 && reset(code[6]) {
                self.registers[code[6] as usize][word(&code[7..]) as usize] = u64::from(word(&code[12..]));
            }
        }
    }

    /// One ACK; the primitives (type 4) and Micros, Cwnd, Rate are set before.
    pub fn ack(&mut self) -> Result<(), Fault> {
        self.registers[2][..3].fill(0);
        for [condition, conditions, body, bodies] in self.expressions.clone() {
            self.run(condition, conditions)?;
            if self.registers[2][0] != 0 {
                self.run(body, bodies)?;
                if self.registers[2][1] == 0 {
                    break;
                }
            }
        }
        if self.registers[2][2] != 0 {
            self.define(|kind| kind == 5 || kind == 8);
        }
        Ok(())
    }

    fn run(&mut self, from: u32, count: u32) -> Result<(), Fault> {
        for at in from..from + count {
            let code = self.code[at as usize];
            let read = |at: usize| match code[at] {
                1 => u64::from(word(&code[at + 1..])),
                kind => self.registers[kind as usize][word(&code[at + 1..]) as usize],
            };
            let (old, a, b) = (read(1), read(6), read(11));
            let value = match code[0] {
                0 => a.checked_add(b).ok_or(Fault::SumOverflow)?,
                1 => b,
                3 => a.checked_div(b).ok_or(Fault::DivisionByZero)?,
                4 => u64::from(a == b),
                5 if a > 10 => return Err(Fault::EwmaWeight),
                5 if old == 0 => b,
                5 => {
                    let new = (u128::from(a) * u128::from(old) + u128::from(10 - a) * u128::from(b)) / 10;
                    u64::try_from(new).map_err(|_| Fault::ProductOverflow)?
                }
                6 => u64::from(a > b),
                7 => {
                    if a != 0 {
                        b
                    } else {
                        old
                    }
                }
                8 => u64::from(a < b),
                9 => a.max(b),
                10 if a.max(b) > u64::from(u32::MAX) => return Err(Fault::Truncated),
                10 => a.max(b),
                11 => a.min(b),
                12 => a.checked_mul(b).ok_or(Fault::ProductOverflow)?,
                13 => {
                    if a == 0 {
                        b
                    } else {
                        old
                    }
                }
                14 => a.checked_sub(b).ok_or(Fault::Underflow)?,
                _ => continue,
            };
            self.registers[code[1] as usize][word(&code[2..]) as usize] = value;
        }
        Ok(())
    }
}
