//! A real OpenSSH server on a port of its own, with keys and homes of its own.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Ended with its sessions when it is dropped.
pub struct Sshd {
    daemon: Child,
    pub port: u16,
    folder: TempDir,
    config: String,
}

/// Where `sshd` is: not on everybody's PATH.
fn program(name: &str) -> PathBuf {
    let places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let found = places.iter().map(|place| Path::new(place).join(name));
    found
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("there is no {name}: .ci/toolchain ssh installs it"))
}

pub fn keygen(path: &Path) {
    let mut command = Command::new(program("ssh-keygen"));
    command
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path);
    assert!(command.status().expect("ssh-keygen runs").success());
}

impl Sshd {
    /// Starts one whose sessions have `environment`, which takes `authorized` keys, with
    /// more lines of configuration.
    pub fn start(authorized: &Path, environment: &[(&str, &str)], more: &str) -> Sshd {
        // It keeps what it must not have; made where there is none, as Debian's own service does.
        let _ = fs::create_dir_all("/run/sshd");
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        keygen(Path::new(&at("host_key")));
        let set: Vec<String> = environment
            .iter()
            .map(|(name, value)| format!("\"{name}={value}\""))
            .collect();
        let config = format!(
            "ListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\n\
             StrictModes no\nPasswordAuthentication no\nUsePAM no\nPermitRootLogin yes\n\
             SetEnv {}\nLogLevel VERBOSE\nMaxStartups 100\nSubsystem sftp internal-sftp\n{more}\n",
            at("host_key"),
            authorized.display(),
            set.join(" "),
        );
        let port = free_port();
        let daemon = run(folder.path(), &config, port);
        Sshd {
            daemon,
            port,
            folder,
            config,
        }
    }

    /// Ends the daemon and everything that it serves.
    pub fn stop(&mut self) {
        let sessions = descendants(self.daemon.id());
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        // Those of sshd itself (sshd-session, sshd-auth): what a session has started is not ended
        // by this.
        for session in sessions {
            let name = fs::read_to_string(format!("/proc/{session}/comm")).unwrap_or_default();
            if name.starts_with("sshd") {
                kill("KILL", session);
            }
        }
    }

    /// How many connections it has.
    pub fn sessions(&self) -> usize {
        children(self.daemon.id()).len()
    }

    /// Starts it again on the same port.
    pub fn start_again(&mut self) {
        self.daemon = run(self.folder.path(), &self.config, self.port);
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let all = descendants(self.daemon.id());
        self.stop();
        for process in all {
            kill("KILL", process);
        }
    }
}

fn run(folder: &Path, config: &str, port: u16) -> Child {
    let file = folder.join("sshd_config");
    fs::write(&file, format!("Port {port}\n{config}")).expect("written");
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("log"));
    let mut daemon = Command::new(program("sshd"))
        .arg("-D")
        .arg("-e")
        .arg("-f")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.expect("a log"))
        .spawn()
        .expect("sshd runs");
    let limit = Instant::now() + Duration::from_secs(20);
    loop {
        // It greets first.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let mut greeting = [0; 4];
            if stream.read_exact(&mut greeting).is_ok() && &greeting == b"SSH-" {
                return daemon;
            }
        }
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(daemon.try_wait().unwrap().is_none(), "sshd: {}", log());
        assert!(Instant::now() < limit, "sshd does not greet: {}", log());
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

pub fn kill(signal: &str, pid: u32) {
    let script = format!("kill -s {signal} {pid} 2>/dev/null");
    let _ = Command::new("sh").args(["-c", &script]).status();
}

/// Every process below one.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut next = vec![pid];
    while let Some(pid) = next.pop() {
        for child in children(pid) {
            found.push(child);
            next.push(child);
        }
    }
    found
}

/// Every child of a process, whichever of its threads has started it.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let lists = threads
        .flatten()
        .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let lists: Vec<String> = lists.collect();
    let numbers = lists.iter().flat_map(|list| list.split_whitespace());
    numbers.flat_map(str::parse).collect()
}

/// An executable shell script.
pub fn script(path: &Path, text: &str) {
    let mut file = fs::File::create(path).expect("a file");
    writeln!(file, "#!/bin/sh\n{text}").expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}
