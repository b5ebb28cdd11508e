let install () =
  Clflags.native_code := true;
  Clflags.dlcode := true;
  Loader.install ()

let backtrace _printed = Loader.backtrace ()
