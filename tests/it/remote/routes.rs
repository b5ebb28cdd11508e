//! The ways to a host that the user's own configuration makes.

use std::fs;
use std::process::Command;

use serde_json::json;

use super::home::Home;
use super::sshd::{kill, script};
use super::{Near, User, near_at, pair};
use crate::sessions::eventually;
use crate::support::{BYTECODE, NATIVE, each, executables, payload};

#[test]
fn a_jump_host_is_passed() {
    each(|executable| {
        let user = User::new();
        let machine = user.machine(executable);
        let mut jump = user.machine(executable);
        user.configure(&[("far", machine.sshd.port), ("jump", jump.sshd.port)], "");
        let config = fs::read_to_string(user.path("config")).unwrap();
        let config = format!("Host far\n  ProxyJump jump\n{config}");
        fs::write(user.path("config"), config).unwrap();
        // ssh passes its -F on.
        let mut near = Near::start(executable, &user);
        near.connect("far");
        assert_eq!(near.value_on("far", "let x = 41"), "41");
        assert!(jump.sshd.sessions() > 0, "it goes that way");
        let id = near.client.begin_call(
            "eval",
            json!({ "source": "while true do () done", "host": "far" }),
        );
        jump.sshd.stop();
        let reply = near.client.receive();
        assert_eq!(reply["id"], id);
        assert_eq!(payload(&reply).0["phase"], "connect", "{reply}");
        jump.sshd.start_again();
        near.done("cancel", json!({ "host": "far" }));
        assert_eq!(near.value_on("far", "x + 1"), "42");
    });
}

#[test]
fn a_master_of_the_users_own_is_used_and_left() {
    each(|executable| {
        let user = User::new();
        let machine = user.machine(executable);
        let masters = |more: &str| {
            let path = user.path("master").display().to_string();
            let lines = format!("  ControlPath {path}\n{more}");
            user.configure(&[("far", machine.sshd.port)], &lines);
        };
        // None is there, and none of ours becomes one: it would end with us.
        masters("  ControlMaster auto\n  ControlPersist 600");
        let mut near = Near::start(executable, &user);
        near.connect("far");
        near.value_on("far", "let x = ref 41");
        assert!(!user.path("master").exists());
        near.done("stop_session", json!({ "host": "far" }));
        // One is.
        masters("");
        let ask = |arguments: &[&str]| {
            let mut ssh = Command::new("ssh");
            ssh.arg("-F")
                .arg(user.path("config"))
                .args(arguments)
                .arg("far");
            ssh.stderr(std::process::Stdio::null())
                .status()
                .unwrap()
                .success()
        };
        assert!(ask(&["-M", "-N", "-f"]));
        near.connect("far");
        assert_eq!(machine.sshd.sessions(), 1, "it is the master's");
        assert_eq!(near.value_on("far", "incr x; !x"), "42");
        near.done("restart_session", json!({ "host": "far" }));
        assert_eq!(near.value_on("far", "incr x; !x"), "43");
        kill("KILL", near.tunnel());
        near.notices();
        assert_eq!(near.value_on("far", "incr x; !x"), "44");
        near.done("stop_session", json!({ "host": "far" }));
        assert!(ask(&["-O", "check"]), "the master lives on");
        eventually("what we ran through it has ended", || {
            machine.topups().len() == 1
        });
        // Its end is the end of a connection.
        near.connect("far");
        assert!(ask(&["-O", "exit"]));
        near.notices();
        assert_eq!(near.value_on("far", "incr x; !x"), "45");
    });
}

#[test]
fn the_near_end_is_for_this_user_alone_and_soon_gone() {
    each(|executable| {
        let (user, _machine, _near) = pair(executable);
        // What ssh is told to listen at, and the mode of the folder that it is in.
        let told = user.path("told");
        script(
            &user.path("ssh"),
            &format!(
                "for word; do case $word in /*/s:*) folder=${{word%%/s:*}}\n\
                 echo \"$(stat -c %a \"$folder\") $folder\" >>{};; esac; done\nexec ssh \"$@\"",
                told.display()
            ),
        );
        let home = Home::new();
        let ssh = format!(
            "{} -F {}",
            user.path("ssh").display(),
            user.path("config").display()
        );
        let mut client = near_at(executable, &user, home.path(), &[("TOPUP_SSH", &ssh)]);
        let start = json!({ "host": "far", "remote_socket": "~/own.sock" });
        let (reply, is_error) = client.call("start_session", start);
        assert!(!is_error, "{reply}");
        let told = fs::read_to_string(told).unwrap();
        let (mode, folder) = told.trim().split_once(' ').expect("one tunnel");
        assert_eq!(mode, "700");
        assert!(!std::path::Path::new(folder).exists(), "{folder}");
        let (reply, _) = client.call("eval", json!({ "source": "1 + 1", "host": "far" }));
        assert_eq!(reply["value_repr"], "2", "{reply}");
    });
}

#[test]
fn the_far_side_may_be_the_other_executable() {
    if executables().len() < 2 {
        return;
    }
    for (here, there) in [(BYTECODE, NATIVE), (NATIVE, BYTECODE)] {
        let user = User::new();
        let machine = user.machine(there);
        user.configure(&[("far", machine.sshd.port)], "");
        let mut near = Near::start(here, &user);
        near.connect("far");
        assert_eq!(near.value_on("far", "let x = 41"), "41");
        assert_eq!(
            near.value_on("far", "Sys.backend_type = Sys.Native"),
            (there == NATIVE).to_string()
        );
        kill("KILL", machine.topups()[0]);
        near.notices();
        assert_eq!(near.value_on("far", "x + 1"), "42");
    }
}
