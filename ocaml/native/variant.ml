let install () =
  Clflags.native_code := true;
  Clflags.dlcode := true;
  Loader.install ()

let backtrace _printed = Loader.backtrace ()

(* Asked first: where there is none, the toplevel's own function prints and dies. *)
let rec is_loaded : Env.address -> bool = function
  | Adot (address, _) -> is_loaded address
  | Aident id ->
    (not (Ident.persistent id || Ident.global id))
    || Loader.is_loaded (Compilenv.symbol_for_global id)

let value env path =
  match is_loaded (Env.find_value_address path env) with
  | true -> Some (Toploop.eval_value_path env path)
  | false | (exception _) -> None

let remember = ignore
let forget_value _ = ()

let forget () =
  Phrase_values.forget ~lookup:Loader.lookup;
  Env.reset_cache ()
