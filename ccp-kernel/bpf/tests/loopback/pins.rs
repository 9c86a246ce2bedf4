// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
//! A registration that is pinned in a BPF file system.

use super::support::{
    Transfer, is_gone, is_registered, message, next, open, program, registered_in, word, words,
};
use anole_bpf::{BpfDatapath, Error, Mode};
use libbpf_rs::{MapCore, MapHandle};
use nix::mount::{MsFlags, mount, umount};
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A BPF file system; gone when it is dropped.
pub struct BpfFs(pub PathBuf);

impl BpfFs {
    fn mount() -> nix::Result<BpfFs> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("anole-bpf-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let place = BpfFs(folder);
        mount(Some("bpf"), &place.0, Some("bpf"), MsFlags::empty(), None::<&str>).map(|()| place)
    }

    /// `None`, with the reason printed, where none can be mounted.
    pub fn mount_or_skip() -> Option<BpfFs> {
        match BpfFs::mount() {
            Ok(place) => Some(place),
            Err(error) => {
                anole_testing::skip!("no BPF file system can be mounted here ({error})");
                None
            }
        }
    }

    /// As an administrator would.
    pub fn remove_pins(&self) {
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
fn pins_of_what_is_registered_no_more_are_not_taken_over() {
    let Some(place) = BpfFs::mount_or_skip() else { return };
    let Some((first, _guard)) = registered_in(&place.0, Mode::Generated) else { return };
    drop(first);
    let folder = std::fs::read_dir(place.0.join("anole_ccp")).unwrap().next().unwrap().unwrap().path();
    let pins = std::fs::read_dir(&folder).unwrap().map(|pin| pin.unwrap().path());
    let is_registration =
        |pin: &std::path::PathBuf| pin.file_name().unwrap().to_string_lossy().starts_with("registered");
    for pin in pins.filter(is_registration) {
        // As `bpftool struct_ops unregister` before Linux 6.4, which leaves the pin; later another map's stands for it.
        let map = MapHandle::from_pinned_path(&pin);
        if map.and_then(|map| map.delete(&0u32.to_ne_bytes())).is_err() {
            std::fs::remove_file(&pin).unwrap();
            std::fs::hard_link(folder.join("agent"), &pin).unwrap();
        }
    }
    assert!(is_gone());
    let second = open(&place.0, Mode::Generated).unwrap();
    assert!(!second.is_adopted() && is_registered());
}

#[test]
fn a_pinned_registration_outlives_its_agent() {
    let Some(place) = BpfFs::mount_or_skip() else { return };
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

/// Somebody without privileges.
const NOBODY: u32 = 65_534;

/// What another user puts where the pins go, in a BPF file system that everybody may write to, neither keeps the agent out
/// nor has it remove anything elsewhere.
#[test]
fn what_others_put_in_place_of_the_pins_is_neither_used_nor_followed() {
    let Some(place) = BpfFs::mount_or_skip() else { return };
    let victim = std::env::temp_dir().join(format!("anole-victim-{}", std::process::id()));
    std::fs::create_dir_all(victim.join("folder")).unwrap();
    std::fs::write(victim.join("folder/file"), "precious").unwrap();
    let root = place.0.join("anole_ccp");
    let folder = |root: &Path| {
        std::fs::create_dir(root).unwrap();
        symlink(victim.join("folder"), root.join("link")).unwrap();
        chown(root, Some(NOBODY), Some(NOBODY)).unwrap();
    };
    let link = |root: &Path| symlink(&victim, root).unwrap();
    for put in [&folder as &dyn Fn(&Path), &link] {
        put(&root);
        let Some((datapath, _guard)) = registered_in(&place.0, Mode::Generated) else { return };
        assert!(datapath.is_pinned());
        let made = std::fs::symlink_metadata(&root).unwrap();
        assert!(made.is_dir() && made.uid() == 0 && made.mode() & 0o7777 == 0o700, "{made:?}");
        drop(datapath);
        place.remove_pins();
        // Before Linux 6.4 the next agent ends the registration.
        drop(open(Path::new("/nowhere"), Mode::Generated).unwrap());
        assert!(is_gone());
    }
    assert_eq!(std::fs::read_to_string(victim.join("folder/file")).unwrap(), "precious");
    std::fs::remove_dir_all(victim).unwrap();
}
