//! `anole-eval adversary`: searches bounded families of links for those on which an algorithm does badly, and hands
//! over the plainest examples as scenario files (docs/adversary.md).

mod axis;
mod bench;
mod families;
mod family;
mod find;
mod replay;
mod report;
mod search;

use crate::options::{check_answers, usage};
use crate::{output, pool};
use anole_algorithms::learned::Policies;
use anole_inference::{BackendSettings, Loader, Serving};
use anyhow::{Context, Result};
use bench::{Bench, Contestant};
use family::Family;
use find::Find;
use indicatif::{ProgressBar, ProgressStyle};
use report::{Robustness, Worst};
use search::{STARTS, Tried};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Options of `anole-eval adversary`.
#[derive(clap::Args)]
pub struct Args {
    /// Algorithms under test; NAME+POLICY is one with a policy of its own
    #[arg(long, value_name = "NAME[+POLICY][,…]", value_delimiter = ',', default_value = "anole")]
    alg: Vec<String>,
    /// References; loss and completion times are held against the first
    #[arg(long, value_name = "NAME[,…]", value_delimiter = ',', default_value = "cubic,bbr")]
    against: Vec<String>,
    /// Families of links; all if left out
    #[arg(long, value_name = "NAME[,…]", value_delimiter = ',')]
    family: Vec<String>,
    /// Links to try for each family and algorithm: half of them at random, which are the same for every algorithm,
    /// half by search
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    budget: u32,
    /// Seed of the random links and of the search
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Most finds of each family and algorithm, no two near each other
    #[arg(long, value_name = "N", default_value_t = 1)]
    finds: usize,
    /// Also list the N random links of all families on which each algorithm has the least share of a floor
    #[arg(long, value_name = "N", default_value_t = 0)]
    worst: usize,
    /// Write each find as a scenario file to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run finds of an earlier attack again instead, with --alg and --against
    #[arg(long, value_name = "FILE[,…]", value_delimiter = ',', conflicts_with_all = ["family", "budget", "seed", "finds", "worst", "out"])]
    replay: Vec<PathBuf>,
    /// Print one JSON object per family and algorithm and per find, one per line
    #[arg(long)]
    json: bool,
    /// Cases at the same time; as many as there are processors if left out
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// What is to be done, checked.
struct Attack {
    bench: Bench,
    families: Vec<&'static Family>,
    tested: Vec<Contestant>,
    workers: usize,
    bar: ProgressBar,
}

/// What was tried of one family with one algorithm.
struct Field {
    family: usize,
    tested: usize,
    random: Vec<Tried>,
    searched: Vec<Tried>,
}

/// Runs the subcommand.
pub fn main(args: Args) -> Result<()> {
    let families = families(&args.family)?;
    args.out.as_deref().map_or(Ok(()), output::check_folder)?;
    let loader = Arc::new(Loader::new(BackendSettings::default(), Serving::Immediate).map_err(usage)?);
    let policies: Arc<dyn Policies> = Arc::clone(&loader) as Arc<dyn Policies>;
    let bench =
        Bench { policies, against: contestants(&args.against, "--against")?, cases: AtomicU64::new(0) };
    let tested = contestants(&args.alg, "--alg")?;
    if !args.replay.is_empty() {
        return replay(&args, &bench, &tested);
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} links, {eta} left");
    let total = u64::from(args.budget) * (families.len() * tested.len()) as u64;
    let bar = ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let attack = Attack { bench, families, tested, workers: pool::workers(args.jobs), bar };
    let begun = Instant::now();
    let fields = attack.search(args.budget as usize, args.seed)?;
    let finds = attack.confirm(&fields, args.finds, args.seed)?;
    attack.bar.finish_and_clear();
    check_answers(&loader)?;
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let cases = attack.bench.cases.load(Ordering::Relaxed);
    eprintln!("anole-eval: {cases} cases in {minutes:.1} min, {:.0} a minute", cases as f64 / minutes);
    if let Some(folder) = &args.out {
        for find in &finds {
            output::write_whole(folder, &format!("{}.toml", find.name), &find.text)?;
        }
    }
    tell(&args, &attack.rows(&fields), &attack.worst(&fields, args.worst), &finds)
}

/// Runs files of an earlier attack.
fn replay(args: &Args, bench: &Bench, tested: &[Contestant]) -> Result<()> {
    let mut replays = Vec::new();
    let job = |number: usize| replay::replay(bench, &args.replay[number], tested);
    pool::run(
        args.replay.len(),
        pool::workers(args.jobs),
        job,
        || (),
        |_, done| {
            replays.extend(done);
            Ok(())
        },
    )?;
    match args.json {
        true => replays.iter().try_for_each(print_json),
        false => output::print_line(&replay::render(&replays)),
    }
}

fn tell(args: &Args, rows: &[Robustness], worst: &[Worst], finds: &[Find]) -> Result<()> {
    if args.json {
        rows.iter().try_for_each(print_json)?;
        worst.iter().try_for_each(print_json)?;
        return finds.iter().try_for_each(print_json);
    }
    let folder = args.out.as_ref().map(|folder| folder.display().to_string());
    output::print_line(&report::render(rows, worst, finds, folder.as_deref()))
}

fn print_json(object: &impl Serialize) -> Result<()> {
    output::print_line(&serde_json::to_string(object).context("cannot express a result as JSON")?)
}

/// The families with these names; all without names.
fn families(names: &[String]) -> Result<Vec<&'static Family>> {
    if names.is_empty() {
        return Ok(families::ALL.to_vec());
    }
    let find = |name: &String| {
        families::ALL.into_iter().find(|family| family.name == name).ok_or_else(|| {
            let known: Vec<String> =
                families::ALL.iter().map(|family| format!("  {}: {}", family.name, family.about)).collect();
            usage(format!("--family: no family is named \"{name}\"; there are\n{}", known.join("\n")))
        })
    };
    check_once(names, "--family")?;
    names.iter().map(find).collect()
}

fn contestants(names: &[String], flag: &str) -> Result<Vec<Contestant>> {
    check_once(names, flag)?;
    Ok(names.iter().map(|name| Contestant::named(name)).collect())
}

/// Refuses a name that is there twice.
fn check_once(names: &[String], flag: &str) -> Result<()> {
    match (1..names.len()).find(|&n| names[..n].contains(&names[n])) {
        Some(n) => Err(usage(format!("{flag} names {} twice", names[n]))),
        None => Ok(()),
    }
}

impl Attack {
    /// Tries `budget` links of every family with every algorithm, half of them at random.
    fn search(&self, budget: usize, seed: u64) -> Result<Vec<Field>> {
        let random = budget.div_ceil(2);
        let mut fields: Vec<Field> = Vec::new();
        for family in 0..self.families.len() {
            let field = |tested| Field { family, tested, random: Vec::new(), searched: Vec::new() };
            fields.extend((0..self.tested.len()).map(field));
        }
        let job = |number: usize| {
            let family = self.families[number / random];
            let tried = search::random(&self.bench, family, &self.tested, seed, (number % random) as u64)?;
            self.bar.inc(tried.len() as u64);
            Ok(tried)
        };
        pool::run(
            self.families.len() * random,
            self.workers,
            job,
            || (),
            |number, tried| {
                let first = number / random * self.tested.len();
                fields[first..].iter_mut().zip(tried).for_each(|(field, tried)| field.random.push(tried));
                Ok(())
            },
        )?;
        let starts: Vec<(usize, Tried)> = fields
            .iter()
            .enumerate()
            .flat_map(|(index, field)| {
                search::worst(&field.random, STARTS).into_iter().map(move |start| (index, start))
            })
            .collect();
        let each = (budget - random) / STARTS;
        let evolve = |number: usize| {
            let (index, start) = &starts[number];
            let (family, tested) = self.who(&fields[*index]);
            let tried = search::evolve(&self.bench, family, tested, start, each)?;
            self.bar.inc(each as u64);
            Ok(tried)
        };
        let mut searched: Vec<Vec<Tried>> = vec![Vec::new(); fields.len()];
        pool::run(
            starts.len(),
            self.workers,
            evolve,
            || (),
            |number, tried| {
                searched[starts[number].0].extend(tried);
                Ok(())
            },
        )?;
        for (field, searched) in fields.iter_mut().zip(searched) {
            field.searched = searched;
        }
        Ok(fields)
    }

    /// Makes finds of the worst links of each field.
    fn confirm(&self, fields: &[Field], most: usize, seed: u64) -> Result<Vec<Find>> {
        let mut candidates: Vec<(usize, usize, Tried)> = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let floor = self.families[field.family].floor;
            let tried: Vec<Tried> = field.random.iter().chain(&field.searched).cloned().collect();
            let below = search::worst(&tried, most).into_iter().filter(|tried| tried.score < floor);
            candidates.extend(below.enumerate().map(|(number, tried)| (index, number + 1, tried)));
        }
        let job = |number: usize| {
            let (index, number, tried) = &candidates[number];
            let (family, tested) = self.who(&fields[*index]);
            let name = format!("{}-{}-{number}", family.name, output::named(&tested.label));
            let source = format!("anole-eval adversary, family {}, seed {seed}", family.name);
            find::confirm(&self.bench, family, tested, tried, name, &source)
        };
        let mut finds = Vec::new();
        pool::run(
            candidates.len(),
            self.workers,
            job,
            || (),
            |_, find| {
                finds.extend(find);
                Ok(())
            },
        )?;
        Ok(finds)
    }

    fn who(&self, field: &Field) -> (&'static Family, &Contestant) {
        (self.families[field.family], &self.tested[field.tested])
    }

    fn rows(&self, fields: &[Field]) -> Vec<Robustness> {
        let row = |field: &Field| {
            let (family, tested) = self.who(field);
            Robustness::new(family.name, &tested.label, family.floor, &field.random, &field.searched)
        };
        fields.iter().map(row).collect()
    }

    /// The worst random links of each algorithm, of all families.
    fn worst(&self, fields: &[Field], count: usize) -> Vec<Worst> {
        let of = |tested: usize| {
            let fields = fields.iter().filter(move |field| field.tested == tested);
            let links = fields.flat_map(|field| {
                let (family, tested) = self.who(field);
                field.random.iter().map(|tried| Worst::new(family, &tested.label, tried))
            });
            report::least(links.collect(), count)
        };
        (0..self.tested.len()).flat_map(of).collect()
    }
}
