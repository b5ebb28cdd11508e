type item =
  { name : string
  ; kind : string
  ; typ : string option
  }

type t =
  { start : int
  ; prefix : string
  ; shown : item list
  ; total : int
  ; interrupted : bool
  }

type candidate =
  { entry : Visible.entry
  ; own : bool  (* of the session or the source *)
  }

let entry ?path kind name typ : Visible.entry = { name; kind; path; typ }

(* The type of an expression, as far as its own definition says. *)
let type_of env text =
  Surroundings.attempt (fun () ->
      let expression = Parse.expression (Lexing.from_string text) in
      let check _ = (Typecore.type_expression env expression).exp_type in
      Ctype.expand_head env (fst (Runner.compiling ~compiler_patience:20 check)))

let fields env text path =
  let of_type t =
    match Typing.desc t with
    | Tconstr (type_path, args, _) -> (
      match Env.find_type type_path env with
      | { type_kind = Type_record (labels, _); type_params; _ } ->
        let field (label : Types.label_declaration) =
          let typ () = Some (Visible.scheme env (Ctype.apply env type_params label.ld_type args)) in
          entry "field" (Ident.name label.ld_id) typ
        in
        Some (List.map field labels)
      | _ -> None
      | exception Not_found -> None)
    | _ -> None
  in
  match Option.bind (type_of env text) of_type with
  | Some fields -> fields
  | None ->
    List.filter (fun (e : Visible.entry) -> e.kind = "field")
      (Visible.entries env (Longident.unflatten path))

let methods env text =
  let rec all t found =
    match Typing.desc t with
    | Tfield (name, _, t, rest) ->
      let typ () = Some (Visible.scheme env t) in
      all rest (if name = Btype.dummy_method then found else entry "method" name typ :: found)
    | _ -> found
  in
  match Option.map Typing.desc (type_of env text) with
  | Some (Tobject (fields, _)) -> all fields []
  | _ -> []

let labels env head ~given ~optional =
  let rec all t found =
    match Typing.desc (Ctype.expand_head env t) with
    | Tarrow (label, argument, result, _) ->
      let label_entry mark name t =
        entry "label" (mark ^ name) (fun () -> Some (Visible.scheme env t))
      in
      let found =
        match label, Typing.desc argument with
        | (Labelled name | Optional name), _ when List.mem name given -> found
        | Labelled name, _ when not optional -> label_entry "~" name argument :: found
        | Optional name, Tconstr (_, [ content ], _) when not optional ->
          label_entry "~" name content :: found
        | Optional name, _ -> label_entry "?" name argument :: found
        | _ -> found
      in
      all result found
    | _ -> found
  in
  match type_of env head with
  | Some t -> all t []
  | None -> []

let directives () =
  let table = (Toploop.directive_table [@alert "-deprecated"]) in
  Hashtbl.fold (fun name _ found -> entry "directive" name (fun () -> None) :: found) table []

let fits (position : Cursor.position) kind =
  match position, kind with
  | Any, _ -> true
  | Record, "field" -> true
  | (Expression | Record), ("value" | "constructor" | "exception" | "module") -> true
  | Type, ("type" | "module") -> true
  | Module, "module" -> true
  | Module_type, ("module type" | "module") -> true
  | Class, ("class" | "module") -> true
  | _ -> false

let is_identifier (e : Visible.entry) =
  match e.name.[0] with
  | 'a' .. 'z' | 'A' .. 'Z' | '_' | '~' | '?' | '\x80' .. '\xff' -> true
  | _ -> false

let local ~typed env name =
  let typ () =
    match Env.find_value_by_name (Longident.Lident name) env with
    | Path.Pident _, { val_type; _ } when typed -> Some (Visible.printed env Printtyp.type_expr val_type)
    | _ | (exception Not_found) -> None
  in
  entry "local" name typ

let names env path position locals =
  let there =
    Visible.entries env (Longident.unflatten path)
    |> List.filter (fun (e : Visible.entry) -> fits position e.kind && is_identifier e)
  in
  match position, path with
  | (Cursor.Expression | Record), [] ->
    let is_hidden (e : Visible.entry) =
      e.kind = "value" && List.exists (fun (local : Visible.entry) -> local.name = e.name) locals
    in
    locals @ List.filter (fun e -> not (is_hidden e)) there
  | _ -> there

(* Marks what the session and the source define. *)
let owned env =
  let own = Hashtbl.create 64 in
  List.iter (fun id -> Hashtbl.replace own (Ident.unique_name id) ()) (Workspace.own env);
  fun (entry : Visible.entry) ->
    let is_own path = List.exists (fun id -> Hashtbl.mem own (Ident.unique_name id)) (Path.heads path) in
    { entry; own = entry.kind = "local" || Option.fold ~none:false ~some:is_own entry.path }

let compare a b =
  match Bool.compare b.own a.own with
  | 0 -> Stdlib.compare (a.entry.name, a.entry.kind) (b.entry.name, b.entry.kind)
  | order -> order

let found source offset ~limit (tokens : Tokens.token array) { Cursor.context; start; from } =
  let prefix = String.sub source start (offset - start) in
  let { Surroundings.env; unfinished; typed } = Surroundings.at source tokens ~from in
  let entries =
    match (context : Cursor.t) with
    | Directive -> directives ()
    | Label { head; given; optional } -> labels env head ~given ~optional
    | Method text -> methods env text
    | Field (text, path) -> fields env text path
    | Name (path, position) ->
      let locals = List.sort_uniq String.compare (Tokens.locals unfinished) in
      names env path position (List.map (local ~typed env) locals)
  in
  let fitting =
    List.filter (fun (e : Visible.entry) -> String.starts_with ~prefix e.name) entries
    |> List.map (owned env)
    |> List.sort_uniq compare
  in
  let item { entry = { Visible.name; kind; typ; _ }; _ } = { name; kind; typ = typ () } in
  { start
  ; prefix
  ; shown = List.map item (List.filteri (fun i _ -> i < limit) fitting)
  ; total = List.length fitting
  ; interrupted = false
  }

let at source ~offset ~limit =
  ignore (Diagnostic.drain ());
  Interrupt.forget ();
  let nothing =
    { start = offset; prefix = ""; shown = []; total = 0; interrupted = false }
  in
  let complete tokens cursor =
    Typecheck.without_trace (fun () -> found source offset ~limit tokens cursor)
  in
  let result =
    match Tokens.before source offset with
    | None -> nothing
    | Some tokens -> (
      match Cursor.find source tokens offset with
      | None -> nothing
      | Some cursor -> (
        try complete tokens cursor
        with _ -> { nothing with interrupted = Interrupt.raised () }))
  in
  ignore (Diagnostic.drain ());
  result
