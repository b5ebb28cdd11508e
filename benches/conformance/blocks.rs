//! Reads a file of the compiler's test suite: phrases, each stretch of them followed by
//! `[%%expect {|…|}]`.

/// A file that holds expectations.
pub struct Test {
    /// What stands for the compiler flags in its header.
    pub directives: Vec<String>,
    /// What its header asks of the compiler that no directive stands for.
    pub unsupported: Option<String>,
    pub blocks: Vec<Block>,
}

pub struct Block {
    /// Directives before the first definition: positions do not count from them.
    pub directives: Vec<String>,
    pub source: String,
    pub expected: String,
}

/// `None` if the file holds no expectations.
pub fn parse(text: &str) -> Option<Test> {
    if !text.contains("[%%expect") {
        return None;
    }
    let (header, mut rest) = header(text);
    let (directives, unsupported) = flags(header);
    let mut blocks = Vec::new();
    while let Some(at) = find_expectation(rest) {
        let (directives, source) = leading_directives(skip_blank(&rest[..at]));
        let (expected, after) = expectation(&rest[at + "[%%expect".len()..])?;
        rest = after;
        blocks.push(Block {
            directives,
            source: separate(source.trim_end()),
            expected,
        });
    }
    Some(Test {
        directives,
        unsupported,
        blocks,
    })
}

/// The `(* TEST … *)` comment and what follows it.
fn header(text: &str) -> (&str, &str) {
    match text.trim_start().strip_prefix("(* TEST") {
        Some(inside) => inside.split_once("*)").unwrap_or((inside, "")),
        None => ("", text),
    }
}

fn flags(header: &str) -> (Vec<String>, Option<String>) {
    if header.contains("no-flat-float-array") {
        return (
            Vec::new(),
            Some("of a compiler without flat float arrays".into()),
        );
    }
    let quoted = header
        .split_once("flags = \"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let Some((flags, _)) = quoted else {
        return (Vec::new(), None);
    };
    let words: Vec<&str> = flags.split_whitespace().collect();
    match words[..] {
        ["-w", spec] => (vec![format!("#warnings {spec:?}")], None),
        ["-nolabels"] => (vec!["#labels false".into()], None),
        _ => (Vec::new(), Some(flags.into())),
    }
}

/// Drops leading blank lines and comments: positions count from the first phrase's line,
/// which keeps its indentation. A documentation comment of its own is an item, too.
fn skip_blank(text: &str) -> &str {
    let mut rest = text;
    loop {
        let next = rest.trim_start();
        let next = next.strip_prefix(";;").map_or(next, str::trim_start);
        let documents = next.starts_with("(**") && !next.starts_with("(***");
        let floats = || comment_end(next).is_some_and(|end| next[end..].starts_with("\n\n"));
        if !next.starts_with("(*") || documents && floats() {
            let skipped = &rest[..rest.len() - next.len()];
            let line = skipped.rfind('\n').map_or(0, |newline| newline + 1);
            return if skipped[line..].trim().is_empty() {
                &rest[line..]
            } else {
                next
            };
        }
        match comment_end(next) {
            Some(end) => rest = &next[end..],
            None => return next,
        }
    }
}

fn leading_directives(mut text: &str) -> (Vec<String>, &str) {
    let mut directives = Vec::new();
    while text.starts_with('#')
        && let Some((directive, rest)) = text.split_once(";;")
        && !skip_blank(rest).trim().is_empty()
    {
        directives.push(directive.to_string());
        text = skip_blank(rest);
    }
    (directives, text)
}

/// The suite's tool runs each definition as a phrase of its own, as `#use` does; `eval`
/// wants `;;` between them. It goes where it moves no position: behind the last line of
/// a definition that another one follows.
fn separate(source: &str) -> String {
    const ITEMS: [&str; 9] = [
        "let ",
        "let%",
        "type ",
        "module ",
        "class ",
        "exception ",
        "open ",
        "include ",
        "external ",
    ];
    const OPEN_ENDS: [&str; 7] = [" in", "=", "->", "(", "begin", "struct", "then"];
    let begins_item = |line: &&str| ITEMS.iter().any(|item| line.starts_with(item));
    let unfinished = |line: &str| OPEN_ENDS.iter().any(|end| line.trim_end().ends_with(end));
    let mut lines: Vec<String> = Vec::new();
    for line in source.split('\n') {
        let last = lines.iter_mut().rev().find(|line| !line.trim().is_empty());
        if let Some(last) = last.filter(|_| begins_item(&line))
            && !last.trim_end().ends_with(";;")
            && !last.trim_end().ends_with("*)")
            && !unfinished(last)
        {
            last.push_str(";;");
        }
        lines.push(line.to_string());
    }
    lines.join("\n")
}

/// Where the next `[%%expect` begins that is not in a comment.
fn find_expectation(text: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("[%%expect")?;
        match text[from..at].rfind("(*").map(|comment| from + comment) {
            Some(comment) => match comment_end(&text[comment..]) {
                Some(end) if comment + end > at => from = comment + end,
                _ => return Some(at),
            },
            None => return Some(at),
        }
    }
}

fn comment_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    let bytes = text.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"(*" => (depth, at) = (depth + 1, at + 2),
            b"*)" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The payload's first string and the text behind the closing bracket.
fn expectation(text: &str) -> Option<(String, &str)> {
    let payload = text.trim_start();
    if let Some(rest) = payload.strip_prefix(']') {
        return Some((String::new(), rest));
    }
    let (expected, mut rest) = quoted(payload)?;
    if let Some(principal) = rest.trim_start().strip_prefix(',') {
        (_, rest) = quoted(
            principal
                .trim_start()
                .strip_prefix("Principal")?
                .trim_start(),
        )?;
    }
    Some((expected.into(), rest.trim_start().strip_prefix(']')?))
}

/// `{tag|…|tag}`: the text inside and the text behind.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (tag, rest) = text.strip_prefix('{')?.split_once('|')?;
    rest.split_once(&format!("|{tag}}}"))
}
