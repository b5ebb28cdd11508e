let install () =
  Clflags.native_code := true;
  Clflags.dlcode := true;
  Loader.install ()

let backtrace _printed = Loader.backtrace ()

let remember = ignore
let forget_value _ = ()

let forget () =
  Phrase_values.forget ~lookup:Loader.lookup;
  Env.reset_cache ()
