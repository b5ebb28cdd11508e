//! Children of this process that nobody waits for: processes whose parents have ended while
//! this one was the reaper of orphans.
//!
//! The kernel gives them to the main thread. Children of user code are its own to wait for,
//! and are those of the threads that started them; no call here can take one of these.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};

use crate::mutex::lock;
use crate::process_group;

/// Those that have not ended yet.
static ORPHANS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// How often it is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(500);

/// While this is held, orphans among the descendants of this process become its children.
/// Those that are there then are waited for, but for what is said to be ours. To be used on
/// the main thread, inside the tokio runtime.
pub struct Inheritance {
    before: BTreeSet<i32>,
    ours: Option<i32>,
}

impl Inheritance {
    pub fn begin() -> io::Result<Inheritance> {
        let threads = fs::read_dir("/proc/self/task")?.flatten();
        let before = threads
            .flat_map(|thread| children(&thread.path()))
            .collect();
        set_child_subreaper(Some(getpid()))?;
        Ok(Inheritance { before, ours: None })
    }

    /// Somebody will wait for this one.
    pub fn is_ours(&mut self, pid: Pid) {
        self.ours = Some(pid.as_raw_nonzero().get());
    }
}

impl Drop for Inheritance {
    fn drop(&mut self) {
        no_more();
        let was_there = |child: &i32| self.before.contains(child) || self.ours == Some(*child);
        let mut inherited = children_of_main();
        inherited.retain(|child| !was_there(child));
        adopt(inherited);
    }
}

/// Takes on what the image of this process before this one has started or inherited and not
/// handed on. To be called once, when all that was handed on is listed.
pub fn take_strays() {
    no_more();
    adopt(children_of_main());
}

fn no_more() {
    if let Err(error) = set_child_subreaper(None) {
        log::error!("giving up orphans: {error}");
    }
}

fn adopt(children: BTreeSet<i32>) {
    let mut orphans = lock(&ORPHANS);
    let is_looked_after = !orphans.is_empty();
    orphans.extend(children);
    reap(&mut orphans);
    if !is_looked_after && !orphans.is_empty() {
        tokio::spawn(async {
            loop {
                tokio::time::sleep(LOOK).await;
                let mut orphans = lock(&ORPHANS);
                reap(&mut orphans);
                if orphans.is_empty() {
                    return;
                }
            }
        });
    }
}

/// Waits for those that have ended.
fn reap(orphans: &mut BTreeSet<i32>) {
    // Of the main thread, in which this is called.
    const OWN_ONLY: WaitIdOptions = WaitIdOptions::from_bits_retain(libc::__WNOTHREAD as u32);
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | OWN_ONLY;
    orphans.retain(|orphan| {
        let pid = Pid::from_raw(*orphan).filter(|_| !process_group::runs(*orphan));
        pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), ended), Ok(None)))
    });
}

fn children_of_main() -> BTreeSet<i32> {
    let main = format!("/proc/self/task/{}", std::process::id());
    let mut children = children(main.as_ref());
    children.retain(|child| !process_group::runs(*child));
    children
}

/// What a thread has started or inherited and not waited for.
fn children(thread: &Path) -> BTreeSet<i32> {
    let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
    children.split_whitespace().flat_map(str::parse).collect()
}
