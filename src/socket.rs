//! The unix socket that clients connect to, one after the other.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, flock};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{geteuid, umask};

use crate::{home, stdio};

/// A listening socket, whose file goes with it.
pub struct Socket {
    listener: tokio::net::UnixListener,
    path: PathBuf,
    /// Device and inode of the file: another server may have put its own there since.
    file: (u64, u64),
}

/// What there is at the path of a socket.
pub enum Claimed {
    Ours(UnixListener),
    /// Another process serves there.
    Live,
}

/// Listens at `path`, for this user alone from the first moment on, in a folder that is made
/// if it is not there. A file that nobody listens behind is replaced. To be called while there
/// is one thread.
pub fn claim(path: &Path) -> io::Result<Claimed> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    home::make(folder)?;
    // Of two that come at the same time, one finds the other's socket.
    let alone = File::open(folder)?;
    flock(&alone, FlockOperation::LockExclusive)?;
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(io::Error::other(
                "there is a file of that name that is no socket",
            ));
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Too many wait already.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Claimed::Live),
            Err(error) => return Err(error),
            Ok(_) => return Ok(Claimed::Live),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let listener = UnixListener::bind(path);
    umask(before);
    Ok(Claimed::Ours(listener?))
}

impl Socket {
    /// The socket at `path` that `listener` is. To be called inside the tokio runtime.
    pub fn new(listener: OwnedFd, path: PathBuf) -> io::Result<Socket> {
        let listener = UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        let metadata = fs::symlink_metadata(&path);
        Ok(Socket {
            listener: tokio::net::UnixListener::from_std(listener)?,
            // Without a file there is none to remove.
            file: metadata.map_or((0, 0), |there| (there.dev(), there.ino())),
            path,
        })
    }

    /// The next client of this user. Others are turned away.
    pub async fn accept(&self) -> io::Result<OwnedFd> {
        loop {
            let (client, _) = self.listener.accept().await?;
            let client = client.into_std()?;
            client.set_nonblocking(false)?;
            let user = socket_peercred(&client)?.uid;
            if user == geteuid() {
                return stdio::private(&client);
            }
            log::warn!("a client of user {} was turned away", user.as_raw());
        }
    }

    /// Absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Removes the file, if it is still this socket's.
    pub fn remove(&self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|there| (there.dev(), there.ino()) == self.file);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}
