let armed = ref false
let broke = ref false

(* The environment as it was when the guard began. While it is still the current
   one, no phrase has run in this guard. *)
let env_before = ref Env.empty

(* How many times the compiler may ignore a SIGINT: it does not take an exception well
   that may come anywhere. Rust sends one every 50 ms. *)
let patience = ref 0

let on_eval_thread = ref (fun () -> true)

let break () =
  broke := true;
  raise Sys.Break

(* [may_trace] says that user code runs. Between its end and the commit of its bindings the
   environment is neither the old one nor is user code running: an exception there would
   put the old types over the new values, which in bytecode share their names. *)
let handler _ =
  if !armed && Compat.on_main_domain () && !on_eval_thread () then
    if !Toploop.may_trace then break ()
    else if !Toploop.toplevel_env == !env_before then
      if !patience > 0 then decr patience else break ()

let install () = Sys.set_signal Sys.sigint (Sys.Signal_handle handler)

let guard ?(compiler_patience = 0) f =
  env_before := !Toploop.toplevel_env;
  patience := compiler_patience;
  armed := true;
  match f () with
  | result -> armed := false; result
  | exception exn -> armed := false; raise exn

exception Ended of int

let () = Callback.register_exception "topup_ended" (Ended 0)
let raised () = !broke
let forget () = broke := false
