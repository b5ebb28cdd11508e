//! Packages: `#require`, `#list`, and what findlib users paste.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Client, Executable, assert_timed_out, compile, each, library, toolchain};

/// A folder of packages, as findlib wants it.
struct Packages(tempfile::TempDir);

impl Packages {
    fn new() -> Packages {
        Packages(tempfile::tempdir().expect("a folder"))
    }

    /// A package's folder with its META.
    fn add(&self, name: &str, meta: &str) -> std::path::PathBuf {
        let folder = self.0.path().join(name);
        fs::create_dir_all(&folder).expect("created");
        fs::write(folder.join("META"), format!("version = \"1.0\"\n{meta}")).expect("written");
        folder
    }

    /// A package of one unit without dependencies.
    fn simple(&self, name: &str, requires: &str, source: &str) {
        let meta = format!("requires = \"{requires}\"\n{}", archives(name));
        library(&self.add(name, &meta), name, source);
    }

    fn start(&self, executable: Executable) -> Client {
        Client::start_with(executable, |command| {
            command.env("OCAMLPATH", self.0.path());
        })
    }
}

fn archives(name: &str) -> String {
    format!(
        "archive(byte) = \"{name}.cma\"\narchive(native) = \"{name}.cmxa\"\n\
         plugin(byte) = \"{name}.cma\"\nplugin(native) = \"{name}.cmxs\"\n"
    )
}

fn ok(client: &mut Client, source: &str) -> Value {
    let reply = client.eval(source);
    assert!(reply["error"].is_null(), "{source}: {reply}");
    reply
}

fn value(client: &mut Client, source: &str) -> String {
    let reply = ok(client, source);
    reply["value_repr"].as_str().unwrap_or_default().to_string()
}

fn error(client: &mut Client, source: &str) -> String {
    let reply = client.eval(source);
    assert_eq!(client.eval("1 + 1")["value_repr"], "2");
    reply["error"]
        .as_str()
        .unwrap_or_else(|| panic!("{source}: {reply}"))
        .to_string()
}

#[test]
fn the_compilers_own_packages_are_there() {
    each(|executable| {
        let mut client = Client::start(executable);
        assert_eq!(value(&mut client, "#use \"topfind\";; #thread"), "");
        let list = value(&mut client, "#list");
        assert!(
            list.contains("threads.posix") && list.contains("str "),
            "{list}"
        );
        let reply = ok(&mut client, "#require \"str, unix\"");
        assert_eq!(
            (&reply["stdout"], &reply["stderr"]),
            (&json!(""), &json!(""))
        );
        assert_eq!(
            value(&mut client, "Unix.getpid () > 1, Str.quote \"a.b\""),
            "(true, \"a\\\\.b\")"
        );
        ok(&mut client, "#require \"threads.posix\"");
        let reply = ok(
            &mut client,
            "Thread.join (Thread.create print_string \"from a thread\")",
        );
        assert_eq!(reply["stdout"], "from a thread");
        assert!(!client.call("reset", json!({})).1);
        assert!(error(&mut client, "Thread.self ()").contains("Unbound module"));
        ok(&mut client, "#require \"threads\";; Thread.self ()");
    });
}

/// `shop` with C stubs needs `coin`; `shop.top` brings a printer.
fn shop(packages: &Packages) {
    let source = "let () = print_string \"coin;\" type t = Coin of int let make n = Coin n";
    // No plugin is named: the shared library beside the archive serves.
    let coin = "archive(byte) = \"coin.cma\"\narchive(native) = \"coin.cmxa\"\n";
    library(&packages.add("coin", coin), "coin", source);
    let meta = format!(
        "requires = \"coin\"\n{}package \"top\" (\n requires = \"shop\"\n version = \"1.0\"\n{})\n",
        archives("shop"),
        archives("shop_top")
    );
    let folder = packages.add("shop", &meta);
    let c = "#include <caml/mlvalues.h>\nvalue shop_double(value n) { return Val_long(2 * Long_val(n)); }\n";
    fs::write(folder.join("shop_c.c"), c).unwrap();
    let ml = "let () = print_string \"shop;\"\nexternal double : int -> int = \"shop_double\"\n\
              type price = { coins : int }\nlet price (Coin.Coin n) = { coins = double n }\n\
              let print ppf { coins } = Format.fprintf ppf \"<%d coins>\" coins\n";
    fs::write(folder.join("shop.ml"), ml).unwrap();
    let top = "let () = assert (Toploop.execute_phrase false Format.err_formatter\n\
               (!Toploop.parse_toplevel_phrase (Lexing.from_string \"#install_printer Shop.print;;\")))\n";
    fs::write(folder.join("shop_top.ml"), top).unwrap();
    let run = |program, arguments: &str| {
        compile(&folder, program, &arguments.split(' ').collect::<Vec<_>>());
    };
    run("ocamlc", "-I ../coin -c shop_c.c shop.ml");
    run("ocamlmklib", "-o shop shop_c.o shop.cmo");
    run("ocamlc", "-I +compiler-libs -a -o shop_top.cma shop_top.ml");
    if cfg!(native_toplevel) {
        run("ocamlopt", "-I ../coin -c shop.ml");
        run("ocamlmklib", "-o shop shop_c.o shop.cmx");
        run("ocamlopt", "-shared -linkall -I . -o shop.cmxs shop.cmxa");
        run(
            "ocamlopt",
            "-I +compiler-libs -a -o shop_top.cmxa shop_top.ml",
        );
        run(
            "ocamlopt",
            "-shared -linkall -o shop_top.cmxs shop_top.cmxa",
        );
    }
    // Where findlib installs them.
    let stublibs = packages.0.path().join("stublibs");
    fs::create_dir(&stublibs).unwrap();
    fs::rename(folder.join("dllshop.so"), stublibs.join("dllshop.so")).unwrap();
}

#[test]
fn a_package_comes_with_all_that_it_needs() {
    let packages = Packages::new();
    shop(&packages);
    each(|executable| {
        let mut client = packages.start(executable);
        let reply = ok(&mut client, "#require \"shop\"");
        assert_eq!(reply["stdout"], "coin;shop;");
        assert_eq!(reply["value_repr"], Value::Null);
        assert_eq!(
            value(&mut client, "Shop.price (Coin.make 2)"),
            "{Shop.coins = 4}"
        );
        assert_eq!(ok(&mut client, "#require \"shop,coin\"")["stdout"], "");
        ok(&mut client, "#require \"shop.top\";;");
        assert_eq!(value(&mut client, "Shop.price (Coin.make 3)"), "<6 coins>");
        // A restore brings the packages back.
        assert!(!client.call("checkpoint", json!({ "label": "shop" })).1);
        let (reply, is_error) = client.call("restore", json!({ "label": "shop" }));
        assert!(!is_error, "{reply}");
        assert_eq!(value(&mut client, "Shop.price (Coin.make 1)"), "<2 coins>");
        // What was loaded by hand is not loaded again.
        assert!(!client.call("reset", json!({})).1);
        let coin = packages
            .0
            .path()
            .join("coin")
            .join(executable.archive("coin"));
        let (reply, is_error) = client.call("load", json!({ "path": coin }));
        assert!(!is_error, "{reply}");
        let stdout = ok(&mut client, "#require \"shop\"")["stdout"].clone();
        assert!(!stdout.as_str().unwrap().contains("coin;"), "{stdout}");
        assert_eq!(
            value(&mut client, "Shop.price (Coin.make 2)"),
            "{Shop.coins = 4}"
        );
    });
}

#[test]
fn a_ppx_package_rewrites_the_phrases_that_follow() {
    let packages = Packages::new();
    let folder = packages.add(
        "answer",
        "ppx = \"./ppx.exe\"\nppxopt = \"answer,-times,2\"\n",
    );
    let ml = r#"
let times = if Array.length Sys.argv > 3 then int_of_string Sys.argv.(2) else 1
let expr (mapper : Ast_mapper.mapper) (e : Parsetree.expression) =
  match e.pexp_desc with
  | Pexp_extension ({ txt = "answer"; _ }, _) ->
    Ast_helper.Exp.constant (Ast_helper.Const.int (21 * times))
  | _ -> Ast_mapper.default_mapper.expr mapper e
let () =
  let n = Array.length Sys.argv in
  Ast_mapper.apply ~source:Sys.argv.(n - 2) ~target:Sys.argv.(n - 1)
    { Ast_mapper.default_mapper with expr }
"#;
    fs::write(folder.join("ppx.ml"), ml).unwrap();
    let arguments = "-I +compiler-libs ocamlcommon.cma -o ppx.exe ppx.ml";
    compile(&folder, "ocamlc", &arguments.split(' ').collect::<Vec<_>>());
    packages.add("nowhere", "ppx = \"./none.exe\"\n");
    each(|executable| {
        let mut client = packages.start(executable);
        assert!(error(&mut client, "[%answer]").contains("Uninterpreted extension"));
        ok(&mut client, "#require \"answer\"");
        assert_eq!(value(&mut client, "[%answer]"), "42");
        assert!(
            error(&mut client, "#require \"nowhere\"").contains("none.exe, which is not there")
        );
        assert!(!client.call("reset", json!({})).1);
        assert!(error(&mut client, "[%answer]").contains("Uninterpreted extension"));
    });
}

#[test]
fn packages_that_cannot_be_had_are_explained() {
    let packages = Packages::new();
    packages.simple("first", "", "let () = print_string \"first;\" let one = 1");
    packages.simple(
        "second",
        "first",
        "let () = if not (Sys.file_exists \"/nonexistent\") then failwith \"not today\"",
    );
    packages.add("hollow", "requires = \"no_such_package\"\n");
    packages.add("unbuilt", &archives("unbuilt"));
    packages.add("scrawl", "((");
    packages.add("stern", "error = \"not on this machine\"\n");
    each(|executable| {
        let mut client = packages.start(executable);
        let mut fails = |source: &str, texts: &[&str]| {
            let error = error(&mut client, source);
            for text in texts {
                assert!(error.contains(text), "no {text:?} in {error:?}");
            }
        };
        fails(
            "#require \"frist\"",
            &["`frist' not found", "Did you mean first?", "OCAMLPATH"],
        );
        fails(
            "#require \"hollow\"",
            &["`no_such_package' not found - required by `hollow'"],
        );
        fails("#require \"unbuilt\"", &["no file", "unbuilt.cm"]);
        fails("#require \"scrawl\"", &["scrawl/META"]);
        fails("#require \"stern\"", &["not on this machine"]);
        fails("#require \"-i-format\"", &["no name of a package"]);
        fails(
            "#require \"second\"",
            &["an initialiser raised", "not today"],
        );
        assert_eq!(value(&mut client, "First.one"), "1");
        let again = ok(&mut client, "#require \"first\"");
        assert_eq!(again["stdout"], "");
        let mut lost = Client::start_with(executable, |command| {
            command.env("PATH", "/nonexistent");
        });
        let reply = lost.eval("#require \"first\"");
        let error = reply["error"].as_str().expect("an error");
        assert!(error.contains("ocamlfind"), "{error}");
    });
}

#[test]
fn a_package_whose_initialiser_does_not_end_is_interrupted() {
    let packages = Packages::new();
    packages.simple("quick", "", "let x = 1");
    packages.simple(
        "endless",
        "quick",
        "let r = ref 0 let () = while true do r := String.length (string_of_int !r) done",
    );
    each(|executable| {
        let mut client = packages.start(executable);
        let reply = client.eval_within("#require \"endless\"", 0.5);
        assert_timed_out(&reply);
        assert_eq!(value(&mut client, "1 + 1"), "2");
    });
}

/// Packages of Debian: `make packages` builds topup with Debian's OCaml and runs this.
#[test]
#[ignore = "needs the packages of a distribution; make packages installs them"]
fn real_packages_work() {
    assert!(
        Path::new(&toolchain("lib")).join("zarith").exists(),
        "make packages installs them"
    );
    each(|executable| {
        let mut client = Client::start(executable);
        ok(&mut client, "#use \"topfind\";; #require \"zarith.top\"");
        assert_eq!(
            value(&mut client, "Z.pow (Z.of_int 2) 100"),
            "1267650600228229401496703205376"
        );
        ok(&mut client, "#require \"lwt.unix\"");
        assert_eq!(
            value(
                &mut client,
                "Lwt_main.run Lwt.(Lwt_unix.sleep 0.01 >|= fun () -> \"slept\")"
            ),
            "\"slept\""
        );
        ok(&mut client, "#require \"yojson\"");
        assert_eq!(
            value(
                &mut client,
                "Yojson.Safe.(to_string (`List [`Int 1; `Null]))"
            ),
            "\"[1,null]\""
        );
        ok(
            &mut client,
            "#require \"str\";; #require \"unix\";; #require \"threads.posix\"",
        );
        assert_eq!(
            value(&mut client, "Str.quote \"+\", Unix.getpid () > 1"),
            "(\"\\\\+\", true)"
        );
        let reply = ok(
            &mut client,
            "Thread.join (Thread.create print_string \"thread\")",
        );
        assert_eq!(reply["stdout"], "thread");
        ok(&mut client, "#require \"ppx_deriving.show\"");
        assert_eq!(
            value(
                &mut client,
                "type t = A | B of int [@@deriving show];; show (B 3)"
            ),
            "\"(B 3)\""
        );
        ok(&mut client, "#require \"ppx_deriving.eq\"");
        assert_eq!(
            value(
                &mut client,
                "type u = C of int [@@deriving show, eq];; equal_u (C 1) (C 1), show_u (C 1)"
            ),
            "(true, \"(C 1)\")"
        );
        assert!(
            !client
                .call("checkpoint", json!({ "label": "real-packages" }))
                .1
        );
        let (reply, is_error) = client.call("restore", json!({ "label": "real-packages" }));
        assert!(!is_error, "{reply}");
        assert_eq!(
            value(&mut client, "Z.to_string (Z.of_int 7), show (B 3)"),
            "(\"7\", \"(B 3)\")"
        );
    });
}
