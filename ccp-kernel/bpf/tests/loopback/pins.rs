// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! A registration that is pinned in a BPF file system.

use super::support::{
    Transfer, is_gone, is_registered, message, next, open, program, registered_in, word, words,
};
use anole_bpf::{BpfDatapath, Error, Mode};
use nix::mount::{MsFlags, mount, umount};
use std::path::{Path, PathBuf};

/// A BPF file system; gone when it is dropped.
struct BpfFs(PathBuf);

impl BpfFs {
    fn mount() -> nix::Result<BpfFs> {
        let folder = std::env::temp_dir().join(format!("anole-bpf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let place = BpfFs(folder);
        mount(Some("bpf"), &place.0, Some("bpf"), MsFlags::empty(), None::<&str>).map(|()| place)
    }

    /// As an administrator would.
    fn remove_pins(&self) {
        std::fs::remove_dir_all(self.0.join("anole_ccp")).unwrap();
    }
}

impl Drop for BpfFs {
    fn drop(&mut self) {
        let _ = umount(&self.0);
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_pinned_registration_outlives_its_agent() {
    let place = match BpfFs::mount() {
        Ok(place) => place,
        Err(error) => {
            anole_testing::skip!("no BPF file system can be mounted here ({error})");
            return;
        }
    };
    let Some((first, _guard)) = registered_in(&place.0, Mode::Generated) else { return };
    assert!(first.is_pinned() && !first.is_adopted());
    assert!(matches!(BpfDatapath::open(&place.0, &["libra-rl"], Mode::Generated), Err(Error::Taken(_))));
    drop(first);
    let transfer = Transfer::start("anole_ccp");
    let mut second = open(&place.0, Mode::Generated).unwrap();
    assert!(second.is_pinned() && second.is_adopted());
    next(&mut second, 5);
    second.send(&program()).unwrap();
    let sid = word(&next(&mut second, 0), 4);
    second.send(&message(4, sid, &words(&[1, 0]))).unwrap();
    next(&mut second, 1);
    transfer.end();
    drop(second);
    assert!(is_registered());

    // Before Linux 6.4 it is still registered then, and the next agent ends that.
    place.remove_pins();
    let third = open(Path::new("/nowhere"), Mode::Generated).unwrap();
    assert!(!third.is_pinned());
    drop(third);
    assert!(is_gone());
}
