//! A client for real `topup` processes, and the executables under test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// An executable under test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Executable {
    pub variant: &'static str,
    pub path: &'static str,
}

impl Executable {
    /// The name of the archive that it loads.
    pub fn archive(&self, name: &str) -> String {
        let extension = if self.variant == "native" {
            "cmxs"
        } else {
            "cma"
        };
        format!("{name}.{extension}")
    }
}

pub const BYTECODE: Executable = Executable {
    variant: "bytecode",
    path: env!("CARGO_BIN_EXE_topup"),
};
pub const NATIVE: Executable = Executable {
    variant: "native",
    path: env!("CARGO_BIN_EXE_topup-opt"),
};

/// Every executable that this build has.
pub fn executables() -> Vec<Executable> {
    if cfg!(native_toplevel) {
        vec![BYTECODE, NATIVE]
    } else {
        vec![BYTECODE]
    }
}

/// Runs a test for each of them.
pub fn each(test: impl Fn(Executable)) {
    executables().into_iter().for_each(test);
}

/// The evaluation was stopped by its timeout or by a cancellation.
pub fn assert_timed_out(reply: &Value) {
    let error = reply["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("evaluation timed out"), "{reply}");
}

/// What `.ci/toolchain find` answers for `key`.
pub fn toolchain(key: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/toolchain");
    let output = Command::new(script)
        .arg("find")
        .output()
        .expect("the script runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut answers = text.lines().filter_map(|line| line.split_once('='));
    answers
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value.to_string())
        .expect("an answer")
}

/// Runs a program of the OCaml toolchain in `directory`.
pub fn compile(directory: &Path, program: &str, arguments: &[&str]) {
    let status = Command::new(Path::new(&toolchain("bin")).join(program))
        .args(arguments)
        .current_dir(directory)
        .status();
    assert!(
        status.expect("the compiler runs").success(),
        "{program} {arguments:?}"
    );
}

/// Compiles `name.ml`, whose folder it also searches, into an archive for each executable.
pub fn library(directory: &Path, name: &str, source: &str) {
    std::fs::write(directory.join(format!("{name}.ml")), source).expect("written");
    let file = |extension| format!("{name}.{extension}");
    compile(
        directory,
        "ocamlc",
        &["-g", "-a", "-o", &file("cma"), &file("ml")],
    );
    if cfg!(native_toplevel) {
        compile(
            directory,
            "ocamlopt",
            &["-g", "-a", "-o", &file("cmxa"), &file("ml")],
        );
        let arguments = ["-shared", "-linkall", "-o", &file("cmxs"), &file("cmxa")];
        compile(directory, "ocamlopt", &arguments);
    }
}

/// The same with C stubs, in `name_c.c`.
pub fn library_with_stubs(directory: &Path, name: &str, c: &str, ml: &str) {
    let (stubs, object) = (format!("{name}_c.c"), format!("{name}_c.o"));
    let file = |extension| format!("{name}.{extension}");
    std::fs::write(directory.join(&stubs), c).expect("written");
    std::fs::write(directory.join(file("ml")), ml).expect("written");
    compile(directory, "ocamlc", &["-c", &stubs, &file("ml")]);
    let archive = |unit: &str| compile(directory, "ocamlmklib", &["-o", name, &object, unit]);
    archive(&file("cmo"));
    if cfg!(native_toplevel) {
        compile(directory, "ocamlopt", &["-c", &file("ml")]);
        archive(&file("cmx"));
        let link = ["-shared", "-linkall", "-I", "."];
        let files = ["-o", &file("cmxs"), &file("cmxa")];
        compile(directory, "ocamlopt", &[&link[..], &files].concat());
    }
}

/// A small generator with a fixed seed: the same phrases at every run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// A hang is a failure: no process that was heard of no later than this ago lives on.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where servers under test keep their files.
pub const HOME: &str = env!("CARGO_TARGET_TMPDIR");

/// The way to a server.
enum Input {
    Pipe(ChildStdin),
    Socket(UnixStream),
}

impl Input {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Input::Pipe(pipe) => pipe,
            Input::Socket(socket) => socket,
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Input::Socket(socket) = self {
            let _ = socket.shutdown(Shutdown::Write);
        }
    }
}

/// A running server and its client's end.
pub struct Client {
    pub child: Child,
    input: Option<Input>,
    output: BufReader<Box<dyn Read + Send>>,
    next_id: u64,
    over: Arc<AtomicBool>,
    /// When the server last said something.
    heard: Arc<Mutex<Instant>>,
}

impl Client {
    pub fn start(executable: Executable) -> Client {
        Client::start_with(executable, |_| {})
    }

    /// Starts the server after `configure` had its way with the command.
    pub fn start_with(executable: Executable, configure: impl FnOnce(&mut Command)) -> Client {
        let mut command = Command::new(executable.path);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env("HOME", HOME)
            .env_remove("TOPUP_LOG")
            .env_remove("OCAMLRUNPARAM");
        configure(&mut command);
        let mut child = command.spawn().expect("the executable starts");
        let output = child.stdout.take().expect("stdout is piped");
        let input = child.stdin.take().map(Input::Pipe);
        Client::of(child, input, Box::new(output))
    }

    /// Starts a server on a socket and connects to it.
    pub fn start_on_socket(
        executable: Executable,
        path: &Path,
        configure: impl FnOnce(&mut Command),
    ) -> Client {
        let mut client = Client::start_with(executable, |command| {
            command.arg("--socket").arg(path).stderr(Stdio::null());
            configure(command);
        });
        let socket = loop {
            match UnixStream::connect(path) {
                Ok(socket) => break socket,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
            assert!(
                client.child.try_wait().expect("asked").is_none(),
                "it ended"
            );
        };
        let output = socket.try_clone().expect("a copy");
        client.input = Some(Input::Socket(socket));
        client.output = BufReader::new(Box::new(output));
        client
    }

    fn of(child: Child, input: Option<Input>, output: Box<dyn Read + Send>) -> Client {
        let output = BufReader::new(output);
        let over = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(Mutex::new(Instant::now()));
        watch(child.id(), Arc::clone(&over), Arc::clone(&heard));
        Client {
            child,
            input,
            output,
            next_id: 0,
            over,
            heard,
        }
    }

    pub fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().expect("input is open").writer();
        input
            .write_all(line.as_bytes())
            .and_then(|()| input.write_all(b"\n"))
            .expect("written");
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.input
            .as_mut()
            .expect("input is open")
            .writer()
            .write_all(bytes)
            .expect("written");
    }

    /// Sends a request and returns its id.
    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        let line = self.request_line(method, params);
        self.send_line(&line);
        self.next_id
    }

    fn request_line(&mut self, method: &str, params: Value) -> String {
        self.next_id += 1;
        let id = self.next_id;
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    }

    /// The line that asks for a call of `tool`, for those who send it themselves.
    pub fn call_line(&mut self, tool: &str, arguments: Value) -> String {
        self.request_line(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
    }

    /// Asks for a call of `tool` without waiting; returns the request's id.
    pub fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        let line = self.call_line(tool, arguments);
        self.send_line(&line);
        self.next_id
    }

    /// The next message; panics if the server says nothing more.
    pub fn receive(&mut self) -> Value {
        self.try_receive()
            .unwrap_or_else(|| panic!("the server ended: {}", self.wait()))
    }

    pub fn try_receive(&mut self) -> Option<Value> {
        let line = self.receive_line();
        let parse = || serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        (!line.is_empty()).then(parse)
    }

    /// The next line as it came; empty if there is none.
    pub fn receive_line(&mut self) -> String {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .expect("output is readable text");
        *self.heard.lock().expect("nobody panics with it") = Instant::now();
        line
    }

    /// Calls a tool, waits for that very answer, returns payload and `isError`.
    pub fn call(&mut self, tool: &str, arguments: Value) -> (Value, bool) {
        let id = self.begin_call(tool, arguments);
        let reply = self.receive();
        assert_eq!(reply["id"], id, "{reply}");
        payload(&reply)
    }

    pub fn eval(&mut self, source: &str) -> Value {
        self.call("eval", json!({ "source": source })).0
    }

    pub fn eval_within(&mut self, source: &str, seconds: f64) -> Value {
        self.call("eval", json!({ "source": source, "timeout": seconds }))
            .0
    }

    /// Ends the client's input.
    pub fn finish_input(&mut self) {
        self.input = None;
    }

    /// Ends the input, returns what was still to come and the status.
    pub fn finish(mut self) -> (Vec<Value>, ExitStatus) {
        self.finish_input();
        let mut rest = Vec::new();
        while let Some(message) = self.try_receive() {
            rest.push(message);
        }
        (rest, self.wait())
    }

    /// Waits for the process to end by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("waited")
    }

    /// Resident memory in megabytes.
    pub fn resident(&self) -> f64 {
        resident(self.child.id())
    }

    pub fn signal(&self, name: &str) {
        assert!(kill(name, self.child.id()), "kill -s {name}");
    }
}

/// Resident memory of a process in megabytes.
pub fn resident(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("VmRSS");
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<f64>()
        .expect("a number")
        / 1024.0
}

/// The shell's own `kill`: a command of that name is not everywhere.
fn kill(signal: &str, pid: u32) -> bool {
    let script = format!("kill -s {signal} {pid}");
    Command::new("sh")
        .args(["-c", &script])
        .status()
        .is_ok_and(|status| status.success())
}

impl Drop for Client {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The payload and `isError` of a tool's reply.
pub fn payload(reply: &Value) -> (Value, bool) {
    let content = &reply["result"]["content"];
    assert_eq!(
        content.as_array().map(Vec::len),
        Some(1),
        "one item: {reply}"
    );
    let text = content[0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("a text: {reply}"));
    let is_error = reply["result"]["isError"]
        .as_bool()
        .expect("isError is there");
    (
        serde_json::from_str(text).expect("the text is JSON"),
        is_error,
    )
}

fn watch(pid: u32, over: Arc<AtomicBool>, heard: Arc<Mutex<Instant>>) {
    thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            let silence = heard.lock().expect("nobody panics with it").elapsed();
            if silence > PATIENCE {
                eprintln!("process {pid} hangs; ending it");
                kill("KILL", pid);
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
    });
}
