//! What the process could use when it began, and the mask of the files that it makes. User
//! code that changes them has what it asked for, until the session begins afresh.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

const RESOURCES: [Resource; 12] = [
    Resource::Cpu,
    Resource::Fsize,
    Resource::Data,
    Resource::Stack,
    Resource::Core,
    Resource::Rss,
    Resource::Nproc,
    Resource::Nofile,
    Resource::Memlock,
    Resource::As,
    Resource::Locks,
    Resource::Msgqueue,
];

struct Beginning {
    limits: [Option<u64>; RESOURCES.len()],
    mask: rustix::fs::Mode,
}

static BEGINNING: OnceLock<Beginning> = OnceLock::new();

/// To be called first thing, while there is one thread.
pub fn remember() {
    BEGINNING.get_or_init(|| {
        let mask = umask(rustix::fs::Mode::empty());
        umask(mask);
        Beginning {
            limits: RESOURCES.map(|resource| getrlimit(resource).current),
            mask,
        }
    });
}

/// With fewer descriptors than this there is no toplevel.
const ROOM: u64 = 256;

/// Sees to it that files can be opened, after user code has run; false if they cannot.
pub fn leave_room() -> bool {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= ROOM) {
        return true;
    }
    let current = Some(maximum.map_or(ROOM, |maximum| maximum.min(ROOM)));
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).is_ok() && current != Some(0)
}

/// Sets them as they were, as far as the hard limits are still there.
pub fn restore() {
    let Some(Beginning { limits, mask }) = BEGINNING.get() else {
        return;
    };
    umask(*mask);
    for (resource, before) in RESOURCES.into_iter().zip(limits) {
        let Rlimit { current, maximum } = getrlimit(resource);
        let allowed = match (before, maximum) {
            (Some(before), Some(maximum)) => Some((*before).min(maximum)),
            (None, maximum) => maximum,
            (before, None) => *before,
        };
        if allowed != current {
            let current = allowed;
            let _ = setrlimit(resource, Rlimit { current, maximum });
        }
    }
}
