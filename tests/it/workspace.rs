//! What the tools say of a session's workspace.

use serde_json::{Value, json};

use crate::support::{Client, executables};

fn names(report: &Value) -> Vec<&str> {
    let bindings = report["bindings"].as_array().expect("bindings");
    bindings
        .iter()
        .map(|b| b["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn env_lists_the_bindings_in_order_of_definition() {
    for executable in executables() {
        let mut client = Client::start(executable);
        let mut env = |arguments: Value| {
            let (report, is_error) = client.call("env", arguments);
            assert!(!is_error, "{report}");
            report
        };
        assert_eq!(env(json!({})), json!({ "bindings": [], "total": 0 }));
        let mut client = Client::start(executable);
        client.eval(
            "let zeta = 1;; type t = A;; let alpha x = x;; exception E;; let zeta = \"shadows\"",
        );
        client.eval(
            "module M = struct let inside = 1 end include struct let included = [A] end open M",
        );
        client.eval("let failed = failwith \"no\"");
        let mut env = |arguments: Value| client.call("env", arguments).0;
        let report = env(json!({}));
        assert_eq!(names(&report), ["alpha", "zeta", "included"]);
        assert_eq!(report["total"], 3);
        assert_eq!(report["bindings"][0]["type"], "'a -> 'a");
        assert_eq!(report["bindings"][1]["type"], "string");
        assert_eq!(report["bindings"][2]["type"], "t list");
        let report = env(json!({ "filter": "a", "limit": 1 }));
        assert_eq!(names(&report), ["alpha"]);
        assert_eq!(report["total"], 2);
        let report = env(json!({ "all": true, "limit": 100000 }));
        let all = names(&report);
        assert!(all.contains(&"print_endline") && all.contains(&"inside"));
        assert!(all.ends_with(&["alpha", "zeta", "included"]));
    }
}
