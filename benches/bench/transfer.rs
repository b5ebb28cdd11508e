//! Files to another machine and back, against `scp` through the same sshd.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::remote::{Near, User};
use crate::support::Executable;
use crate::table::Table;
use crate::{quantile, timed};

const SIZE: usize = 16 << 20;
const TIMES: usize = 9;

/// (k) 16 MiB there and back, each in one call over the connection that there is.
pub fn files(executable: Executable, table: &mut Table) {
    let user = User::new();
    let machine = user.machine(executable);
    user.configure(&[("far", machine.sshd.port)], "");
    let mut near = Near::start(executable, &user);
    near.connect("far");
    let (here, there) = (near.home.path().join("f"), machine.home.path().join("f"));
    let mut random = fastrand::Rng::with_seed(1);
    let mut contents = vec![0; SIZE];
    random.fill(&mut contents);
    fs::write(&here, &contents).expect("written");
    let far = format!("far:{}", there.display());
    let here_text = here.display().to_string();
    let scp = |from: &str, to: &str| {
        let mut command = Command::new("scp");
        command
            .arg("-q")
            .arg("-F")
            .arg(user.path("config"))
            .args([from, to]);
        assert!(command.status().expect("scp runs").success());
    };
    let variant = executable.variant;
    for push in [true, false] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            let (tool, from, to) = match push {
                true => ("push_file", &here_text, &far),
                false => ("pull_file", &far, &here_text),
            };
            theirs.push(timed(|| scp(from, to)));
            let arguments = json!({ "host": "far", "local_path": here, "remote_path": there });
            ours.push(timed(|| drop(near.done(tool, arguments))));
        }
        let what = match push {
            true => format!("{variant} 16 MiB to a host, against scp"),
            false => format!("{variant} 16 MiB from a host, against scp"),
        };
        table.ratio(
            &what,
            quantile(&mut ours, 50),
            quantile(&mut theirs, 50),
            Some(3.0),
        );
    }
}
