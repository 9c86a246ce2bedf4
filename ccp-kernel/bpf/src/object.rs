// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! Loads the BPF object, registers the congestion control, and leaves both in a BPF file system, so that
//! they outlive the agent: flows go on under the fallback, and the next agent takes them over.
//!
//! The folder is `DIR/anole_ccp/HASH`, with the hash of the object in it: another version does not share
//! it. What another version left is unregistered; its flows keep the fallback until they end.
//!
//! A BPF file system is often writable for everybody (1777). `DIR/anole_ccp` is this user's alone (0700), no link is
//! followed, and what somebody else has put in its place is moved aside.

use crate::kernel::{self, KernelFacts};
use crate::layout::{self, AGENT_BYTES, AgentState, JUMP_FINISH, JUMP_INTERPRET, MAX_FLOWS, Offsets};
use crate::map::Mapping;
use crate::{Error, switch};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapMut, ObjectBuilder, OpenObject};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

/// The object as it is loaded: `src/bpf/anole.bpf.c`, compiled.
static OBJECT: &[u8] = include_bytes!("bpf/prebuilt/anole.bpf.o");

/// Maps of the object that the agent uses, in the order of [`Maps`].
const MAPS: [&str; 6] = [".data.agent", "mailboxes", "events", "programs", "jumps", "flows"];
/// The object's map that is registered without a link.
const UNLINKED: &str = "unlinked_2";
/// Names beside anole_ccp that the object has room for (`src/bpf/names.bpf.h`).
pub const MAX_NAMES: usize = 40;
/// A congestion control's name has 16 bytes with its NUL, of which "anole_" takes six.
const MAX_NAME_BYTES: usize = 9;
/// The pin of the registration, made last; those of further names begin with it.
const LAST_PIN: &str = "registered";
/// An agent that has not beaten for so long is gone (`src/bpf/flow.bpf.h`).
const HEARTBEAT_STALE_US: u64 = 500_000;
/// Magic number of a BPF file system (linux/magic.h).
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// The maps that the agent uses.
#[derive(Debug)]
pub struct Maps {
    pub agent: MapHandle,
    pub mailboxes: MapHandle,
    pub events: MapHandle,
    pub programs: MapHandle,
    pub jumps: MapHandle,
    pub flows: MapHandle,
}

impl Maps {
    fn collect(mut get: impl FnMut(&str) -> Result<MapHandle, Error>) -> Result<Maps, Error> {
        let [agent, mailboxes, events, programs, jumps, flows] = MAPS;
        Ok(Maps {
            agent: get(agent)?,
            mailboxes: get(mailboxes)?,
            events: get(events)?,
            programs: get(programs)?,
            jumps: get(jumps)?,
            flows: get(flows)?,
        })
    }
}

/// The registered datapath.
#[derive(Debug)]
pub struct Registered {
    pub maps: Maps,
    pub kernel: KernelFacts,
    /// Where the machine is in a flow's storage.
    pub offsets: Offsets,
    /// Algorithms with a name of their own.
    names: Vec<String>,
    /// It stays registered when the agent ends.
    pub pinned: bool,
    /// An earlier agent left it.
    pub adopted: bool,
    /// Keeps other agents away.
    _lock: Option<Flock<File>>,
    /// Registers while it is there, if nothing is pinned.
    _registrations: Vec<Registration>,
}

/// A name that is registered as long as this is there.
#[derive(Debug)]
enum Registration {
    Linked {
        _link: Link,
    },
    /// Before 6.4: an entry in a map. libbpf's link knows the map by a descriptor that is the object's.
    Unlinked(MapHandle),
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Registration::Unlinked(map) = self {
            unregister(map);
        }
    }
}

/// Before 6.4 the registration is the map's only entry.
fn unregister(map: &MapHandle) {
    // It fails where that is gone.
    let _ = map.delete(&0u32.to_ne_bytes());
}

impl Registered {
    /// The congestion control for an algorithm; anole_ccp for none.
    pub fn control_name(&self, algorithm: Option<&str>) -> Result<String, Error> {
        match algorithm {
            None => Ok("anole_ccp".to_string()),
            Some(name) if self.names.iter().any(|known| known == name) => {
                Ok(format!("anole_{}", name.replace('-', "_")))
            }
            Some(name) => Err(Error::UnknownName(name.to_string(), self.names.join(", "))),
        }
    }
}

/// Those of `algorithms` that get a name of their own.
pub fn named<'a>(algorithms: &[&'a str]) -> Vec<&'a str> {
    let fits = algorithms.iter().copied().filter(|name| name.len() <= MAX_NAME_BYTES && *name != "ccp");
    fits.take(MAX_NAMES).collect()
}

/// Registers the datapath under its own name and one for each of `algorithms`, or takes over what an earlier
/// agent left in `directory`.
pub fn install(directory: &Path, algorithms: &[&str]) -> Result<Registered, Error> {
    libbpf_rs::set_print(None);
    let kernel = KernelFacts::read()?;
    let algorithms = named(algorithms);
    let names = algorithms.iter().map(ToString::to_string).collect();
    if !is_bpf_fs(directory) {
        let (maps, registrations, offsets) = load(&kernel, &algorithms, None)?;
        return Ok(Registered {
            maps,
            kernel,
            offsets,
            names,
            pinned: false,
            adopted: false,
            _lock: None,
            _registrations: registrations,
        });
    }
    let root = directory.join("anole_ccp");
    let io = |what: &'static str| {
        let root = root.clone();
        move |reason| Error::Pin { path: root, what, reason }
    };
    own(&root)?;
    let lock = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_DIRECTORY).open(&root);
    let lock = lock.map_err(io("open it"))?;
    let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|_| Error::Taken(root.clone()))?;
    let ours = root.join(format!("{:016x}", hash(OBJECT, &algorithms)));
    let available = switch::available();
    let is_registered = available.is_empty() || available.iter().any(|name| name == "anole_ccp");
    for entry in fs::read_dir(&root).map_err(io("read it"))?.flatten() {
        let path = entry.path();
        // Before 6.4 a pin may be of what is registered no more.
        if path != ours || !path.join(LAST_PIN).exists() || !is_registered {
            retire(&path);
        }
    }
    let adopted = ours.exists();
    let (maps, offsets) = if adopted {
        let maps = Maps::collect(|name| {
            Ok(MapHandle::from_pinned_path(ours.join(name.trim_start_matches(".data.")))?)
        })?;
        let offsets = machine_offsets(&maps.flows);
        (maps, offsets)
    } else {
        fs::create_dir(&ours).map_err(io("create a folder in it"))?;
        let loaded = load(&kernel, &algorithms, Some(&ours)).inspect_err(|_| retire(&ours))?;
        (loaded.0, loaded.2)
    };
    Ok(Registered {
        maps,
        kernel,
        offsets,
        names,
        pinned: true,
        adopted,
        _lock: Some(lock),
        _registrations: Vec::new(),
    })
}

/// A map of the datapath that is registered in `directory`.
pub fn pinned(directory: &Path, name: &str) -> Result<MapHandle, Error> {
    let root = directory.join("anole_ccp");
    let entries = if is_own(&root) { fs::read_dir(&root) } else { Err(ErrorKind::NotFound.into()) };
    let entries = entries.map_err(|reason| Error::Pin { path: root.clone(), what: "read it", reason })?;
    let found = entries.flatten().map(|entry| entry.path()).find(|path| path.join(LAST_PIN).exists());
    Ok(MapHandle::from_pinned_path(found.unwrap_or(root).join(name))?)
}

fn is_bpf_fs(path: &Path) -> bool {
    nix::sys::statfs::statfs(path).is_ok_and(|fs| fs.filesystem_type().0 == BPF_FS_MAGIC)
}

/// FNV-1a, to tell versions of the object and of its names apart.
fn hash(object: &[u8], names: &[&str]) -> u64 {
    let names = names.iter().flat_map(|name| name.bytes().chain([0]));
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    object.iter().copied().chain(names).fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Nobody else can have made it or put anything into it.
fn is_own(path: &Path) -> bool {
    let found = fs::symlink_metadata(path);
    found.is_ok_and(|found| found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw())
}

/// Makes the folder, for this user alone; one that is another's, or is no folder, is moved aside.
fn own(root: &Path) -> Result<(), Error> {
    let failed = |what| move |reason| Error::Pin { path: root.to_path_buf(), what, reason };
    if fs::symlink_metadata(root).is_ok() && !is_own(root) {
        // A BPF file system takes no dot in a name.
        let mut names = (0u32..).map(|n| root.with_file_name(format!("anole_ccp-{n}")));
        let aside = names.find(|path| fs::symlink_metadata(path).is_err()).unwrap_or_default();
        fs::rename(root, aside)
            .map_err(failed("move aside what is there, and belongs to another user or is no folder"))?;
    }
    match DirBuilder::new().mode(0o700).create(root) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_own(root) => {
            fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(failed("keep others out of it"))
        }
        done => done.map_err(failed("create it")),
    }
}

/// Unregisters what an agent left in a folder, and removes it.
fn retire(path: &Path) {
    if !is_own(path) {
        let _ = fs::remove_file(path);
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(LAST_PIN)
            && let Ok(map) = MapHandle::from_pinned_path(entry.path())
        {
            unregister(&map);
        }
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_dir(path);
}

/// The machine is the last field of a flow's storage.
fn machine_offsets(flows: &impl MapCore) -> Offsets {
    let [_, _, _, machine, ..] = layout::c_layout();
    layout::offsets(flows.value_size() - machine)
}

/// The name of the object's map that is registered.
fn registered(kernel: &KernelFacts) -> &'static str {
    match (kernel.links, kernel.four_arguments) {
        (true, true) => "linked",
        (true, false) => "linked_2",
        (false, _) => UNLINKED,
    }
}

/// Chooses what this kernel can load.
fn choose(object: &mut OpenObject, kernel: &KernelFacts, names: &[&str]) -> Result<(), Error> {
    let ops = registered(kernel);
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.starts_with("linked") || name.starts_with("unlinked") {
            let wanted = names.iter().enumerate().find(|(n, _)| name == format!("{ops}_n{n}"));
            map.set_autocreate(name == ops || wanted.is_some())?;
            if let Some(value) = map.initial_value_mut() {
                if let Some((_, wanted)) = wanted {
                    rename(value, wanted);
                }
                // The structure's first member, which libbpf would not find in the kernel's.
                if !kernel.transmit_start && name.contains("linked") {
                    value[..size_of::<usize>()].fill(0);
                }
            }
        }
        if name.ends_with(".rodata")
            && let Some(value) = map.initial_value_mut()
        {
            value.fill(kernel.cubic);
        }
    }
    for mut program in object.progs_mut() {
        match program.name().to_str() {
            Some("anole_cong_control") => program.set_autoload(kernel.four_arguments),
            Some("anole_cong_control_2") => program.set_autoload(!kernel.four_arguments),
            _ => {}
        };
    }
    Ok(())
}

/// Writes `anole_NAME` where the compiler wrote `anole_ccp`. The kernel takes no hyphen in a name.
fn rename(ops: &mut [u8], name: &str) {
    const COMPILED: &[u8] = b"anole_ccp\0";
    if let Some(at) = ops.windows(COMPILED.len()).position(|bytes| bytes == COMPILED) {
        let place = ops[at..].iter_mut().skip("anole_".len());
        place
            .zip(name.bytes().chain([0]))
            .for_each(|(to, from)| *to = if from == b'-' { b'_' } else { from });
    }
}

/// Registers the name. One that is taken may be free soon, when another process's end has been cleared up,
/// or be what a killed agent left on a kernel before 6.4.
fn register(map: &mut MapMut<'_>) -> Result<Link, Error> {
    // Five seconds: on a busy machine the end of a process takes one and more.
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match map.attach_struct_ops() {
            Err(error) if error.kind() == libbpf_rs::ErrorKind::AlreadyExists => unregister_stale(),
            done => return done.map_err(Error::Register),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    map.attach_struct_ops().map_err(Error::Register)
}

/// Whether the agent of any datapath of this kernel, wherever it is pinned, has beaten of late.
fn any_agent_lives() -> bool {
    let [agent, ..] = MAPS;
    MapInfoIter::default().filter(|info| info.name == agent).any(|info| {
        let map = MapHandle::from_map_id(info.id);
        let state = map.ok().and_then(|map| Mapping::new(map.as_fd(), 0, AGENT_BYTES, false).ok());
        state.is_some_and(|state| {
            // SAFETY: all words of it are atomic on both sides.
            let state = unsafe { state.get::<AgentState>(0).expect("mapped whole").as_ref() };
            crate::now_us().saturating_sub(state.heartbeat_us.load(Acquire)) < HEARTBEAT_STALE_US
        })
    })
}

/// Before 6.4 a registration is an entry in a map that keeps itself; only CAP_SYS_ADMIN may look for it. A running
/// agent keeps its own.
fn unregister_stale() {
    if any_agent_lives() {
        return;
    }
    for info in MapInfoIter::default().filter(|info| info.name.to_string_lossy().starts_with(UNLINKED)) {
        if let Ok(map) = MapHandle::from_map_id(info.id) {
            unregister(&map);
        }
    }
}

/// Loads and registers; pins everything in `pins`, the registration last.
fn load(
    kernel: &KernelFacts,
    names: &[&str],
    pins: Option<&Path>,
) -> Result<(Maps, Vec<Registration>, Offsets), Error> {
    let mut builder = ObjectBuilder::default();
    let mut object = builder.name("anole_ccp")?.open_memory(OBJECT)?;
    choose(&mut object, kernel, names)?;
    let mut object = object.load().map_err(kernel::not_loaded)?;
    let maps = Maps::collect(|wanted| {
        let map = object.maps().find(|map| is_called(map, wanted));
        Ok(MapHandle::try_from(&map.ok_or(Error::Object(wanted.to_string()))?)?)
    })?;
    for (place, name) in [(JUMP_FINISH, "anole_finish"), (JUMP_INTERPRET, "anole_interpret")] {
        let program = object.progs().find(|program| program.name() == name);
        let program = program.ok_or(Error::Object(name.to_string()))?;
        let fd = program.as_fd().as_raw_fd();
        maps.jumps.update(&place.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)?;
    }
    let free =
        object.maps().find(|map| map.name() == "free_slots").ok_or(Error::Object("free_slots".into()))?;
    for slot in 0..MAX_FLOWS {
        free.update(&[], &slot.to_ne_bytes(), MapFlags::ANY)?;
    }
    let offsets = machine_offsets(&maps.flows);
    if let Some(pins) = pins {
        for mut map in object.maps_mut() {
            if let Some(name) = MAPS.iter().find(|name| is_called(&map, name)) {
                map.pin(pins.join(name.trim_start_matches(".data.")))?;
            }
        }
    }
    let ops = registered(kernel);
    let mut registrations = Vec::new();
    let further =
        names.iter().enumerate().map(|(n, name)| (format!("{ops}_n{n}"), format!("{LAST_PIN}-{name}")));
    for (map, pin) in further.chain([(ops.to_string(), LAST_PIN.to_string())]) {
        let mut map =
            object.maps_mut().find(|known| known.name() == map.as_str()).ok_or(Error::Object(map))?;
        let mut link = register(&mut map)?;
        match pins {
            None if kernel.links => registrations.push(Registration::Linked { _link: link }),
            Some(pins) if kernel.links => link.pin(pins.join(pin))?,
            None => {
                // It would unregister by the object's own descriptor, which is about to be closed.
                link.disconnect();
                registrations.push(Registration::Unlinked(MapHandle::try_from(&map)?));
            }
            Some(pins) => {
                map.pin(pins.join(pin))?;
                link.disconnect();
            }
        }
    }
    Ok((maps, registrations, offsets))
}

/// libbpf puts the object's name before those of sections.
fn is_called(map: &impl MapCore, name: &str) -> bool {
    map.name() == name || (name.starts_with('.') && map.name().to_string_lossy().ends_with(name))
}

/// Where an agent's datapath is pinned unless it is told otherwise.
pub fn default_directory() -> PathBuf {
    PathBuf::from("/sys/fs/bpf")
}
