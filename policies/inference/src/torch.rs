//! LibTorch, through `libanole_policy_torch.so`: loaded when asked for, so that nothing of this project
//! needs it to be built or to run.

#![allow(unsafe_code, reason = "a C library is called")]

use anole_policies::{Batch, Network, Schema, StepError};
use libloading::Library;
use std::ffi::{CStr, CString, OsString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

/// File name of the library.
const FILE: &str = "libanole_policy_torch.so";
/// Names the library where no flag does.
pub const VARIABLE: &str = "ANOLE_TORCH_LIBRARY";
/// Version of the C interface below.
const ABI: u32 = 1;
/// Room for a message of the library.
const TEXT: usize = 1024;

/// A policy of the library; only pointers to it exist here.
#[repr(C)]
struct Handle {
    _private: [u8; 0],
}

/// `anole_policy_shape` of `anole_policy.h`.
#[repr(C)]
struct Shape {
    inputs: u32,
    outputs: u32,
    state: u32,
    schema_sha256: [c_char; 65],
}

type Abi = unsafe extern "C" fn() -> u32;
type Describe = unsafe extern "C" fn(*mut c_char, usize) -> c_int;
type Open = unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> *mut Handle;
type Close = unsafe extern "C" fn(*mut Handle);
type GetShape = unsafe extern "C" fn(*const Handle, *mut Shape);
type Step =
    unsafe extern "C" fn(*const Handle, u32, *const f32, *mut f32, *mut f32, *mut c_char, usize) -> c_int;

/// The library's functions, as declared in `policy-server/include/anole_policy.h`.
#[derive(Debug)]
pub struct Torch {
    /// Never unloaded: LibTorch keeps threads and static objects of its own.
    _library: ManuallyDrop<Library>,
    describe: Describe,
    open: Open,
    close: Close,
    get_shape: GetShape,
    step: Step,
}

/// Where the library is looked for: the named file alone, or else beside the program, in the build tree
/// around it, and where the system keeps libraries.
fn candidates(named: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = named {
        return vec![path.to_path_buf()];
    }
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/"));
    let mut places = vec![folder.join(FILE)];
    // The program lies in the root of the tree, in target/PROFILE or in target/PROFILE/deps.
    places.extend(folder.ancestors().take(4).map(|root| root.join("policy-server/build").join(FILE)));
    places.retain(|place| place.is_file());
    places.push(PathBuf::from(FILE));
    places
}

/// Name and, if the user gave one, origin of the library's path.
pub fn named(flag: Option<&Path>) -> Option<(PathBuf, &'static str)> {
    let from_flag = flag.map(|path| (path.to_path_buf(), "--torch-library"));
    from_flag.or_else(|| {
        std::env::var_os(VARIABLE)
            .map(|path: OsString| (PathBuf::from(path), concat!("$", "ANOLE_TORCH_LIBRARY")))
    })
}

impl Torch {
    /// Loads the library named by `flag`, else by the environment, else the first that is found.
    pub fn load(flag: Option<&Path>) -> Result<Torch, String> {
        let named = named(flag);
        let (path, origin) = match &named {
            Some((path, origin)) => (Some(path.as_path()), *origin),
            None => (None, "--backend torch"),
        };
        let mut reasons = Vec::new();
        for place in candidates(path) {
            // Safety: the file is the one that the user named, or installed beside the program or in a
            // system folder; like the program itself it is trusted to do nothing harmful when it is loaded.
            match unsafe { Library::new(&place) } {
                Ok(library) => {
                    return Torch::of(library).map_err(|e| format!("{origin}: {}: {e}", place.display()));
                }
                Err(error) => reasons.push(describe_error(&error)),
            }
        }
        let otherwise = match named {
            Some(_) => String::new(),
            None => format!(", or name it with --torch-library or ${VARIABLE}"),
        };
        Err(format!(
            "{origin}: cannot load {FILE} ({}); build it with `make policy-server`{otherwise}; --backend embedded needs no library",
            reasons.join("; ")
        ))
    }

    fn of(library: Library) -> Result<Torch, String> {
        // Safety: the types are those of the header, whose version is checked before anything else is
        // called; the functions live as long as the library, which is never unloaded.
        unsafe {
            let abi: Abi = symbol(&library, "anole_policy_abi")?;
            let version = abi();
            if version != ABI {
                return Err(format!(
                    "version {version} of its interface, this program uses {ABI}; build both from the same source"
                ));
            }
            Ok(Torch {
                describe: symbol(&library, "anole_policy_describe")?,
                open: symbol(&library, "anole_policy_open")?,
                close: symbol(&library, "anole_policy_close")?,
                get_shape: symbol(&library, "anole_policy_get_shape")?,
                step: symbol(&library, "anole_policy_step")?,
                _library: ManuallyDrop::new(library),
            })
        }
    }

    /// Versions and libraries in use, in one line.
    pub fn describe(&self) -> String {
        let mut text = [0; TEXT];
        // Safety: the buffer has the length that is told.
        unsafe { (self.describe)(text.as_mut_ptr(), text.len()) };
        line(&text)
    }

    /// Opens a policy file that was found to have this schema.
    pub fn open(self: &Arc<Torch>, path: &Path, schema: Schema) -> Result<TorchNetwork, String> {
        use std::os::unix::ffi::OsStrExt;
        let file = CString::new(path.as_os_str().as_bytes()).map_err(|_| "its name contains a zero byte")?;
        let mut error = [0; TEXT];
        // Safety: the path ends with a zero byte, and the buffer has the length that is told.
        let handle = unsafe { (self.open)(file.as_ptr(), error.as_mut_ptr(), error.len()) };
        let handle = NonNull::new(handle).ok_or_else(|| line(&error))?;
        let network = TorchNetwork { torch: Arc::clone(self), handle, schema };
        let mut shape = Shape { inputs: 0, outputs: 0, state: 0, schema_sha256: [0; 65] };
        // Safety: the handle is open, and the struct is the header's.
        unsafe { (self.get_shape)(handle.as_ptr(), &mut shape) };
        let schema = &network.schema;
        let theirs = [shape.inputs, shape.outputs, shape.state].map(|width| width as usize);
        if theirs != [schema.inputs(), schema.outputs(), schema.state()]
            || line(&shape.schema_sha256) != schema.sha256()
        {
            return Err("the library reads another network from it than this program does".to_string());
        }
        Ok(network)
    }
}

/// What the system said, without the name of the call.
fn describe_error(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { desc } => format!("{desc:?}").trim_matches('"').to_string(),
        other => other.to_string(),
    }
}

/// Safety: `F` has to be the type of the function that the library has under this name.
unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // Safety: as above.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|found| *found).map_err(|_| format!("has no function {name}"))
}

/// The text in a buffer that the library has filled, as one line.
fn line(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|&c| c as u8).chain([0]).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A network that LibTorch computes.
#[derive(Debug)]
pub struct TorchNetwork {
    torch: Arc<Torch>,
    handle: NonNull<Handle>,
    schema: Schema,
}

// Safety: the header promises that all functions may be called from any thread at any time; a handle is
// closed once, when nobody has it any more.
unsafe impl Send for TorchNetwork {}
// Safety: as above.
unsafe impl Sync for TorchNetwork {}

impl Network for TorchNetwork {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn step(&self, batch: &mut Batch) -> Result<(), StepError> {
        let (inputs, outputs) = (self.schema.inputs(), self.schema.outputs());
        let expected = [inputs, self.schema.state(), outputs].map(|width| batch.rows.checked_mul(width));
        let lengths = [batch.inputs.len(), batch.states.len(), batch.outputs.len()].map(Some);
        let rows = u32::try_from(batch.rows).ok().filter(|_| expected == lengths);
        let rows = rows.ok_or_else(|| StepError("a batch of the wrong size".to_string()))?;
        let mut error = [0; TEXT];
        // Safety: the handle is open, the arrays have rows times the widths that the library told, which
        // `Torch::open` compared with the schema's, and the buffer has the length that is told.
        let status = unsafe {
            (self.torch.step)(
                self.handle.as_ptr(),
                rows,
                batch.inputs.as_ptr(),
                batch.states.as_mut_ptr(),
                batch.outputs.as_mut_ptr(),
                error.as_mut_ptr(),
                error.len(),
            )
        };
        if status == 0 { Ok(()) } else { Err(StepError(line(&error))) }
    }
}

impl Drop for TorchNetwork {
    fn drop(&mut self) {
        // Safety: open since it was made, and closed nowhere else.
        unsafe { (self.torch.close)(self.handle.as_ptr()) }
    }
}
