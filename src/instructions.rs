//! What a client reads before its first call.

use crate::session::Listed;

/// What topup is and which tool does what.
const ABOUT: &str = "topup is a live OCaml toplevel. Call eval with OCaml phrases: bindings stay \
for later calls, the final ;; is optional, and a phrase that fails leaves the session as it was. \
Give timeout (seconds) to anything that may not end; cancel stops what is running. eval_batch runs \
several sources in order; env lists what is bound, lookup says what a name is, complete what may \
follow, and typecheck checks code without running it. Libraries: #require \"name\" in eval for \
installed packages, load_project for a dune project, load for one compiled file. checkpoint keeps \
the session under a label, restore brings it back, reset starts afresh, compile_to_binary makes a \
native program of it. start_local_session brings up another toplevel under a name, to be passed as \
session: for work that is to be kept apart, run at the same time, or put at risk.";

/// Clients may cut off what is longer.
const LONGEST: usize = 2048;

/// The text, with the named sessions that there are: the live ones first, as many as fit.
pub fn instructions(mut sessions: Vec<Listed>) -> String {
    sessions.retain(|session| !session.is_sibling());
    sessions.sort_by_key(|session| !session.live);
    let mut text = ABOUT.to_string();
    if sessions.is_empty() {
        return text;
    }
    text += "\nNamed sessions:";
    for (number, session) in sessions.iter().enumerate() {
        let line = line(session);
        let rest = sessions.len() - number;
        let more = format!("\n- and {rest} more: list_sessions");
        let after = if rest > 1 { more.len() } else { 0 };
        if text.len() + line.len() + after >= LONGEST {
            return text + &more;
        }
        text += &line;
    }
    text
}

fn line(session: &Listed) -> String {
    let Listed {
        session: name,
        live,
        recipe,
        ..
    } = session;
    let mut line = format!("\n- {name}");
    if let Some(description) = &recipe.description {
        const SHOWN: usize = 200;
        let one_line = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown: String = one_line.chars().take(SHOWN).collect();
        line += &format!(": {shown}");
    }
    let mut facts = Vec::new();
    if !live {
        facts.push("not running; start_local_session".to_string());
    }
    if let Some(file) = &recipe.prewarm {
        facts.push(format!("runs {} first", file.display()));
    }
    if recipe.pool > 1 {
        facts.push(format!("siblings {name}.1 to {name}.{}", recipe.pool - 1));
    }
    if !facts.is_empty() {
        line += &format!(" ({})", facts.join("; "));
    }
    line
}
