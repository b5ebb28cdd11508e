(* The OCaml end of src/bridge.rs: each function is registered under the name by
   which Rust calls it. *)

external on_eval_thread : unit -> bool = "topup_on_eval_thread"

let () =
  Interrupt.on_eval_thread := on_eval_thread;
  Callback.register "topup_boot" Toplevel.boot;
  Callback.register "topup_eval" Toplevel.eval;
  Callback.register "topup_env" (fun filter all limit -> Toplevel.env ~filter ~all ~limit);
  Callback.register "topup_flush" Toplevel.flush
