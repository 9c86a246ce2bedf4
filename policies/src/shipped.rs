//! The policies that come with the program: those in `shipped/`.

use crate::embedded::Embedded;
use crate::error::PolicyError;
use crate::file::PolicyFile;
use crate::policy::{Immediate, Policies, Policy};
use crate::schema;
use std::sync::{Arc, LazyLock};

/// The shipped policies, each run by its network in plain Rust on the thread that asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shipped;

impl Shipped {
    /// The bytes of the policy file with this name.
    pub fn bytes(name: &str) -> Option<&'static [u8]> {
        schema::SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
    }

    /// The network with this name.
    pub fn network(name: &str) -> Result<Arc<Embedded>, PolicyError> {
        let found = NETWORKS.iter().find(|(known, _)| *known == name);
        found.map_or_else(|| Err(PolicyError::Unknown(name.to_string())), |(_, found)| found.clone())
    }
}

type Found = Result<Arc<Embedded>, PolicyError>;

/// Each is read once.
static NETWORKS: LazyLock<Vec<(&str, Found)>> = LazyLock::new(|| {
    let read = |name: &str, bytes: &[u8]| {
        let file = PolicyFile::read(bytes, &format!("shipped/{name}.safetensors"))?;
        Ok(Arc::new(Embedded::new(&file)?))
    };
    schema::SHIPPED.iter().map(|(name, bytes)| (*name, read(name, bytes))).collect()
});

impl Policies for Shipped {
    fn names(&self) -> Vec<String> {
        schema::SHIPPED.iter().map(|(name, _)| name.to_string()).collect()
    }

    fn find(&self, name: &str) -> Result<Arc<dyn Policy>, PolicyError> {
        Ok(Arc::new(Immediate(Shipped::network(name)?)))
    }
}
