//! Files of `~/.topup` that hold what is known by name, as JSON. Shared by all servers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::{task, time};

use crate::home;

/// One of them, which holds a `T` for each name.
pub struct Kept<T> {
    name: &'static str,
    holds: PhantomData<fn() -> T>,
}

/// How long another process may hold the file's lock.
const HELD: Duration = Duration::from_secs(10);
/// How often the lock is tried.
const TRY: Duration = Duration::from_millis(5);

impl<T: Serialize + DeserializeOwned + Clone + PartialEq + Default + 'static> Kept<T> {
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
    /// warning if the file was damaged, which is then moved aside. Nothing is changed if this
    /// is dropped while it waits for the file, here and below.
    pub async fn change(
        &self,
        name: &str,
        change: impl FnOnce(&mut T) + Send + 'static,
    ) -> io::Result<(T, Option<String>)>
    where
        T: Send,
    {
        let name = name.to_string();
        self.edit(move |known| {
            let entry = known.entry(name).or_default();
            change(entry);
            entry.clone()
        })
        .await
    }

    /// Forgets `name`.
    pub async fn forget(&self, name: &str) -> io::Result<()> {
        let name = name.to_string();
        let forget = move |known: &mut BTreeMap<String, T>| drop(known.remove(&name));
        self.edit(forget).await.map(drop)
    }

    /// Reads, edits and writes the file, while no other server does.
    async fn edit<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, T>) -> R + Send + 'static,
    ) -> io::Result<(R, Option<String>)> {
        let folder = folder()?;
        let lock = locked(&folder.join(format!("{}.lock", self.name))).await?;
        let path = folder.join(self.name);
        let edited = task::spawn_blocking(move || {
            let _lock = lock;
            edit(&path, change)
        });
        edited.await.map_err(io::Error::other)?
    }
}

/// The file `path`, once no other process holds its lock.
async fn locked(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let lock = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    let mut tries = HELD.as_millis() / TRY.as_millis();
    while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK {
            return Err(error.into());
        }
        if tries == 0 {
            let (path, held) = (path.display(), HELD.as_secs());
            return Err(io::Error::other(format!(
                "another process has held the lock of {path} for {held} s; nothing was written, \
                 try again when it has let go"
            )));
        }
        tries -= 1;
        time::sleep(TRY).await;
    }
    Ok(lock)
}

/// Also returns a warning if the file was damaged, which is then moved aside.
fn edit<T: Serialize + DeserializeOwned + Clone + PartialEq, R>(
    path: &Path,
    change: impl FnOnce(&mut BTreeMap<String, T>) -> R,
) -> io::Result<(R, Option<String>)> {
    let (before, warning) = match parse(path) {
        Ok(known) => (known.unwrap_or_default(), None),
        Err(error) => {
            let aside = home::move_aside(path)?;
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
        home::store(path, &serde_json::to_vec_pretty(&known)?)?;
    }
    Ok((result, warning))
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
