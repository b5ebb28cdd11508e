//! Files of `~/.topup` that hold what is known by name, as JSON. Shared by all servers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::home;

/// One of them, which holds a `T` for each name.
pub struct Kept<T> {
    name: &'static str,
    holds: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned + Clone + PartialEq + Default> Kept<T> {
    pub const fn new(name: &'static str) -> Kept<T> {
        Kept {
            name,
            holds: PhantomData,
        }
    }

    /// What is known. A file that cannot be understood counts as empty here.
    pub fn read(&self) -> BTreeMap<String, T> {
        let known = folder().and_then(|folder| parse(&folder.join(self.name)));
        known.ok().flatten().unwrap_or_default()
    }

    /// Changes what is known of `name`, which is made if it is not there; returns it, and a
    /// warning if the file was damaged, which is then moved aside.
    pub fn change(
        &self,
        name: &str,
        change: impl FnOnce(&mut T),
    ) -> io::Result<(T, Option<String>)> {
        self.edit(|known| {
            let entry = known.entry(name.to_string()).or_default();
            change(entry);
            entry.clone()
        })
    }

    /// Forgets `name`.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        self.edit(|known| known.remove(name)).map(drop)
    }

    /// Reads, edits and writes the file, while no other server does.
    fn edit<R>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, T>) -> R,
    ) -> io::Result<(R, Option<String>)> {
        let folder = folder()?;
        let path = folder.join(self.name);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join(format!("{}.lock", self.name)))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let (before, warning) = match parse(&path) {
            Ok(known) => (known.unwrap_or_default(), None),
            Err(error) => {
                let aside = home::move_aside(&path)?;
                let warning = format!(
                    "{} could not be read ({error}); it is now {}, and a new one was begun",
                    path.display(),
                    aside.display()
                );
                log::warn!("{warning}");
                (BTreeMap::new(), Some(warning))
            }
        };
        let mut known = before.clone();
        let result = change(&mut known);
        if known != before || warning.is_some() {
            home::store(&path, &serde_json::to_vec_pretty(&known)?)?;
        }
        Ok((result, warning))
    }
}

/// `None` if there is no file.
fn parse<T: DeserializeOwned>(path: &Path) -> io::Result<Option<BTreeMap<String, T>>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn folder() -> io::Result<PathBuf> {
    let folder = home::home()?.join(".topup");
    home::make(&folder)?;
    Ok(folder)
}
