(* The OCaml end of src/bridge/mod.rs: each function is registered under the name by
   which Rust calls it. *)

external on_eval_thread : unit -> bool = "topup_on_eval_thread"

external toolchain_environment : unit -> string = "topup_toolchain_environment"
external phrase_attempted : unit -> unit = "topup_phrase_attempted"
external phrase_succeeded : string -> unit = "topup_phrase_succeeded"

let () =
  Interrupt.on_eval_thread := on_eval_thread;
  Toolchain.environment := toolchain_environment;
  Evaluation.succeeded := phrase_succeeded;
  Evaluation.attempted := phrase_attempted;
  Callback.register "topup_boot" Toplevel.boot;
  Callback.register "topup_eval" Toplevel.eval;
  Callback.register "topup_replay" Toplevel.replay;
  Callback.register "topup_recover" (fun skip source ->
      let numbers = List.filter_map int_of_string_opt (String.split_on_char ' ' skip) in
      Toplevel.recover ~skip:numbers source);
  Callback.register "topup_reset" Toplevel.reset;
  Callback.register "topup_env" (fun filter all limit -> Toplevel.env ~filter ~all ~limit);
  Callback.register "topup_program" (fun entry log -> Toplevel.program ~entry log);
  Callback.register "topup_load" Toplevel.load;
  Callback.register "topup_load_project" Toplevel.load_project;
  Callback.register "topup_by_hand" Archive.by_hand;
  Callback.register "topup_packages" Toplevel.packages;
  Callback.register "topup_lookup" Toplevel.lookup;
  Callback.register "topup_typecheck" Toplevel.typecheck;
  Callback.register "topup_complete" (fun source offset limit ->
      Toplevel.complete source ~offset ~limit);
  Callback.register "topup_flush" Toplevel.flush
