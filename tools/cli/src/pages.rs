//! Manual pages (man(7)) and shell completions, made of the command line's definition.

use anyhow::{Context, Result};
use clap_complete::Shell;
use std::path::Path;

/// Writes `man1/PROGRAM*.1` and `completions/` for bash, zsh and fish into `folder`.
pub fn write(program: &str, mut command: clap::Command, folder: &Path) -> Result<()> {
    let (man, completions) = (folder.join("man1"), folder.join("completions"));
    // `help` and its own subcommands would have a page each.
    let pages = command.clone().disable_help_subcommand(true);
    let wrote = || -> std::io::Result<()> {
        std::fs::create_dir_all(&man)?;
        std::fs::create_dir_all(&completions)?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut command, program, &completions)?;
        }
        clap_mangen::generate_to(pages, &man)
    };
    wrote().with_context(|| format!("cannot write pages into {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    #[test]
    fn pages_and_completions_are_of_the_whole_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let command = Command::new("prog")
            .about("Does it")
            .arg(Arg::new("depth").long("depth").help("How deep"))
            .subcommand(Command::new("dig").about("Digs"));
        super::write("prog", command, folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("man1/prog.1").contains("\\-\\-depth") && read("man1/prog.1").contains("prog\\-dig(1)"));
        assert!(read("man1/prog-dig.1").contains("Digs"));
        assert_eq!(std::fs::read_dir(folder.path().join("man1")).unwrap().count(), 2);
        for name in ["prog.bash", "_prog", "prog.fish"] {
            assert!(read(&format!("completions/{name}")).contains("depth"), "{name}");
        }
        assert!(super::write("prog", Command::new("prog"), std::path::Path::new("/dev/null/x")).is_err());
    }
}
