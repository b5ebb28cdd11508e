//! A short real conversation with `topup`, as an MCP client has it. `make demo` runs it.
//!
//!     cargo run --release --example demo -- PATH/TO/topup

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio, exit};

use serde_json::{Value, json};

fn main() {
    let Some(path) = env::args().nth(1) else {
        eprintln!("usage: demo PATH/TO/topup");
        exit(2)
    };
    let path = std::fs::canonicalize(&path).unwrap_or_else(|error| {
        eprintln!("{path}: {error}");
        exit(1)
    });
    let mut child = Command::new(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("topup starts");
    let mut input = child.stdin.take().expect("piped");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut ask = |message: Value| -> Value {
        println!("--> {message}");
        writeln!(input, "{message}").expect("topup listens");
        let mut line = String::new();
        output.read_line(&mut line).expect("topup answers");
        serde_json::from_str(&line).expect("JSON")
    };

    println!(
        "A client starts {} and speaks JSON-RPC on its stdin and stdout.\n",
        path.display()
    );
    let hello = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {},
                    "clientInfo": { "name": "demo", "version": "1" } },
    });
    println!("<-- {}\n", ask(hello)["result"]["serverInfo"]);

    for (id, (source, timeout)) in (1..).zip([
        (
            "let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2);; fib 20",
            None,
        ),
        ("List.map fib [10; 15; 20]", None),
        ("fib \"ten\"", None),
        (
            "print_endline \"looping...\"; while true do () done",
            Some(0.5),
        ),
        ("fib 10  (* the session is still there *)", None),
    ]) {
        let mut arguments = json!({ "source": source });
        if let Some(seconds) = timeout {
            arguments["timeout"] = json!(seconds);
        }
        let reply = ask(json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "eval", "arguments": arguments },
        }));
        show(&reply);
    }
    drop(input);
    let status = child.wait().expect("topup ends with its client");
    assert!(status.success());
    println!("The client closed the connection and topup ended: {status}.\n");
    println!("To use it, paste this into your MCP client's configuration:\n");
    let entry = json!({ "mcpServers": { "topup": { "command": path } } });
    println!("{}", serde_json::to_string_pretty(&entry).expect("JSON"));
}

/// What the reply's payload says, field by field.
fn show(reply: &Value) {
    let text = reply["result"]["content"][0]["text"]
        .as_str()
        .expect("a text");
    let payload: Value = serde_json::from_str(text).expect("JSON");
    for (key, value) in payload.as_object().expect("an object") {
        let quiet = value.is_null() || value == "" || value == &json!([]);
        match value {
            _ if quiet || key == "diagnostics" => {}
            Value::String(text) => println!("<-- {key}: {}", text.replace('\n', "\n    ")),
            value => println!("<-- {key}: {value}"),
        }
    }
    println!();
}
