let armed = ref false
let broke = ref false

(* The environment as it was when the guard began. While it is still the current
   one, no phrase has run in this guard. *)
let env_before = ref Env.empty

(* [Toploop.execute_phrase] installs the new environment, runs the phrase (with
   [may_trace] set), then reads the values back to print them. An exception in
   that last stretch would put the old types over the new values, which in
   bytecode share their names: memory unsafety. *)
let harmless () = !Toploop.may_trace || !Toploop.toplevel_env == !env_before

let handler _ =
  if !armed && Compat.on_main_domain () && harmless () then begin
    broke := true;
    raise Sys.Break
  end

let install () = Sys.set_signal Sys.sigint (Sys.Signal_handle handler)

let guard f =
  env_before := !Toploop.toplevel_env;
  armed := true;
  match f () with
  | result -> armed := false; result
  | exception exn -> armed := false; raise exn

let raised () = !broke
let forget () = broke := false
