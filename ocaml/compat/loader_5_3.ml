type[@warning "-37"] loaded =
  | Ok of Obj.t
  | Err of string

external run_toplevel : string -> string -> loaded
  = "caml_natdynlink_run_toplevel"

module Backend = struct
  let symbol_for_global' = Compilenv.symbol_for_global'
  let closure_symbol = Compilenv.closure_symbol
  let really_import_approx = Import_approx.really_import_approx
  let import_symbol = Import_approx.import_symbol
  let size_int = Arch.size_int
  let big_endian = Arch.big_endian
  let max_sensible_number_of_arguments = Proc.max_arguments_for_tailcalls - 1
end

let middle_end =
  if Config.flambda then Flambda_middle_end.lambda_to_clambda
  else Closure_middle_end.lambda_to_clambda

exception Cannot_load of string
exception Not_loaded of string

(* "undefined symbol: camlUnix.getpid_12" is about the unit Unix. *)
let hint reason =
  match Scanf.sscanf reason "undefined symbol: %s" Fun.id with
  | exception _ -> ""
  | symbol ->
    let defined_by =
      match Scanf.sscanf symbol "caml%1[A-Z]%[A-Za-z0-9]" ( ^ ) with
      | "" | (exception _) -> "A library that this phrase uses"
      | unit_name -> "The implementation of " ^ unit_name
    in
    Printf.sprintf "\nHint: %s is not loaded; #load its .cmxs or .cmxa." defined_by

let () =
  Location.register_error_of_exn (function
    | Cannot_load reason ->
      Some (Location.errorf "Cannot load this phrase's code: %s%s" reason (hint reason))
    | Not_loaded unit_name ->
      Some
        (Location.errorf
           "The unit %s is not loaded since the session was reset.@.Hint: #require its \
            package, or #load its .cmxs or .cmxa."
           unit_name)
    | _ -> None)

let lookup symbol = Dynlink.unsafe_get_global_value ~bytecode_or_asm_symbol:symbol
let is_loaded symbol = Option.is_some (lookup symbol)
let unknown symbol = Option.is_none (lookup symbol)

external keep_backtrace : unit -> unit = "topup_keep_backtrace"
external kept_backtrace : unit -> Obj.t = "topup_kept_backtrace"

(* So that the linker does not drop it: phrases refer to it, which are loaded later. *)
let _ = keep_backtrace

let backtrace () =
  let kept = kept_backtrace () in
  if Obj.is_int kept then "" else Printexc.raw_backtrace_to_string (Obj.obj kept)

let call name argument =
  let primitive = Primitive.simple ~name ~arity:1 ~alloc:true in
  Lambda.Lprim (Pccall primitive, [ argument ], Loc_unknown)

(* The phrase's code in a handler that keeps the backtrace; on the way out through the
   runtime it would be lost. *)
let keeping_backtrace code =
  if Config.flambda then code
  else
    let exn = Ident.create_local "exn" in
    let raise_again = Lambda.Lprim (Praise Raise_reraise, [ Lvar exn ], Loc_unknown) in
    Lambda.Ltrywith
      (code, exn, Lsequence (call "topup_keep_backtrace" Lambda.lambda_unit, raise_again))

(* Once the code runs its file is not needed: nothing is left behind, however it ends. *)
let removing_first file code =
  let name = Lambda.Lconst (Const_immstring file) in
  Lambda.Lsequence (call "caml_sys_remove" name, code)

let remove file = try Sys.remove file with Sys_error _ -> ()

(* The object needs nothing but the symbols of this executable, so the C
   compiler's start files and libraries have no part in it. *)
let link objfile dll =
  let command =
    Printf.sprintf "exec ld -shared -o %s %s" (Filename.quote dll)
      (Filename.quote objfile)
  in
  if Ccomp.command command <> 0 then Asmlink.call_linker_shared [ objfile ] dll

external compiling : bool -> unit = "topup_compiling"

(* Commands of [f] find the compiler's tools, whatever user code made of the environment. *)
let with_tools f =
  compiling true;
  Fun.protect ~finally:(fun () -> compiling false) f

let before_compilation = ref ignore

let compile ppf program ~prefix =
  !before_compilation ();
  Asmgen.compile_implementation ~toplevel:unknown
    ~backend:(module Backend : Backend_intf.S)
    ~prefixname:prefix ~middle_end ~ppf_dump:ppf program

(* The dynamic linker names the file, which is gone by now. *)
let without_file dll reason =
  let prefix = dll ^ ": " in
  let n = String.length prefix in
  if String.starts_with ~prefix reason then
    String.sub reason n (String.length reason - n)
  else reason

let run dll phrase_name =
  Toploop.may_trace := true;
  match run_toplevel dll phrase_name with
  | Ok value ->
    Toploop.may_trace := false;
    Topcommon.Result value
  | Err reason ->
    Toploop.may_trace := false;
    raise (Cannot_load (without_file dll reason))
  | exception exn ->
    Toploop.may_trace := false;
    Topcommon.Exception exn

let is_outside = ref (fun _ -> false)

let rec check_units (lam : Lambda.lambda) =
  match lam with
  | Lprim (Pgetglobal id, [], _) when Ident.persistent id && !is_outside (Ident.name id) ->
    raise (Not_loaded (Ident.name id))
  | _ -> Lambda.shallow_iter ~tail:check_units ~non_tail:check_units lam

(* A full disk, or a folder that is not there. *)
let unassembled reason =
  Cannot_load
    (Printf.sprintf
       "%s; phrases are assembled in %s (TMPDIR): make room there, or see what is wrong with it"
       reason (Filename.get_temp_dir_name ()))

let assemble ppf phrase_name program =
  let dll = Filename.temp_file ("topup" ^ phrase_name) ".so" in
  let prefix = Filename.remove_extension dll in
  let objfile = prefix ^ Config.ext_obj in
  Fun.protect
    ~finally:(fun () -> remove objfile; remove dll)
    (fun () ->
      let size = program.Lambda.main_module_block_size in
      let code = Phrase_values.close ~name:phrase_name ~size program.code in
      let code = removing_first dll (keeping_backtrace code) in
      with_tools (fun () -> compile ppf { program with code } ~prefix);
      (* Some warnings come from the code's generation. *)
      Warnings.check_fatal ();
      with_tools (fun () -> link objfile dll);
      remove objfile;
      run dll phrase_name)

let load ppf phrase_name program =
  ignore (kept_backtrace ());
  check_units program.Lambda.code;
  try assemble ppf phrase_name program with Sys_error reason -> raise (unassembled reason)

let install () = Tophooks.register_loader ~lookup ~load
