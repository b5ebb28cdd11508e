//! Texts too long for a reply: cut inline, whole in a file.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, linkat};
use serde::{Deserialize, Serialize};

use crate::home;

/// How many spilled files are kept; the oldest go.
const KEPT: usize = 100;

/// A text as a reply shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// The whole text, or its head and the marker that says what is missing.
    pub inline: String,
    /// The file that holds the whole text, if it was cut.
    pub overflow: Option<PathBuf>,
}

impl Cut {
    /// A text that fits. Bytes that are not UTF-8 become U+FFFD.
    pub fn whole(bytes: Vec<u8>) -> Cut {
        let inline = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Cut {
            inline,
            overflow: None,
        }
    }

    /// A text of `length` bytes that begins with `head`, stored as `file` says.
    pub fn spilled(mut head: Vec<u8>, length: u64, file: io::Result<PathBuf>) -> Cut {
        head.truncate(character_boundary(&head));
        let missing = length - head.len() as u64;
        let mut cut = Cut::whole(head);
        match file {
            Ok(path) => {
                cut.inline += &format!("…[+{missing} bytes; full at {}]", path.display());
                cut.overflow = Some(path);
            }
            Err(error) => {
                cut.inline +=
                    &format!("…[+{missing} bytes; not kept in ~/.topup/overflow: {error}]");
            }
        }
        cut
    }

    /// `text`, cut after `inline_max` bytes if it is longer.
    pub fn text(name: &str, text: String, inline_max: usize) -> Cut {
        if text.len() <= inline_max {
            return Cut {
                inline: text,
                overflow: None,
            };
        }
        let file = store(name, &mut text.as_bytes());
        let length = text.len() as u64;
        let mut head = text.into_bytes();
        head.truncate(inline_max);
        Cut::spilled(head, length, file)
    }
}

/// The length of `bytes` without a UTF-8 character that its end cuts in two.
fn character_boundary(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    for start in (tail..bytes.len()).rev() {
        let wanted = match bytes[start] {
            0x80..=0xBF => continue,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        };
        return if start + wanted > bytes.len() {
            start
        } else {
            bytes.len()
        };
    }
    bytes.len()
}

/// `~/.topup/overflow`, made if it is not there, for this user alone.
pub fn directory() -> io::Result<PathBuf> {
    home::folder("overflow")
}

/// Writes all of `text` to a new file of mode 0600 and returns its path.
pub fn store(name: &str, text: &mut impl Read) -> io::Result<PathBuf> {
    let directory = directory()?;
    home::prune(&directory, KEPT, |_| false);
    let prefix = format!("{name}-");
    let mut file = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".txt")
        .tempfile_in(directory)?;
    io::copy(text, file.as_file_mut())?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok(path)
}

/// Gives an unlinked file of mode 0600 on the same file system a name here.
pub fn adopt(name: &str, file: &File) -> io::Result<PathBuf> {
    let directory = directory()?;
    home::prune(&directory, KEPT, |_| false);
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |path: &Path| {
        Ok(linkat(
            CWD,
            &descriptor,
            CWD,
            path,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    };
    let prefix = format!("{name}-");
    let link = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".txt")
        .make_in(directory, link)?;
    link.into_temp_path().keep().map_err(|error| error.error)
}
