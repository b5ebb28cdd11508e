//! What a client reads before its first call.

use crate::session::{HostListed, Listed};

/// What topup is and which tool does what.
const ABOUT: &str = "topup is a live OCaml toplevel. Call eval with OCaml phrases: bindings stay \
for later calls, the final ;; is optional, and a phrase that fails leaves the session as it was. \
Give timeout (seconds) to anything that may not end; cancel stops what is running. eval_batch runs \
several sources in order; env lists what is bound, lookup says what a name is, complete what may \
follow, and typecheck checks code without running it. Libraries: #require \"name\" in eval for \
installed packages, load_project for a dune project, load for one compiled file. checkpoint keeps \
the session under a label, restore brings it back, reset starts afresh, compile_to_binary makes a \
native program of it. start_local_session brings up another toplevel under a name, to be passed as \
session: for work that is to be kept apart, run at the same time, or put at risk. start_session \
connects to topup on another machine over ssh, to be passed as host; push_file and pull_file copy files \
there and back.";

/// Clients may cut off what is longer.
const LONGEST: usize = 2048;

/// The text, with the hosts and the named sessions that there are: the live ones first, as
/// many as fit.
pub fn instructions(mut sessions: Vec<Listed>, mut hosts: Vec<HostListed>) -> String {
    sessions.retain(|session| !session.is_sibling());
    sessions.sort_by_key(|session| !session.live);
    hosts.sort_by_key(|host| !host.live);
    let mut text = ABOUT.to_string();
    // Half of the rest is for each; what the hosts leave is for the sessions.
    let half = text.len() + (LONGEST - text.len()) / 2;
    let until = if sessions.is_empty() { LONGEST } else { half };
    let lines: Vec<String> = hosts.iter().map(line_of_host).collect();
    list(&mut text, "\nRemote hosts:", &lines, until);
    let lines: Vec<String> = sessions.iter().map(line).collect();
    list(&mut text, "\nNamed sessions:", &lines, LONGEST);
    text
}

/// Adds as many lines as fit.
fn list(text: &mut String, heading: &str, lines: &[String], until: usize) {
    if lines.is_empty() {
        return;
    }
    *text += heading;
    for (number, line) in lines.iter().enumerate() {
        let rest = lines.len() - number;
        let more = format!("\n- and {rest} more: list_sessions");
        let after = if rest > 1 { more.len() } else { 0 };
        if text.len() + line.len() + after >= until {
            *text += &more;
            return;
        }
        *text += line;
    }
}

fn line_of_host(listed: &HostListed) -> String {
    let mut line = format!("\n- {}", listed.host);
    if let Some(description) = &listed.description {
        line += &format!(": {}", shown(description));
    }
    let mut facts = Vec::new();
    facts.extend(listed.os.as_deref().map(shown));
    if !listed.live {
        facts.push("not connected; start_session".to_string());
    }
    if !facts.is_empty() {
        line += &format!(" ({})", facts.join("; "));
    }
    line
}

/// A description in one line, without control characters.
fn shown(text: &str) -> String {
    const SHOWN: usize = 200;
    let is_apart = |c: char| c.is_whitespace() || c.is_control();
    let words = text.split(is_apart).filter(|word| !word.is_empty());
    let one_line = words.collect::<Vec<_>>().join(" ");
    one_line.chars().take(SHOWN).collect()
}

fn line(session: &Listed) -> String {
    let name = &session.session;
    let mut line = format!("\n- {name}");
    if let Some(description) = &session.description {
        line += &format!(": {}", shown(description));
    }
    let mut facts = Vec::new();
    if !session.live {
        facts.push("not running; start_local_session".to_string());
    }
    if let Some(file) = &session.prewarm {
        facts.push(format!("runs {} first", shown(&file.to_string_lossy())));
    }
    if session.pool > 1 {
        facts.push(format!("siblings {name}.1 to {name}.{}", session.pool - 1));
    }
    if !facts.is_empty() {
        line += &format!(" ({})", facts.join("; "));
    }
    line
}
