//! Input and output that no well-behaved client would make: lines of all lengths and at
//! every pace, readers that stop or go.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use topup::transport::{BadLine, Lines, MAX_LINE};

use crate::support::{BYTECODE, Client, HOME, each, payload};

#[test]
fn a_line_that_is_too_long_is_answered_once_and_skipped() {
    let mut lines = Lines::default();
    let mut messages = Vec::new();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..2 * MAX_LINE / chunk.len() + 2 {
        lines.push(&chunk);
        messages.extend(lines.next_message());
    }
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].content, Err(BadLine::TooLong(MAX_LINE)));
    assert!(lines.rest().is_empty(), "what is skipped is not kept");
    lines.push(b"end of it\n\n 1 \n2");
    assert_eq!(
        lines.next_message().expect("one more").content,
        Ok(json!(1))
    );
    assert_eq!(lines.next_message(), None);
    assert_eq!(lines.finish().expect("the last").content, Ok(json!(2)));
}

#[test]
fn a_long_line_that_is_no_message_costs_one_error() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let kept = 1");
        client.send_line(&"x".repeat(20_000_000));
        client.send_line(&format!("[{}", "1,".repeat(10_000_000)));
        for _ in 0..2 {
            assert_eq!(client.receive()["error"]["code"], -32700);
        }
        assert_eq!(client.eval("kept")["value_repr"], "1");
    });
}

#[test]
fn ten_thousand_requests_in_one_write_are_answered_in_order() {
    each(|executable| {
        let mut client = Client::start(executable);
        client.eval("let n = ref 0");
        // A native phrase takes ten milliseconds.
        let every = if executable.variant == "native" {
            100
        } else {
            2
        };
        let mut bytes = Vec::new();
        for index in 0..10_000 {
            let line = match index % every {
                0 => client.call_line("eval", json!({ "source": "incr n; !n" })),
                _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":\"p{index}\",\"method\":\"ping\"}}"),
            };
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        // Nobody reads before all is written.
        client.send_bytes(&bytes);
        let mut counted = 0;
        for _ in 0..10_000 {
            let reply = client.receive();
            if reply["id"].is_u64() {
                counted += 1;
                assert_eq!(payload(&reply).0["value_repr"], counted.to_string());
            } else {
                assert_eq!(reply["result"], json!({}), "{reply}");
            }
        }
        assert_eq!(counted, 10_000 / every);
        assert_eq!(client.eval("!n")["value_repr"], counted.to_string());
    });
}

#[test]
fn a_request_may_come_byte_by_byte_while_another_runs() {
    let mut client = Client::start(BYTECODE);
    let first = client.begin_call("eval", json!({ "source": "while true do () done" }));
    let cancel = client.call_line("cancel", json!({}));
    for byte in cancel.as_bytes() {
        client.send_bytes(&[*byte]);
        std::thread::yield_now();
    }
    client.send_bytes(b"\r\n");
    assert_eq!(payload(&client.receive()).0["cancelled"], true);
    assert_eq!(client.receive()["id"], first);
}

/// The most that was in memory at a time, in megabytes.
fn peak(client: &Client) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", client.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<f64>().unwrap() / 1024.0
}

#[test]
fn a_reader_that_stops_holds_the_work_up_and_loses_nothing() {
    each(|executable| {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let mut client = Client::start_with(executable, |command| {
            command.env("TOPUP_INLINE_MAX", "2000000");
        });
        client.eval(&format!(
            "let work c = let oc = open_out_gen [Open_append; Open_creat] 0o600 {count:?} in \
             output_char oc '.'; close_out oc; print_string (String.make 1_000_000 c)"
        ));
        const REPLIES: usize = 400;
        let before = peak(&client);
        for _ in 0..REPLIES {
            client.begin_call("eval", json!({ "source": "work 'x'" }));
        }
        // Until nothing more happens for a while: there is no other sign of a server that waits.
        let done = || fs::metadata(&count).map_or(0, |metadata| metadata.len() as usize);
        let (mut seen, mut looks) = (0, 0);
        while looks < 100 {
            std::thread::sleep(Duration::from_millis(10));
            looks = if done() == seen { looks + 1 } else { 0 };
            seen = done();
        }
        assert!(seen > 10, "work goes on while nobody reads: {seen}");
        assert!(seen < REPLIES / 2, "work stops when too much waits: {seen}");
        for index in 0..REPLIES {
            let reply = client.receive();
            assert_eq!(reply["id"], index + 2);
            let (reply, _) = payload(&reply);
            assert_eq!(reply["stdout"].as_str().map(str::len), Some(1_000_000));
        }
        assert_eq!(done(), REPLIES);
        let grown = peak(&client) - before;
        assert!(grown < 200.0, "{grown} MB more");
        assert_eq!(client.eval("1 + 1")["value_repr"], "2");
    });
}

#[test]
fn an_output_that_was_made_non_blocking_is_written_whole() {
    each(|executable| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut child = Command::new(executable.path)
            .stdin(Stdio::piped())
            .stdout(OwnedFd::from(theirs))
            .env("HOME", HOME)
            .env("TOPUP_INLINE_MAX", "2000000")
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        for id in 0..20 {
            // Long and short ones, by both ways out.
            let size = if id % 2 == 0 { 1_000_000 } else { 3000 };
            writeln!(
                input,
                "{}",
                call(id, &format!("print_string (String.make {size} 'x')"))
            )
            .unwrap();
        }
        drop(input);
        let lines = BufReader::new(ours).lines();
        let replies: Vec<Value> = lines
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect();
        assert_eq!(replies.len(), 20);
        for (id, reply) in replies.iter().enumerate() {
            assert_eq!(reply["id"], id);
            let size = if id % 2 == 0 { 1_000_000 } else { 3000 };
            assert_eq!(payload(reply).0["stdout"].as_str().unwrap().len(), size);
        }
        assert!(child.wait().unwrap().success());
    });
}

fn call(id: usize, source: &str) -> Value {
    let params = json!({ "name": "eval", "arguments": { "source": source } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn start() -> Child {
    Command::new(BYTECODE.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .env("HOME", HOME)
        .env("TOPUP_INLINE_MAX", "2000000")
        .spawn()
        .unwrap()
}

#[test]
fn a_reader_that_goes_is_noticed_while_an_evaluation_runs() {
    let mut child = start();
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let run = "print_string \"on\"; while true do () done";
    writeln!(input, "{}\n{}", call(1, "2"), call(2, run)).unwrap();
    output.read_exact(&mut [0]).unwrap();
    drop(output);
    assert!(child.wait().unwrap().success());
    drop(input);
}

#[test]
fn a_reader_that_goes_ends_the_server_though_its_input_stays() {
    for what in [
        "1",
        "print_string (String.make 1_000_000 'x')",
        "Sys.command \"sleep 600\"",
    ] {
        let mut child = start();
        let mut input = child.stdin.take().unwrap();
        let mut output = child.stdout.take().unwrap();
        writeln!(input, "{}", call(1, "2")).unwrap();
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        drop(output);
        // The server may be gone already.
        let _ = writeln!(input, "{}", call(2, what));
        let _ = writeln!(input, r#"{{"jsonrpc":"2.0","id":3,"method":"ping"}}"#);
        assert!(child.wait().unwrap().success(), "{what}");
        drop(input);
    }
}
