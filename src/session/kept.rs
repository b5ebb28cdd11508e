//! Files of `~/.topup` that hold what is known by name, as JSON. Shared by all servers, and
//! by people: an entry that breaks a rule is left alone and not used.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::{task, time};

use crate::home;

/// What is known of a name.
pub trait Entry: Serialize + Clone + Default + Send + 'static {
    /// What the file says of `name`; the error is the rule that this breaks.
    fn read(name: &str, fields: Map<String, Value>) -> Result<Self, String>;
}

/// One of the files, which holds a `T` for each name.
pub struct Kept<T> {
    name: &'static str,
    holds: PhantomData<fn() -> T>,
}

/// How long another process may hold the file's lock.
const HELD: Duration = Duration::from_secs(10);
/// How often the lock is tried.
const TRY: Duration = Duration::from_millis(5);

impl<T: Entry> Kept<T> {
    pub const fn new(name: &'static str) -> Kept<T> {
        Kept {
            name,
            holds: PhantomData,
        }
    }

    /// What is known. A file that cannot be understood counts as empty here.
    pub fn read(&self) -> BTreeMap<String, T> {
        let read = |(name, value): (String, Value)| {
            let entry = T::read(&name, object(value).ok()?).ok()?;
            Some((name, entry))
        };
        self.raw().into_iter().filter_map(read).collect()
    }

    /// What there is of `name` that is not used, and why.
    pub fn refused(&self, name: &str) -> Option<String> {
        self.refusal(name, self.raw().remove(name)?)
    }

    /// The same for all names.
    pub fn all_refused(&self) -> Vec<String> {
        let refusal = |(name, value): (String, Value)| self.refusal(&name, value);
        self.raw().into_iter().filter_map(refusal).collect()
    }

    fn refusal(&self, name: &str, value: Value) -> Option<String> {
        let rule = object(value)
            .and_then(|fields| T::read(name, fields))
            .err()?;
        let warning = format!(
            "the entry {name:?} of ~/.topup/{} is not used and was left as it is: {rule}",
            self.name
        );
        log::warn!("{warning}");
        Some(warning)
    }

    /// Whether the file has anything of `name`.
    pub fn holds(&self, name: &str) -> bool {
        self.raw().contains_key(name)
    }

    fn raw(&self) -> Map<String, Value> {
        let raw = folder().and_then(|folder| parse(&folder.join(self.name)));
        raw.ok().flatten().unwrap_or_default()
    }

    /// Changes what is known of `name`, which is made if it is not there; returns it, and a
    /// warning if the file was damaged, which is then moved aside. Nothing is changed if this
    /// is dropped while it waits for the file, here and below.
    pub async fn change(
        &self,
        name: &str,
        change: impl FnOnce(&mut T) + Send + 'static,
    ) -> io::Result<(T, Option<String>)> {
        let (name, file) = (name.to_string(), Kept::<T>::new(self.name));
        let edited = self.edit(move |known| {
            let mut entry = T::default();
            if let Some(there) = known.get(&name) {
                if let Some(refusal) = file.refusal(&name, there.clone()) {
                    return Err(io::Error::other(refusal));
                }
                entry = object(there.clone())
                    .and_then(|fields| T::read(&name, fields))
                    .map_err(io::Error::other)?;
            }
            change(&mut entry);
            known.insert(name, serde_json::to_value(&entry)?);
            Ok(entry)
        });
        let (changed, warning) = edited.await?;
        Ok((changed?, warning))
    }

    /// Forgets `name`.
    pub async fn forget(&self, name: &str) -> io::Result<()> {
        let name = name.to_string();
        let forget = move |known: &mut Map<String, Value>| drop(known.remove(&name));
        self.edit(forget).await.map(drop)
    }

    /// Reads, edits and writes the file, while no other server does.
    async fn edit<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Map<String, Value>) -> R + Send + 'static,
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
    let options = options.create(true).truncate(false).write(true);
    let lock = options.open(path).map_err(|error| of(path, error))?;
    let mut tries = HELD.as_millis() / TRY.as_millis();
    while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if error != Errno::WOULDBLOCK {
            return Err(of(path, error.into()));
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
fn edit<R>(
    path: &Path,
    change: impl FnOnce(&mut Map<String, Value>) -> R,
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
            (Map::new(), Some(warning))
        }
    };
    let mut known = before.clone();
    let result = change(&mut known);
    if known != before || warning.is_some() {
        let text = serde_json::to_vec_pretty(&known)?;
        home::store(path, &text).map_err(|error| of(path, error))?;
    }
    Ok((result, warning))
}

fn object(value: Value) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err("an entry must be an object".into()),
    }
}

/// `None` if there is no file.
fn parse(path: &Path) -> io::Result<Option<Map<String, Value>>> {
    match read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Never waits for another process, as a fifo would have it.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    let no_wait = OFlags::NONBLOCK.bits() as i32;
    let mut file = options.read(true).custom_flags(no_wait).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text)
}

fn folder() -> io::Result<PathBuf> {
    let folder = home::home()?.join(".topup");
    home::make(&folder).map_err(|error| of(&folder, error))?;
    Ok(folder)
}

fn of(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
