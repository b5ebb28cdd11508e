//! Bringing a host up, and what stands in the way.

use std::fs;

use serde_json::json;

use super::sshd::free_port;
use super::{Near, User, near_at, pair};
use crate::support::{BYTECODE, Executable, each};

#[test]
fn a_host_comes_up_once() {
    each(|executable| {
        let (_user, machine, mut near) = pair(executable);
        let reply = near.connect("far");
        let socket = machine.home.path().join(".topup/sockets/topup.sock");
        let socket = socket.to_str().unwrap();
        assert_eq!(
            reply,
            json!({ "host": "far", "remote_socket": socket, "started": true })
        );
        let tunnel = near.tunnel();
        let reply = near.connect("far");
        assert_eq!(reply["started"], false, "{reply}");
        assert_eq!(near.tunnel(), tunnel, "nothing was done");
        assert_eq!(near.value_on("far", "let x = 41"), "41");
        assert_eq!(near.value_on("far", "x + 1"), "42");
        assert_eq!(
            near.value_on("far", "Sys.getenv \"HOME\""),
            format!("{:?}", machine.home.path())
        );
        assert!(
            near.client.eval("x")["error"].is_string(),
            "it is elsewhere"
        );
        let reply = near.done("stop_session", json!({ "host": "far" }));
        assert_eq!(reply["stopped"], true);
        assert!(
            near.refused("eval", json!({ "source": "1", "host": "far" }), "route")
                .contains("start_session")
        );
        // The toplevel there went on.
        assert_eq!(near.connect("far")["started"], true);
        assert_eq!(near.value_on("far", "x"), "41");
        let reply = near.done(
            "stop_session",
            json!({ "host": "far", "end": true, "forget": true }),
        );
        assert_eq!(reply["stopped"], true);
        assert!(
            near.refused("stop_session", json!({ "host": "far" }), "route")
                .contains("no host")
        );
        near.connect("far");
        assert!(
            near.eval_on("far", "x")["error"].is_string(),
            "that was another one"
        );
    });
}

#[test]
fn what_ssh_says_is_told() {
    each(ssh_is_told);
}

fn ssh_is_told(executable: Executable) {
    let (user, machine, mut near) = pair(executable);
    let port = machine.sshd.port;
    let start =
        |near: &mut Near| near.refused("start_session", json!({ "host": "far" }), "connect");
    user.configure(&[("far", free_port())], "");
    let said = start(&mut near);
    assert!(said.contains("Connection refused"), "{said}");
    fs::write(
        user.path("config"),
        "Host far\n  HostName nowhere.invalid\n",
    )
    .unwrap();
    let said = start(&mut near);
    assert!(said.contains("Could not resolve hostname"), "{said}");
    // A key that it does not take.
    super::sshd::keygen(&user.path("other"));
    user.configure(&[("far", port)], "");
    let config = fs::read_to_string(user.path("config")).unwrap();
    let key = user.path("key").display().to_string();
    let other = user.path("other").display().to_string();
    fs::write(
        user.path("config"),
        config.replace(
            &format!("IdentityFile {key}"),
            &format!("IdentityFile {other}"),
        ),
    )
    .unwrap();
    let said = start(&mut near);
    assert!(said.contains("Permission denied"), "{said}");
    // A host key that is not known.
    fs::write(
        user.path("config"),
        config.replace("StrictHostKeyChecking no", "StrictHostKeyChecking yes"),
    )
    .unwrap();
    let said = start(&mut near);
    assert!(said.contains("Host key verification failed"), "{said}");
    // One that is known as another.
    let [other, hosts] = ["other.pub", "hosts"].map(|name| user.path(name));
    let key = fs::read_to_string(other).unwrap();
    fs::write(&hosts, format!("[127.0.0.1]:{port} {key}")).unwrap();
    fs::write(
        user.path("config"),
        config
            .replace(
                "UserKnownHostsFile /dev/null",
                &format!("UserKnownHostsFile {}", hosts.display()),
            )
            .replace("StrictHostKeyChecking no", "StrictHostKeyChecking yes"),
    )
    .unwrap();
    let said = start(&mut near);
    assert!(said.contains("HOST IDENTIFICATION HAS CHANGED"), "{said}");
    // And then it works: nothing was kept of all that.
    user.configure(&[("far", port)], "");
    near.connect("far");
}

#[test]
fn a_machine_that_does_not_forward_is_told() {
    for line in ["AllowStreamLocalForwarding no", "DisableForwarding yes"] {
        let user = User::new();
        let machine = user.machine_with(BYTECODE, line);
        user.configure(&[("far", machine.sshd.port)], "");
        let mut near = Near::start(BYTECODE, &user);
        let said = near.refused("start_session", json!({ "host": "far" }), "connect");
        assert!(said.contains("AllowStreamLocalForwarding"), "{said}");
        // ssh says why, unless it is told not to.
        let config = fs::read_to_string(user.path("config")).unwrap();
        let config = config.replace("LogLevel ERROR", "LogLevel INFO");
        fs::write(user.path("config"), config).unwrap();
        let said = near.refused("start_session", json!({ "host": "far" }), "connect");
        assert!(said.contains("open failed"), "{said}");
    }
}

#[test]
fn nothing_of_an_argument_reaches_a_shell() {
    each(arguments_are_arguments);
}

fn arguments_are_arguments(executable: Executable) {
    let (_user, machine, mut near) = pair(executable);
    let flag = machine.home.path().join("flag");
    let touch = format!("touch {}", flag.display());
    for host in [
        "-oProxyCommand=touch flag".to_string(),
        format!("$({touch})"),
        format!("far; {touch}"),
        format!("`{touch}`"),
        "far\nx".to_string(),
        "far\u{1b}[31m".to_string(),
        "far\0".to_string(),
        String::new(),
        "local".to_string(),
    ] {
        near.refused("start_session", json!({ "host": host }), "arguments");
    }
    for socket in ["", "a\nb", "${HOME}/s", &"x".repeat(200)] {
        near.refused(
            "start_session",
            json!({ "host": "far", "remote_socket": socket }),
            "arguments",
        );
    }
    // A path is a path, whatever is in it.
    for (number, odd) in [
        format!("$({touch})"),
        "'; x".into(),
        "a:b%c\\d \"e\"".into(),
        "-x".into(),
    ]
    .iter()
    .enumerate()
    {
        let name = odd.replace('/', "_");
        let path = format!("~/sockets{number}/{name}");
        let reply = near.done(
            "start_session",
            json!({ "host": "far", "remote_socket": path }),
        );
        let there = machine.home.path().join(&path[2..]);
        assert_eq!(reply["remote_socket"], there.to_str().unwrap());
        assert!(there.exists());
        near.done("stop_session", json!({ "host": "far", "end": true }));
    }
    assert!(!flag.exists());
    near.refused("restart_session", json!({ "host": "other" }), "route");
    near.refused(
        "update_host",
        json!({ "host": "other", "os": "x" }),
        "route",
    );
}

#[test]
fn what_is_known_of_a_host_is_kept() {
    each(it_is_kept);
}

fn it_is_kept(executable: Executable) {
    let (user, _machine, mut near) = pair(executable);
    near.connect("far");
    let reply = near.done(
        "update_host",
        json!({ "host": "far", "description": "the big\none" }),
    );
    assert_eq!(
        (&reply["description"], &reply["os"]),
        (&json!("the big\none"), &json!(null))
    );
    let reply = near.done("update_host", json!({ "host": "far", "os": "Debian 12" }));
    assert_eq!(reply["description"], "the big\none", "it stays");
    near.client.request("initialize", json!({}));
    let reply = near.client.receive();
    let text = reply["result"]["instructions"]
        .as_str()
        .unwrap()
        .to_string();
    assert!(
        text.ends_with("\nRemote hosts:\n- far: the big one (Debian 12)"),
        "{text}"
    );
    // Another server knows of it.
    let mut other = near_at(executable, &user, near.home.path(), &[]);
    other.request("initialize", json!({}));
    let text = other.receive()["result"]["instructions"]
        .as_str()
        .unwrap()
        .to_string();
    assert!(
        text.ends_with("- far: the big one (Debian 12; not connected; start_session)"),
        "{text}"
    );
    let (reply, _) = other.call("list_sessions", json!({}));
    assert_eq!(reply["hosts"][0]["live"], false, "{reply}");
    let reply = near.done("list_sessions", json!({}));
    assert_eq!(reply["hosts"][0]["live"], true, "{reply}");
    assert!(
        near.refused(
            "eval",
            json!({ "source": "1", "host": "far", "session": "x" }),
            "route"
        )
        .contains("exclude")
    );
}
