//! Which programs are installed at a datapath, and the messages from the agent: INSTALL of a program,
//! UPDATE or CHANGE_PROG of commands.

use crate::{ALL, Commands, Program};
use anole_datapath::wire::{Install, Message};

/// The id of the first program in [`Installed::all`]: libccp clears its table of programs when it is
/// given one with this id.
const FIRST_UID: u32 = 1;

/// Programs and the ids by which messages name them. There are few: a search is a walk.
#[derive(Clone, Debug, Default)]
pub struct Installed(Vec<(u32, &'static Program)>);

impl Installed {
    /// Every program of this crate, numbered from 1.
    pub fn all() -> Installed {
        Installed((FIRST_UID..).zip(ALL.iter().copied()).collect())
    }

    /// The same and `program`, under the next id; as it is if the program is there.
    pub fn with(mut self, program: &&'static Program) -> Installed {
        if self.uid(program).is_none() {
            let last = self.0.iter().map(|&(uid, _)| uid).max();
            self.0.push((last.map_or(FIRST_UID, |uid| uid + 1), program));
        }
        self
    }

    /// `program` is installed under this id, in place of what had it.
    pub fn insert(&mut self, uid: u32, program: &'static Program) {
        self.0.retain(|&(known, _)| known != uid);
        self.0.push((uid, program));
    }

    /// The program with this id.
    pub fn program(&self, uid: u32) -> Option<&'static Program> {
        self.0.iter().find(|&&(known, _)| known == uid).map(|&(_, program)| program)
    }

    /// The id of a program.
    pub fn uid(&self, program: &'static Program) -> Option<u32> {
        self.0.iter().find(|&&(_, known)| std::ptr::eq(known, program)).map(|&(uid, _)| uid)
    }

    /// INSTALL for every program.
    pub fn installs(&self) -> impl Iterator<Item = Message<'static>> {
        let install = |&(uid, program): &(u32, &'static Program)| {
            Message::Install(Install::of_code(uid, program.expressions, program.code))
        };
        self.0.iter().map(install)
    }

    /// Commands for flow `sid`: CHANGE_PROG with a program, else UPDATE; an UPDATE without registers only
    /// tells that the agent is there. `None` if the program is not installed.
    pub fn message(&self, sid: u32, commands: &Commands) -> Option<Message<'static>> {
        let updates = commands.fields().iter().map(|&(register, value)| register.update(value)).collect();
        match commands.program() {
            Some(program) => Some(Message::ChangeProgram { sid, uid: self.uid(program)?, updates }),
            None => Some(Message::Update(sid, updates)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CWND, rate_hold, reno};
    use anole_datapath::wire::{decode, encode};

    #[test]
    fn every_program_has_an_id_and_a_message_that_can_be_read() {
        let installed = Installed::all();
        for (message, program) in installed.installs().zip(ALL) {
            let mut bytes = Vec::new();
            encode(&message, &mut bytes).unwrap();
            assert_eq!(decode(&bytes), Ok((message.clone(), bytes.len())), "{}", program.name);
            let Message::Install(install) = message else { panic!("{message:?}") };
            assert_eq!(install.expressions.len(), 16 * program.expressions as usize);
            assert_eq!(install.instructions.len(), 16 * program.instructions as usize);
            assert_eq!(installed.uid(program), Some(install.uid));
            assert_eq!(installed.program(install.uid).map(|known| known.name), Some(program.name));
        }
        assert!(installed.program(0).is_none() && installed.program(ALL.len() as u32 + 1).is_none());
    }

    #[test]
    fn commands_become_one_message() {
        let mut installed = Installed::default();
        let mut commands = Commands::default();
        assert_eq!(installed.message(7, &commands), Some(Message::Update(7, vec![])));
        commands.run(&reno::PROGRAM).set(reno::control::INTERVAL_US, 9).cwnd(5);
        assert_eq!(installed.message(7, &commands), None);
        installed.insert(3, &rate_hold::PROGRAM);
        installed.insert(3, &reno::PROGRAM);
        let updates = vec![reno::control::INTERVAL_US.update(9), CWND.update(5)];
        let expected = Message::ChangeProgram { sid: 7, uid: 3, updates };
        assert_eq!(installed.message(7, &commands), Some(expected));
        assert_eq!(installed.uid(&rate_hold::PROGRAM), None);
    }

    #[test]
    fn a_program_takes_its_own_registers_and_the_two_that_all_have() {
        for program in ALL {
            assert!(program.controls.iter().all(|&register| program.takes(register)));
            assert!(program.takes(CWND) && program.takes(crate::RATE));
        }
        let foreign = crate::Register { name: "no_such_register", ..reno::control::INTERVAL_US };
        assert!(!reno::PROGRAM.takes(foreign));
    }
}
