//! Waits for worker processes, so that none is left as a zombie.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, pidfd_open,
    waitid,
};
use tokio::sync::watch;

use super::conversation::Conversation;
use crate::end::End;
use crate::transport::ready;
use crate::{process_group, stdio};

/// Waits for a child of this process in a task of its own. What it has started ends with it.
pub fn watch(
    pid: Pid,
    conversation: Arc<Conversation>,
) -> io::Result<watch::Receiver<Option<End>>> {
    let process = stdio::private(&pidfd_open(pid, PidfdFlags::empty())?)?;
    let process = ready::watch(File::from(process))
        .ok_or_else(|| io::Error::other("a process cannot be watched"))?;
    let (ended, end) = watch::channel(None);
    tokio::spawn(async move {
        let status = loop {
            if let Err(error) = process
                .readable()
                .await
                .map(|mut ready| ready.clear_ready())
            {
                log::error!("watching worker {pid:?}: {error}");
                break None;
            }
            let which = WaitId::PidFd(process.get_ref().as_fd());
            match waitid(which, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
                Ok(None) => {}
                Ok(status) => break status,
                Err(error) => {
                    log::error!("waiting for worker {pid:?}: {error}");
                    break None;
                }
            }
        };
        process_group::forget(pid.as_raw_nonzero().get());
        for group in conversation.groups() {
            process_group::signal(group, Signal::KILL);
            process_group::forget(group);
        }
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = ended.send(Some(status.map_or(End::Exit(0), |status| end_of(&status))));
    });
    Ok(end)
}

fn end_of(status: &WaitIdStatus) -> End {
    match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) => End::Signal(signal),
        (None, status) => End::Exit(status.unwrap_or_default()),
    }
}
